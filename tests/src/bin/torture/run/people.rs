//! The conversations of [people](crate::people): what the workers reported of them, and the check of what is stored.

use std::collections::BTreeMap;

use tower_chat_history::{
    BoxError, ConversationId, HistoryStoreExt as _,
    store::{Erase as _, EraseExt as _, List as _, Listed, Prefix, Removed},
};

use super::verify::Found;
use crate::{
    people::{MAX_EXCHANGES, Owned, Person, State, everyone},
    store::Store,
};

/// The number of conversations per page of a listing.
const PAGE: usize = 50;

/// The last reported state of each conversation.
#[derive(Debug, Default)]
pub(crate) struct People {
    states: BTreeMap<Owned, State>,
    pub(crate) stored: u64,
    pub(crate) removed: u64,
    /// The late calls that were refused.
    pub(crate) refused: u64,
}

impl People {
    pub(crate) fn note(&mut self, owned: Owned, state: State) {
        self.stored += u64::from(matches!(state, State::Kept { .. }));
        self.removed += u64::from(state == State::Removed);
        self.states.insert(owned, state);
    }

    /// Returns the people of whom a worker that was killed has left a removal unfinished.
    fn interrupted(&self) -> Vec<Person> {
        let removing = self.states.iter().filter(|(_, state)| matches!(state, State::Removing { .. }));
        let mut people: Vec<_> = removing.map(|(owned, _)| owned.person).collect();
        people.dedup();
        people
    }
}

/// Checks that exactly the conversations of people are stored that must be. Then completes the interrupted removals,
/// and erases everyone. The receipts must have the numbers of what was listed.
pub(super) async fn check(store: &Store, people: &People, found: &mut Found) {
    if let Err(error) = all(store, people, found).await {
        found.violations.push(format!("the conversations of people cannot be checked: {error}"));
    }
}

async fn all(store: &Store, people: &People, found: &mut Found) -> Result<(), BoxError> {
    let listed = list(store, &everyone()?).await?;
    let mut by_id: BTreeMap<String, &Listed> =
        listed.iter().map(|entry| (entry.id.as_str().to_owned(), entry)).collect();
    if by_id.len() != listed.len() {
        found.violations.push("a listing has a conversation twice".to_owned());
    }
    for (owned, state) in &people.states {
        let entry = by_id.remove(owned.id()?.as_str());
        found.violations.extend(check_state(*owned, *state, entry).err());
        let (State::Begins { life } | State::Kept { life, .. } | State::Removing { life }) = *state else { continue };
        let Some(entry) = entry else { continue };
        found.violations.extend(check_log(store, *owned, life, entry).await?.err());
        // The labels are stored after the exchanges.
        let may_lack_labels = matches!(state, State::Begins { .. }) && entry.labels.is_empty();
        if entry.labels != owned.labels(life)? && !may_lack_labels {
            found.violations.push(format!("{owned} has other labels"));
        }
    }
    found.violations.extend(by_id.keys().map(|id| format!("{id} is stored, and no worker began it")));
    found.people = listed.len() as u64;
    let mut left = listed;
    for person in people.interrupted() {
        let under = person.prefix()?;
        found.violations.extend(erase(store, &under, &left).await?.err());
        found.interrupted += 1;
        left.retain(|entry| !under.contains(&entry.id));
    }
    found.violations.extend(erase(store, &everyone()?, &left).await?.err());
    Ok(())
}

/// Lists all conversations under a prefix.
pub(super) async fn list(store: &Store, under: &Prefix) -> Result<Vec<Listed>, BoxError> {
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(under, after.as_ref(), PAGE).await?;
        listed.extend(page.conversations);
        after = page.next;
        if after.is_none() {
            return Ok(listed);
        }
    }
}

/// Checks that a conversation exists if and only if it must.
fn check_state(owned: Owned, state: State, entry: Option<&Listed>) -> Result<(), String> {
    match (state, entry) {
        (State::Begins { .. } | State::Removing { .. }, _) | (State::Removed, None) => Ok(()),
        (State::Removed, Some(_)) => Err(format!("{owned} was removed and is stored")),
        (State::Kept { .. }, None) => Err(format!("{owned} was kept and is lost")),
        (State::Kept { exchanges, .. }, Some(entry)) if entry.revision.len() == exchanges => Ok(()),
        (State::Kept { exchanges, .. }, Some(entry)) => {
            Err(format!("{owned} had {exchanges} exchanges and is at {}", entry.revision))
        }
    }
}

/// Checks that a conversation has the exchanges of its life from the first one on.
async fn check_log(store: &Store, owned: Owned, life: u32, entry: &Listed) -> Result<Result<(), String>, BoxError> {
    let log = store.conversation(&entry.id).exchanges().await?;
    let mut bytes = 0;
    for (seq, recorded) in (0..).zip(&log) {
        bytes += recorded.exchange.bytes() as u64;
        if recorded.seq.get() != seq || *recorded.exchange != owned.exchange(life, seq)? {
            return Ok(Err(format!("{owned} has another exchange at {seq}")));
        }
    }
    let len = log.len() as u64;
    if len == 0 || len > MAX_EXCHANGES || (entry.revision.len(), entry.bytes) != (len, bytes) {
        let (listed, in_bytes) = (entry.revision, entry.bytes);
        return Ok(Err(format!(
            "{owned} has {len} exchanges of {bytes} bytes, and {listed}, {in_bytes} in the listing"
        )));
    }
    Ok(Ok(()))
}

/// Erases what is left under a prefix. The receipt must say what was listed there, and nothing may be left.
async fn erase(store: &Store, under: &Prefix, listed: &[Listed]) -> Result<Result<(), String>, BoxError> {
    let mut expected = Removed::default();
    for entry in listed.iter().filter(|entry| under.contains(&entry.id)) {
        expected.conversations += 1;
        expected.exchanges += entry.revision.len();
        expected.exchange_ids += entry.revision.len();
        expected.bytes += entry.bytes;
        expected.labels += u64::from(!entry.labels.is_empty());
    }
    let mut counted = store.count(under).await?.total();
    let receipt = store.erase_all(under).await?;
    let erased = receipt.removed.total();
    // Calls that were killed may have left names without conversations. A receipt does not have those that another
    // removal left, because it may still be running.
    expected.names = erased.names;
    counted.names = counted.names.min(erased.names);
    if !receipt.is_complete() || erased != expected || counted != expected {
        return Ok(Err(format!(
            "under {under}, {counted:?} was counted and {erased:?} erased. It must be {expected:?}"
        )));
    }
    let left: Vec<ConversationId> = list(store, under).await?.into_iter().map(|entry| entry.id).collect();
    Ok(if left.is_empty() { Ok(()) } else { Err(format!("under {under} is still listed: {left:?}")) })
}

#[cfg(test)]
mod tests {
    use tower_chat_history::store::{Incarnation, Revision, Timestamp};

    use super::*;

    #[test]
    fn a_conversation_that_returned_or_was_lost_is_found() {
        let owned = Person { worker: 1, number: 2 }.at(3);
        let now = Timestamp::now();
        let entry = Listed::new(owned.id().unwrap(), Revision::new(Incarnation::random(), 2), now, now, 9);
        let kept = |exchanges| State::Kept { life: 1, exchanges };
        for (state, entry, is_right) in [
            (State::Removed, None, true),
            (State::Removed, Some(&entry), false),
            (kept(2), Some(&entry), true),
            (kept(3), Some(&entry), false),
            (kept(2), None, false),
            (State::Begins { life: 1 }, None, true),
            (State::Removing { life: 1 }, Some(&entry), true),
        ] {
            assert_eq!(check_state(owned, state, entry).is_ok(), is_right, "{state:?}");
        }
    }

    #[test]
    fn interrupted_removals_are_known() {
        let mut people = People::default();
        let person = |number| Person { worker: 1, number };
        for (number, state) in [(0, State::Removed), (1, State::Removing { life: 1 }), (2, State::Begins { life: 1 })] {
            people.note(person(number).at(0), State::Kept { life: 1, exchanges: 1 });
            people.note(person(number).at(0), state);
        }
        people.note(person(1).at(1), State::Removing { life: 1 });
        assert_eq!(people.interrupted(), [person(1)]);
        assert_eq!((people.stored, people.removed), (3, 1));
    }
}
