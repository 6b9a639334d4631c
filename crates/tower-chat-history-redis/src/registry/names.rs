//! Reading the names under a prefix in order.

use futures_util::future::try_join_all;
use tower_chat_history_core::{ConversationId, Cursor, Prefix, StoreError, backend::KeyRange};

use super::{SLOTS, Slot, Stamp};
use crate::{call::Shared, error::UnexpectedReply, reply::Reply, scripts};

/// The largest number of names of a page.
const MAX_NAMES: usize = 1_000;

/// The number of names to read from each slot in addition to twice its share, because names are not spread evenly.
const MORE_NAMES: usize = 8;

/// A page of names.
pub(crate) struct NamesPage {
    pub(crate) names: Vec<Name>,
    pub(crate) next: Option<Cursor>,
    /// The time of each slot in microseconds, and a stamp if the call asked for it.
    slots: Vec<(u64, Stamp)>,
}

/// A name in the registry, or the id that a prefix consists of, which may not be registered.
pub(crate) struct Name {
    pub(crate) id: ConversationId,
    /// The stamp of its last registration, or `None` if it is not registered.
    pub(crate) registered: Option<Stamp>,
}

impl NamesPage {
    /// Returns the time of the name's slot when the page was read, in microseconds.
    pub(crate) fn time(&self, id: &ConversationId) -> u64 {
        self.slot(id).0
    }

    /// Returns a stamp that is greater than all registrations that the page shows.
    pub(crate) fn stamp(&self, id: &ConversationId) -> Stamp {
        self.slot(id).1
    }

    fn slot(&self, id: &ConversationId) -> (u64, Stamp) {
        let Slot(slot) = Slot::of(id);
        self.slots.get(usize::from(slot)).copied().unwrap_or((0, Stamp::NONE))
    }
}

/// The answer of one slot.
struct Part {
    time: u64,
    stamp: Stamp,
    names: Vec<Name>,
}

/// The call for which names are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamesFor {
    List,
    /// The page also has the id that the prefix consists of, even if its name was lost.
    Count,
    /// As for `Count`. Each slot also returns a stamp.
    Erase,
}

/// Reads at most `limit` names after the cursor. The page may have fewer, but if it is not the last one it has at least
/// one.
pub(crate) async fn names(
    shared: &Shared,
    under: &Prefix,
    cursor: Option<&Cursor>,
    limit: usize,
    purpose: NamesFor,
) -> Result<NamesPage, StoreError> {
    let limit = limit.clamp(1, MAX_NAMES);
    let each = 2 * limit.div_ceil(usize::from(SLOTS)) + MORE_NAMES;
    let keys = KeyRange::new(under, cursor);
    let parts = read(shared, &keys, each, purpose).await?;
    let slots = parts.iter().map(|part| (part.time, part.stamp)).collect();
    let (mut names, mut is_more) = merged(parts, each);

    // The exact id is before all others.
    if let Some(exact) = keys.exact
        && purpose != NamesFor::List
        && names.first().is_none_or(|first| first.id != exact)
    {
        names.insert(0, Name { id: exact, registered: None });
    }
    if names.len() > limit {
        names.truncate(limit);
        is_more = true;
    }
    let next = names.last().filter(|_| is_more).map(|last| Cursor::after(last.id.clone()));
    Ok(NamesPage { names, next, slots })
}

/// Reads at most `each` names of each slot, and the exact id.
async fn read(shared: &Shared, keys: &KeyRange, each: usize, purpose: NamesFor) -> Result<Vec<Part>, StoreError> {
    let calls = Slot::all().map(|slot| {
        let call = slot.call(shared, &scripts::NAMES).text(&keys.after).text(&keys.before);
        let call = call.number(each as u64).number(u64::from(purpose == NamesFor::Erase));
        let exact = keys.exact.as_ref().filter(|id| Slot::of(id) == slot);
        call.text(exact.map_or("", |id| id.as_str()))
    });
    let calls: Vec<_> = calls.collect();
    let replies = try_join_all(calls.iter().map(|call| shared.run(call))).await?;
    replies.into_iter().map(part).collect()
}

fn part(mut reply: Reply) -> Result<Part, StoreError> {
    if reply.word != "names" {
        return Err(UnexpectedReply::error());
    }
    let (time, stamp) = (reply.number()?, Stamp(reply.number()?));
    let (ids, stamps) = (reply.ids()?, reply.numbers()?);
    let name = |(id, stamp)| Name { id, registered: Some(Stamp(stamp)) };
    Ok(Part { time, stamp, names: ids.into_iter().zip(stamps).map(name).collect() })
}

/// Merges the names of all slots, in order. A slot that returned `each` names may have more, so later names of other
/// slots are left out. Also returns `true` if there may be later names.
fn merged(parts: Vec<Part>, each: usize) -> (Vec<Name>, bool) {
    let full = parts.iter().filter(|part| part.names.len() >= each);
    let end = full.filter_map(|part| part.names.last()).map(|last| last.id.clone()).min();
    let mut names: Vec<Name> = parts.into_iter().flat_map(|part| part.names).collect();
    if let Some(end) = &end {
        names.retain(|name| name.id <= *end);
    }
    names.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    (names, end.is_some())
}
