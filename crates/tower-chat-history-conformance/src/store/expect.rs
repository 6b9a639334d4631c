//! Refused appends: the log is not as the caller expected.

use tower_chat_history_core::{Expect, Incarnation, Load, Loaded, Revision};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::CONDITIONAL;

/// An append that expects `Absent` conflicts with an existing conversation.
pub async fn absent_conflicts_with_an_existing_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(1).await;
    let at = chat.revision().await;
    assert_conflict(chat.append(Expect::Absent, turn_of("again")).await, at);
    assert_eq!(chat.log().await, added);
}

/// An append that expects `Exactly` an earlier revision conflicts. The error names the current revision if the store
/// knows it.
pub async fn a_stale_revision_conflicts(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut added = chat.add_turns(1).await;
    let stale = chat.revision().await;
    added.extend(chat.add_turns(2).await);
    let at = chat.revision().await;
    assert_conflict(chat.append(Expect::Exactly(stale), turn_of("late")).await, at);
    assert_eq!(chat.log().await, added);
}

/// An append that expects `Exactly` a revision that the log never had in this incarnation conflicts, however large the
/// revision's number is.
pub async fn a_revision_that_never_existed_conflicts(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(2).await;
    let at = chat.revision().await;
    let never = Revision::new(at.incarnation(), u64::MAX);
    assert_conflict(chat.append(Expect::Exactly(never), turn_of("x")).await, at);
    assert_eq!(chat.log().await, added);
}

/// A refused append changes neither the log nor the revision, and its exchange id stays free.
pub async fn a_conflict_changes_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut added = chat.add_turns(2).await;
    let before = chat.window(Load::new()).await;
    let refused = turn_of("refused");
    assert_conflict(chat.append(Expect::Absent, refused.clone()).await, before.revision);
    assert_eq!(chat.window(Load::new()).await, before);
    let asked = Load::new().known(before.known()).exchange(refused.id.clone());
    assert_eq!(chat.load(asked).await, Loaded::Unchanged, "the refused exchange counts as recorded");
    added.push(chat.add(refused).await);
    assert_eq!(chat.log().await, added);
}

/// An append that expects `Exactly` a revision of another incarnation is refused with `Gone`.
pub async fn a_revision_of_another_incarnation_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(1).await;
    let version = chat.revision().await.version();
    let other = Revision::new(Incarnation::random(), version);
    assert_gone(chat.append(Expect::Exactly(other), turn_of("x")).await);
    assert_eq!(chat.log().await, added);
}

/// An append that expects `AnyIn` another incarnation is refused with `Gone`.
pub async fn another_incarnation_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(1).await;
    assert_gone(chat.append(Expect::AnyIn(Incarnation::random()), turn_of("x")).await);
    assert_eq!(chat.log().await, added);
}

/// An append that expects `Exactly` or `AnyIn` never creates a conversation.
pub async fn an_absent_conversation_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let incarnation = Incarnation::random();
    assert_gone(chat.append(Expect::AnyIn(incarnation), turn_of("x")).await);
    assert_gone(chat.append(Expect::Exactly(Revision::new(incarnation, 1)), turn_of("x")).await);
    assert_gone(chat.append(Expect::Exactly(Revision::new(incarnation, 0)), turn_of("x")).await);
    chat.assert_absent().await;
}
