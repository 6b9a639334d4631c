//! Removal of the beginning of a log, which not every store supports.

use std::sync::Arc;

use async_trait::async_trait;

use super::{HistoryStore, StoreError};
use crate::{
    conversation_id::ConversationId,
    seq::{Incarnation, Revision, Seq},
};

/// A store that can permanently remove the beginning of a conversation's log, to limit the stored data or to erase
/// private data.
///
/// # Contract
///
/// - **Whole turns.** The remaining log begins with an exchange that opens a turn. If the position to keep is within a
///   turn, that whole turn is kept. The newest turn always remains: to remove everything, use
///   [`delete`](HistoryStore::delete). (If a removed turn has a late continuation after the beginning of the remaining
///   log, the continuation stays.)
/// - **Positions stay the same.** The remaining exchanges keep their positions, and the next append gets the next
///   one. From its [first](Revision::first) position on, the log has no gap: reads and windows that would start
///   earlier start there. That does not make a load [truncated](crate::Window::truncated).
/// - **Conditional and in one step.** The log is pruned only in the given incarnation, and the exchanges to remove
///   are chosen in the same step. If the caller drops the future, the log was pruned or it was not.
/// - **The revision changes, but turns in flight are stored.** A [known state](crate::Load::known) from before the
///   prune no longer matches, so that no caller continues with removed exchanges. An append that
///   [expects](crate::Expect::Exactly) the revision from before the prune, or a [truncation](crate::Truncate) at that
///   revision, succeeds if [nothing was appended](Revision::has_same_end) since. An exchange may also
///   [continue](crate::Exchange::continues) a removed one. If nothing is removed, the revision stays the same.
/// - **Exchange ids.** The ids of removed exchanges may be used again. If a call with such an id is repeated, the model
///   is called again. The ids of the remaining exchanges are still recognized.
/// - **Compactions** are not changed ([`Derived::Keep`]), even if their window starts at a removed exchange, and a
///   compaction that was made from the log before the prune is stored. A summary still describes the exchanges it
///   covers. [`Derived::Erase`] removes such summaries too.
/// - **Repeatable.** An error other than a refusal leaves the outcome open. Repeating the call is safe: it chooses anew
///   which exchanges to remove. If the first attempt began a new incarnation, the repeat is refused with
///   [`Gone`](StoreError::Gone).
///
/// For such a store, [`Conversation`](crate::Conversation) has the methods `keep_last_turns`, `keep_last_messages` and
/// `prune`. The trait can be used as `Arc<dyn Prune>`. To test it with the conformance suite, add the store to the
/// handle with `Handle::prune`.
#[async_trait]
pub trait Prune: HistoryStore {
    /// Removes the exchanges before those to keep, if the conversation is in this incarnation.
    ///
    /// # Errors
    ///
    /// - [`Gone`](StoreError::Gone) if the incarnation has ended or there is no conversation.
    /// - Another error if the store cannot be written.
    ///
    /// If the call is refused, nothing was removed.
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError>;
}

/// The part of a log to keep. It is rounded up to whole turns, and always includes the newest turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PruneTo {
    /// The exchange at this position and all after it. If the position is within a turn, the whole turn is kept.
    From(Seq),
    /// This many of the newest turns.
    LastTurns(usize),
    /// The newest turns that together have at most this many messages. An exchange without messages counts as one
    /// message, as in a [`LoadLimit`](crate::LoadLimit).
    LastMessages(usize),
}

/// The treatment of derived data (compactions, calls in flight) that still contains something of the removed
/// exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Derived {
    /// Derived data is kept: summaries still describe the removed exchanges, and calls that were begun with them
    /// are stored. Use this to save space. Later prompts lose nothing that a summary covers.
    #[default]
    Keep,
    /// Derived data is removed: the [derived text](crate::Compaction::derived) of every compaction, such as a summary. The
    /// window of a compaction that had one starts where the log begins. These are deleted, too: the [recalled
    /// messages](crate::Exchange::recalled) of remaining exchanges if they [cite](crate::Recalled::least_cited) a
    /// removed one or another conversation, and the [provenance](crate::Exchange::provenance) of all remaining
    /// exchanges. The remaining exchanges continue in a new incarnation, and all compactions get the next version, so
    /// calls in flight are refused with [`Gone`](StoreError::Gone), as after a deletion.
    ///
    /// Derived data that earlier prunes left is removed as well. If the log begins at position 0, no exchange is
    /// removed now, and no recalled message cites another conversation, nothing is changed.
    Erase,
}

/// The result of a prune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The log's revision after the prune. It says where the log [begins](Revision::first).
    pub revision: Revision,
    /// The number of exchanges removed.
    pub removed: u64,
}

impl Pruned {
    /// Reports that this many exchanges were removed, and that the log is now at this revision.
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
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        (**self).prune(id, incarnation, keep, derived).await
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
