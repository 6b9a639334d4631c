//! The name of the store's system.

use tower_chat_history_core::{CompactionVersion, Cut, Expect, Load, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::SYSTEM;

/// The name is the same at every call, whatever is called in between.
pub async fn the_name_does_not_change(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let name = chat.store.system();
    assert_ne!(name, "");
    let same = |when: &str| assert_eq!(chat.store.system(), name, "{when}");
    for _ in 0..3 {
        same("asked again");
    }
    chat.load(Load::new()).await;
    same("after a load of nothing");
    let added = chat.add_turns(3).await;
    same("after appends");
    chat.window(Load::new()).await;
    chat.log().await;
    same("after a load and a read");
    let repeated = chat.append(Expect::Absent, (*added[0].exchange).clone()).await;
    repeated.must("it is a repeat", &clause::IDEMPOTENT);
    assert_conflict(chat.append(Expect::Absent, turn_of("refused")).await, chat.revision().await);
    same("after a refusal");
    chat.cut(CompactionVersion::NONE, Cut::window_from(Seq::new(1))).await;
    same("after a compaction");
    chat.delete().await;
    same("after a deletion");
}

/// All handles on one storage have the same name.
pub async fn the_name_is_the_same_through_all_handles(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let name = chat.store.system();
    for other in chat.handles(fixture, 3).await {
        assert_eq!(other.store.system(), name, "through another handle");
        other.add_turns(1).await;
        assert_eq!(other.store.system(), name, "after an append through another handle");
        assert_eq!(chat.store.system(), name, "after an append of another handle");
    }
}
