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
    /// The names among them that are no ids, because another program wrote them.
    pub(crate) foreign: Vec<RegisteredName>,
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

/// A name as it is stored, which may be no id.
pub(crate) struct RegisteredName {
    pub(crate) slot: Slot,
    pub(crate) name: Vec<u8>,
    pub(crate) registered: Stamp,
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
    names: Vec<RegisteredName>,
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
    let KeyRange { mut exact, after, before, .. } = KeyRange::new(under, cursor);
    let (mut after, mut foreign) = (after.into_bytes(), Vec::new());
    loop {
        let parts = read(shared, exact.as_ref(), &after, &before, each, purpose).await?;
        let slots = parts.iter().map(|part| (part.time, part.stamp)).collect();
        let (found, end) = merged(parts, each);
        let mut page = NamesPage { names: Vec::new(), foreign, next: None, slots };
        let is_cut = page.fill(exact.take().filter(|_| purpose != NamesFor::List), found, limit);
        match end {
            // Names of another program took the places of others.
            Some(end) if page.names.is_empty() => (after, foreign) = (end, page.foreign),
            end => {
                page.end(is_cut || end.is_some());
                return Ok(page);
            }
        }
    }
}

impl NamesPage {
    /// Adds at most `limit` of the names, which are in order, and before them the exact one if it is not among them.
    /// Returns `true` if some were left out.
    fn fill(&mut self, exact: Option<ConversationId>, found: Vec<RegisteredName>, limit: usize) -> bool {
        let is_missing =
            |exact: &ConversationId| found.first().is_none_or(|first| first.name != exact.as_str().as_bytes());
        self.names.extend(exact.filter(is_missing).map(|id| Name { id, registered: None }));
        for name in found {
            if self.names.len() >= limit {
                return true;
            }
            match std::str::from_utf8(&name.name).ok().and_then(|text| text.parse().ok()) {
                Some(id) => self.names.push(Name { id, registered: Some(name.registered) }),
                None => self.foreign.push(name),
            }
        }
        false
    }

    /// Ends the page at its last name if there are more. The next page has the names after it, also those that are no
    /// ids.
    fn end(&mut self, is_more: bool) {
        if let Some(last) = self.names.last().filter(|_| is_more) {
            self.foreign.retain(|foreign| foreign.name.as_slice() < last.id.as_str().as_bytes());
            self.next = Some(Cursor::after(last.id.clone()));
        }
    }
}

/// Reads at most `each` names of each slot.
async fn read(
    shared: &Shared,
    exact: Option<&ConversationId>,
    after: &[u8],
    before: &str,
    each: usize,
    purpose: NamesFor,
) -> Result<Vec<Part>, StoreError> {
    let calls = Slot::all().map(|slot| {
        let call = slot.call(shared, &scripts::NAMES).bytes(after).text(before);
        let call = call.number(each as u64).number(u64::from(purpose == NamesFor::Erase));
        call.text(exact.filter(|id| Slot::of(id) == slot).map_or("", |id| id.as_str()))
    });
    let calls: Vec<_> = calls.collect();
    let replies = try_join_all(calls.iter().map(|call| shared.run(call))).await?;
    Slot::all().zip(replies).map(|(slot, reply)| part(slot, reply)).collect()
}

fn part(slot: Slot, mut reply: Reply) -> Result<Part, StoreError> {
    if reply.word != "names" {
        return Err(UnexpectedReply::error());
    }
    let (time, stamp) = (reply.number()?, Stamp(reply.number()?));
    let (names, stamps) = (reply.byte_strings()?, reply.numbers()?);
    let name = |(name, stamp): (Vec<u8>, u64)| RegisteredName { slot, name, registered: Stamp(stamp) };
    Ok(Part { time, stamp, names: names.into_iter().zip(stamps).map(name).collect() })
}

/// Merges the names of all slots, in order. A slot that returned `each` names may have more, so later names of other
/// slots are left out. Also returns the last name that was not left out, or `None` if there is no later one.
fn merged(parts: Vec<Part>, each: usize) -> (Vec<RegisteredName>, Option<Vec<u8>>) {
    let full = parts.iter().filter(|part| part.names.len() >= each);
    let end = full.filter_map(|part| part.names.last()).map(|last| last.name.clone()).min();
    let mut names: Vec<RegisteredName> = parts.into_iter().flat_map(|part| part.names).collect();
    if let Some(end) = &end {
        names.retain(|name| name.name <= *end);
    }
    names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    (names, end)
}
