//! Late calls: the incarnation that they name has ended, and the next one has begun.

use tower_chat_history_core::{
    Append, Compact, Compaction, CompactionVersion, Cut, Derived, Expect, Incarnation, Load, Loaded, Profile, PruneTo,
    Recorded, Revision, Seq,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::DELETION;

/// A conversation in its second incarnation, and the revision at which the first one ended.
struct Late {
    chat: Chat,
    ended: Revision,
    log: Vec<Recorded>,
    compaction: Compaction,
}

impl Late {
    /// Creates two incarnations with the same number of exchanges and the same compaction version, so that only the
    /// incarnation differs.
    async fn new(chat: Chat) -> Self {
        chat.add_turns(4).await;
        chat.cut(CompactionVersion::NONE, Cut::window_from(Seq::new(1))).await;
        let ended = chat.revision().await;
        chat.delete().await;
        let log = chat.add_turns(4).await;
        let compaction = chat.cut(CompactionVersion::NONE, summary_to(1, "the second life")).await;
        Self { chat, ended, log, compaction }
    }

    /// Asserts that the second incarnation is unchanged.
    async fn is_untouched(&self) {
        assert_eq!(self.chat.log().await, self.log);
        let window = self.chat.window(Load::new()).await;
        assert_ne!(window.revision.incarnation(), self.ended.incarnation());
        assert_eq!(window.revision.version(), self.log.len() as u64);
        assert_eq!(window.compaction.as_ref(), Some(&self.compaction));
        assert_eq!(window.exchanges, self.log[1..]);
        assert_eq!(self.chat.load(Load::new().known(window.known())).await, Loaded::Unchanged);
    }

    fn incarnation(&self) -> Incarnation {
        self.ended.incarnation()
    }
}

/// A compaction for an ended incarnation replaces none in the next one, whatever version it names.
pub async fn a_late_compaction_does_not_reach_the_next_incarnation(fixture: &dyn Fixture) {
    let late = Late::new(Chat::new(fixture).await).await;
    for replaces in [CompactionVersion::NONE, late.compaction.version] {
        let compact = Compact::new(Profile::default(), replaces, summary_to(2, "the first life"));
        assert_gone(late.chat.store.compact(&late.chat.id, late.incarnation(), compact).await);
    }
    late.is_untouched().await;
}

/// An append to an ended incarnation adds nothing to the next one, and its compaction is not stored there.
pub async fn a_late_append_does_not_reach_the_next_incarnation(fixture: &dyn Fixture) {
    let late = Late::new(Chat::new(fixture).await).await;
    for expect in [Expect::Exactly(late.ended), Expect::AnyIn(late.incarnation())] {
        assert_gone(late.chat.append(expect, turn_of("late")).await);
        let cut = summary_to(2, "the first life");
        let compact = Compact::new(Profile::default(), late.compaction.version, cut);
        let append = Append::new(expect, turn_of("late")).compact(compact);
        assert_gone(late.chat.store.append(&late.chat.id, append).await);
    }
    late.is_untouched().await;
}

/// A truncation of an ended incarnation removes nothing of the next one, neither a part of the log nor all of it.
pub async fn a_late_truncation_does_not_reach_the_next_incarnation(fixture: &dyn Fixture) {
    let editable = Editable::new(fixture).await;
    let late = Late::new(editable.chat.with_id(editable.chat.id.clone())).await;
    for len in [0, 2, 4] {
        assert_gone(editable.truncate(late.ended, len).await);
    }
    late.is_untouched().await;
}

/// A prune of an ended incarnation removes nothing of the next one, whatever happens to derived data.
pub async fn a_late_prune_does_not_reach_the_next_incarnation(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let late = Late::new(prunable.chat.with_id(prunable.chat.id.clone())).await;
    for derived in [Derived::Keep, Derived::Erase] {
        let id = &prunable.chat.id;
        assert_gone(prunable.store.prune(id, late.incarnation(), PruneTo::LastTurns(1), derived).await);
    }
    late.is_untouched().await;
}
