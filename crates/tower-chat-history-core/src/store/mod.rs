//! The contract between the layer and the stores.

mod append;
mod error;
mod load;
mod prune;
mod truncate;

use std::{fmt, sync::Arc};

use async_trait::async_trait;

pub use self::{
    append::{Append, Appended, Compact, CompactOutcome, Expect},
    error::StoreError,
    load::{KnownState, Load, LoadLimit, LoadLimitError, Loaded, Page, Window},
    prune::{Derived, Prune, PruneTo, Pruned},
    truncate::{Truncate, Truncated},
};
use crate::{conversation_id::ConversationId, revision::Incarnation, seq::Seq};

/// Keeps conversations: for each an append-only log of exchanges, and per profile one compaction.
///
/// # Contract
///
/// - **Atomic.** An append stores its exchange and its compaction together or neither. A caller that drops the future
///   leaves a log with the whole exchange or without it, never with a part.
/// - **Conditional.** Whether an append may land is decided in one step with storing it, also against other processes.
///   Nothing is locked between calls.
/// - **Idempotent.** An append whose exchange id is already in the log stores nothing and reports the recorded position,
///   whatever it expected.
/// - **Gap-free.** The first exchange has position 0, each further one the next position. (A [pruned](Prune) log begins at a
///   later one.)
/// - **Acknowledged is durable**, at the level the store documents. An error other than a refusal
///   ([`Conflict`](StoreError::Conflict), [`Gone`](StoreError::Gone) and the like) leaves the outcome open: repeating the
///   append under the same exchange id settles it.
/// - **Deletion ends the incarnation.** A conversation that comes back has a new one, so what was in flight is refused.
///   (The same holds for a [truncation](Truncate), which not every store can do.)
/// - **Lossless.** Nothing is removed but by [`delete`](Self::delete), a [truncation](Truncate) or a [prune](Prune).
/// - **Verbatim.** Messages come back byte for byte. So do the text and the model of a summary, and both may contain
///   U+0000.
/// - **Bounded.** A load reads what its limit lets through and no more (see [`LoadLimit`]).
///
/// The feature `testing` has the conformance suite: every store should pass all of it.
///
/// The trait has no default methods, so a wrapper cannot forget one; conveniences are in
/// [`HistoryStoreExt`](crate::HistoryStoreExt). It can be used as `Arc<dyn HistoryStore>`.
#[async_trait]
pub trait HistoryStore: fmt::Debug + Send + Sync + 'static {
    /// What the store is, for spans and metrics: the database, by OpenTelemetry's name for it (`db.system.name`: `sqlite`,
    /// `postgresql`, `redis`), or `memory` for what is in the process's own memory. It does not change.
    fn system(&self) -> &'static str;

    /// Reads what a call needs: the newest exchanges of the window, the compaction and the revision.
    ///
    /// Looked at in this order: whether there is such a conversation, whether the exchange that was asked for is recorded,
    /// whether anything changed since what is known, the window.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or a record of the window is [corrupt](StoreError::Corrupt).
    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError>;

    /// Adds one exchange to the log, and stores a compaction with it if the append carries one.
    ///
    /// A repeated exchange id is looked at first, then what is expected, then the exchange, then the compaction.
    ///
    /// A compaction that replaces another version than the stored one is left out, whatever it says: the exchange is
    /// stored all the same and [`Appended::compaction`] says so. Only one that replaces the stored one is held to the
    /// [rules](crate::Cut::check), in the log that has the exchange. One that cannot be stored for a reason that is no
    /// rule, as when the stored one cannot be read, does not stop the exchange either: it is reported as
    /// [`Kept(None)`](CompactOutcome::Kept).
    ///
    /// # Errors
    ///
    /// [`Conflict`](StoreError::Conflict) or [`Gone`](StoreError::Gone) when the log is not what the append expects,
    /// [`ContinuesUnknown`](StoreError::ContinuesUnknown) when the exchange continues one that is not there,
    /// [`Compaction`](StoreError::Compaction) when the compaction breaks its rules (nothing is stored then),
    /// [`Full`](StoreError::Full) when the store has a limit and it is reached, or when the store cannot be written.
    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError>;

    /// Stores a compaction by itself, if the one it replaces is still the stored one.
    ///
    /// # Errors
    ///
    /// [`Gone`](StoreError::Gone) when the incarnation has ended, [`Compaction`](StoreError::Compaction) when the
    /// compaction breaks its rules, [`Full`](StoreError::Full) when the store has a limit and it is reached, or when
    /// the store cannot be written.
    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError>;

    /// Reads the log itself, in order, from a position on: at most `limit` exchanges, and fewer where the store pages by
    /// size, but at least one if there is one and `limit` is not 0. A position beyond the end has an empty page; one before
    /// the log's [first](crate::Revision::first) position reads from that on.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or a record is [corrupt](StoreError::Corrupt).
    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError>;

    /// Removes the conversation: log, compactions, everything. Deleting what is not there is no error.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError>;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: HistoryStore + ?Sized> HistoryStore for Arc<S> {
    fn system(&self) -> &'static str {
        (**self).system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        (**self).load(id, load).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        (**self).append(id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        (**self).compact(id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        (**self).read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        (**self).delete(id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trait_is_dyn_compatible() {
        fn usable(_: Option<Arc<dyn HistoryStore>>, _: Option<&dyn HistoryStore>) {}
        usable(None, None);
    }
}
