//! Taking exchanges off the beginning of a log: what not every store can do.

use std::sync::Arc;

use async_trait::async_trait;

use super::{HistoryStore, StoreError};
use crate::{
    conversation_id::ConversationId,
    revision::{Incarnation, Revision},
    seq::Seq,
};

/// A store that can remove the beginning of a conversation's log for good: to keep no more than a service needs, or to
/// forget what must be forgotten.
///
/// # Contract
///
/// - **Whole turns, and never all.** What stays begins with a turn's opening: a position within a turn stands for that turn's
///   opening. The newest turn stays in any case; what removes everything is [`delete`](HistoryStore::delete). (A late
///   continuation of a turn that was removed stays where it is.)
/// - **Positions stay.** No exchange that stays gets another position, and the next append has the next one. The log has no
///   gap from its [first](Revision::first) position on: reading from before it starts there, and a load's window too. That is
///   no [truncated](crate::Window::truncated) load.
/// - **Conditional and in one step.** It is done only in the incarnation that is named. Which exchanges are the last ones is
///   decided in that step. A caller that drops the future leaves a log that was pruned or one that was not.
/// - **The revision changes, its end does not.** What was [known](crate::Load::known) is not known any more, so nobody goes
///   on with what was removed. But turns in flight land: what [expects](crate::Expect::Exactly) the revision from before is
///   stored or [truncated](crate::Truncate) as long as [nothing was appended](Revision::has_same_end). An exchange may also
///   [continue](crate::Exchange::continues) one that was removed. Where nothing is removed, the revision stays.
/// - **Exchange ids.** Those of removed exchanges are free again: a call that is repeated later than that asks the model
///   again. Those that stay are recognised as before.
/// - **Compactions** stay as they are ([`Derived::Keep`]), also where their window starts at what was removed, and one that
///   was made from the log as it was is stored. A summary goes on telling of what it covers. [`Derived::Erase`] forgets that
///   as well.
/// - **Repeatable.** An error other than a refusal leaves the outcome open. A repeat removes what a first try would remove
///   now; where that begins a new incarnation, it is refused with [`Gone`](StoreError::Gone).
///
/// The handle of a [`Conversation`](crate::Conversation) has `keep_last_turns`, `keep_last_messages` and `prune` for such a
/// store. The trait can be used as `Arc<dyn Prune>`, and the conformance suite proves a store that has it (see
/// `Fixture::open_prune` there).
#[async_trait]
pub trait Prune: HistoryStore {
    /// Removes the exchanges before those that are to stay, if the conversation is in that incarnation.
    ///
    /// # Errors
    ///
    /// [`Gone`](StoreError::Gone) when the incarnation has ended or there is no conversation, or when the store cannot be
    /// written. Nothing is removed by a refusal.
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        traces: Derived,
    ) -> Result<Pruned, StoreError>;
}

/// What is to stay of a log. It is rounded to whole turns, and the newest turn stays in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PruneTo {
    /// The exchange at this position and all after it; within a turn, the whole turn.
    From(Seq),
    /// That many turns, the newest ones.
    LastTurns(usize),
    /// The newest turns that together have at most that many messages. An exchange without messages counts as one
    /// message, as in a [`LoadLimit`](crate::LoadLimit).
    LastMessages(usize),
}

/// What becomes of what tells of removed exchanges, outside of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Derived {
    /// It stays: summaries tell of them, and calls that were begun with them are stored. This saves space, and nothing is lost
    /// of what later prompts say.
    #[default]
    Keep,
    /// It is removed: no compaction stays that has a summary or cannot be read, and what stays goes on in another incarnation,
    /// under other versions of its compactions. So what is in flight is refused with [`Gone`](StoreError::Gone), as after a
    /// deletion. It also removes the traces of what earlier prunes removed; a log that still has its very first exchange has
    /// none, and is left as it is.
    Erase,
}

/// What became of a prune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The log's revision after it. It says where the log [begins](Revision::first).
    pub revision: Revision,
    /// How many exchanges were removed.
    pub removed: u64,
}

impl Pruned {
    /// So many exchanges were removed, and the log is at that revision.
    #[must_use]
    pub const fn new(revision: Revision, removed: u64) -> Self {
        Self { revision, removed }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Prune + ?Sized> Prune for Arc<S> {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        traces: Derived,
    ) -> Result<Pruned, StoreError> {
        (**self).prune(id, incarnation, keep, traces).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trait_is_dyn_compatible() {
        fn usable(_: Option<Arc<dyn Prune>>, _: Option<&dyn Prune>) {}
        fn is_store<S: Prune + HistoryStore>() {}
        usable(None, None);
        is_store::<Arc<dyn Prune>>();
    }
}
