//! The registry of conversations: their names in order, and the erasures. It is divided into slots, so that the nodes
//! of a Cluster share it.
//!
//! # Decisions
//!
//! - **A conversation is registered before it is created.** In a Cluster, no script can write the name and the
//!   conversation in one step. Stamps of the registry order creations and deletions, so a delayed first turn doesn't
//!   bring back what was erased.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::try_join_all;
use redis::Value;
use tower_chat_history_core::{ConversationId, Cursor, Epoch, Prefix, StoreError, backend::KeyRange};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    call::{Call, Shared},
    error::UnexpectedReply,
    reply::Reply,
    scripts::{self, Script},
};

/// The number of slots. It is a part of the layout.
const SLOTS: u8 = 16;

/// The parts of a slot's keys after the hash tag, in the order that the scripts use.
const PARTS: [&str; 4] = [":names", ":registered", ":erasures", ":epochs"];

/// The age from which on a name may belong to no conversation, if conversations expire sooner than that. It is longer
/// than a registration is valid.
pub(crate) const MIN_AGE: Duration = Duration::from_secs(3_600);

/// The largest number of names of a page.
const MAX_NAMES: usize = 1_000;

/// The number of names to read from each slot in addition to twice its share, because names are not spread evenly.
const MORE_NAMES: usize = 8;

/// A part of the registry, whose keys are on one node of a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u8);

impl Slot {
    /// Returns the slot of a conversation: the XXH3 hash of its id, modulo the number of slots.
    pub(crate) fn of(id: &ConversationId) -> Self {
        // The remainder is less than the number of slots.
        Self((xxh3_64(id.as_str().as_bytes()) % u64::from(SLOTS)) as u8)
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS).map(Self)
    }

    /// Returns the slot's keys. No id contains `!`, so they are not those of a conversation.
    fn keys(self, prefix: &str) -> Vec<String> {
        PARTS.iter().map(|part| format!("{prefix}{{!{}}}{part}", self.0)).collect()
    }

    /// Adds the slot's keys to a call that has the keys of a conversation.
    pub(crate) fn add_to<'a>(self, call: Call<'a>, shared: &Shared) -> Call<'a> {
        call.with_keys(self.keys(&shared.options.prefix))
    }

    pub(crate) fn call<'a>(self, shared: &Shared, script: &'a Script) -> Call<'a> {
        Call::new(script, self.keys(&shared.options.prefix))
    }
}

/// A stamp of a slot's registry (see `scripts/registry.lua`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    /// The stamp before all others.
    pub(crate) const NONE: Self = Self(0);
}

/// Returns a stamp that is greater than those of all earlier registrations of the slot, and greater than `above`.
pub(crate) async fn stamp(shared: &Shared, slot: Slot, above: Stamp) -> Result<Stamp, StoreError> {
    let reply = shared.run(&slot.call(shared, &scripts::STAMP).number(above.0)).await?;
    read_stamp(reply)
}

/// Records the deletion of a conversation. Returns the epoch as a stamp.
pub(crate) async fn bar_id(shared: &Shared, id: &ConversationId) -> Result<Stamp, StoreError> {
    let call = Slot::of(id).call(shared, &scripts::BAR).number(0).owned(format!("={id}"));
    read_stamp(shared.run(&call).await?)
}

/// Records an erasure of everything under a prefix, in all slots.
pub(crate) async fn bar(shared: &Shared, under: &Prefix) -> Result<(), StoreError> {
    let erased = format!("{under}/");
    let calls: Vec<_> = Slot::all().map(|slot| slot.call(shared, &scripts::BAR).number(0).text(&erased)).collect();
    for reply in try_join_all(calls.iter().map(|call| shared.run(call))).await? {
        read_stamp(reply)?;
    }
    Ok(())
}

/// Returns the epoch of a conversation's slot.
pub(crate) async fn epoch(shared: &Shared, id: &ConversationId) -> Result<Epoch, StoreError> {
    let mut reply = shared.run(&Slot::of(id).call(shared, &scripts::EPOCH)).await?;
    match reply.word.as_str() {
        "epoch" => reply.number().map(Epoch::new),
        _ => Err(UnexpectedReply::error()),
    }
}

fn read_stamp(mut reply: Reply) -> Result<Stamp, StoreError> {
    match reply.word.as_str() {
        "stamp" => reply.number().map(Stamp),
        _ => Err(UnexpectedReply::error()),
    }
}

/// The registration of a conversation that is about to be created.
pub(crate) struct Registration {
    pub(crate) stamp: Stamp,
    /// The time of the registration in microseconds.
    pub(crate) time: u64,
    /// Old names, whose conversations may have expired.
    pub(crate) stale: Vec<(ConversationId, Stamp)>,
}

/// Registers a conversation, so that listings and erasures find it from now on. The registration is valid for fifteen
/// minutes. Returns `None` if the conversation was erased since the epoch.
pub(crate) async fn register(
    shared: &Shared,
    id: &ConversationId,
    since: Option<Epoch>,
) -> Result<Option<Registration>, StoreError> {
    let age = shared.options.expire_after.map(|time| time.max(MIN_AGE).as_micros());
    let call = Slot::of(id).call(shared, &scripts::REGISTER).text(id.as_str());
    let call = call.owned(since.map(|epoch| epoch.get().to_string()).unwrap_or_default());
    let call = call.owned(age.map(|age| age.to_string()).unwrap_or_default());

    let mut reply = shared.run(&call).await?;
    match reply.word.as_str() {
        "registered" => {
            let stamp = Stamp(reply.number()?);
            let time = reply.number()?;
            let stale = stale(&mut reply)?;
            Ok(Some(Registration { stamp, time, stale }))
        }
        "erased" => Ok(None),
        "full" => Err(reply.full(id.as_str().len())?),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Reads names and their stamps, which alternate.
fn stale(reply: &mut Reply) -> Result<Vec<(ConversationId, Stamp)>, StoreError> {
    let values = reply.list()?;
    values.chunks_exact(2).map(|pair| name_and_stamp(pair).ok_or_else(UnexpectedReply::error)).collect()
}

fn name_and_stamp(pair: &[Value]) -> Option<(ConversationId, Stamp)> {
    let [Value::BulkString(name), Value::BulkString(stamp)] = pair else { return None };
    let id = std::str::from_utf8(name).ok()?.parse().ok()?;
    let stamp = std::str::from_utf8(stamp).ok()?.parse().ok()?;
    Some((id, Stamp(stamp)))
}

/// A name to remove, if it was registered before the stamp.
pub(crate) struct NameRemoval<'a> {
    pub(crate) id: &'a ConversationId,
    pub(crate) before: Stamp,
}

/// Removes the names of conversations that do not exist. Calls that registered them before the stamps cannot create the
/// conversations any more.
pub(crate) async fn forget(shared: &Shared, names: &[NameRemoval<'_>]) -> Result<(), StoreError> {
    let mut by_slot = BTreeMap::<Slot, Vec<&NameRemoval<'_>>>::new();
    for name in names {
        by_slot.entry(Slot::of(name.id)).or_default().push(name);
    }

    let mut calls = Vec::with_capacity(by_slot.len());
    for (slot, names) in by_slot {
        let call = slot.call(shared, &scripts::FORGET);
        calls.push(names.iter().fold(call, |call, name| call.text(name.id.as_str()).number(name.before.0)));
    }

    for reply in try_join_all(calls.iter().map(|call| shared.run(call))).await? {
        if reply.word != "forgotten" {
            return Err(UnexpectedReply::error());
        }
    }
    Ok(())
}

/// Removes the name of a conversation if there is no such conversation.
pub(crate) async fn drop_name(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let before = stamp(shared, Slot::of(id), Stamp::NONE).await?;
    let reply = shared.run(&shared.call(&scripts::FENCE, id).number(before.0)).await?;
    match reply.word.as_str() {
        "fenced" => forget(shared, &[NameRemoval { id, before }]).await,
        "exists" => Ok(()),
        _ => Err(UnexpectedReply::error()),
    }
}

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
    let parts = read_parts(shared, &keys, each, purpose).await?;
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
async fn read_parts(shared: &Shared, keys: &KeyRange, each: usize, purpose: NamesFor) -> Result<Vec<Part>, StoreError> {
    let mut calls = Vec::with_capacity(usize::from(SLOTS));
    for slot in Slot::all() {
        let call = slot.call(shared, &scripts::NAMES).text(&keys.after).text(&keys.before);
        let call = call.number(each as u64).number(u64::from(purpose == NamesFor::Erase));
        let exact = keys.exact.as_ref().filter(|id| Slot::of(id) == slot);
        calls.push(call.text(exact.map_or("", |id| id.as_str())));
    }

    let replies = try_join_all(calls.iter().map(|call| shared.run(call))).await?;
    replies.into_iter().map(part).collect()
}

fn part(mut reply: Reply) -> Result<Part, StoreError> {
    if reply.word != "names" {
        return Err(UnexpectedReply::error());
    }

    let time = reply.number()?;
    let stamp = Stamp(reply.number()?);
    let ids = reply.ids()?;
    let stamps = reply.numbers()?;

    let names = ids.into_iter().zip(stamps).map(|(id, stamp)| Name { id, registered: Some(Stamp(stamp)) });
    Ok(Part { time, stamp, names: names.collect() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_of_an_id_never_changes() {
        for (id, slot) in [("a", 15), ("b", 15), ("acme/user-42", 3)] {
            assert_eq!(Slot::of(&id.parse().unwrap()), Slot(slot), "{id}");
        }
    }

    #[test]
    fn ids_spread_over_all_slots() {
        let mut found = [0; SLOTS as usize];
        for number in 0..1_600 {
            let Slot(slot) = Slot::of(&format!("acme/user-{number}").parse().unwrap());
            found[usize::from(slot)] += 1;
        }
        assert!(found.iter().all(|ids| (60..140).contains(ids)), "{found:?}");
    }
}
