//! The contract between the layer and the stores.
//!
//! # Decisions
//!
//! - **An append states what it expects**, and the store checks it in the same step as the write. A lock would be held
//!   during the model call, for minutes, and is lost if its holder crashes. The default is any revision of the
//!   incarnation that was loaded: two complete exchanges are a valid conversation in either order.
//! - **Only an end of the log is removed**: the last exchanges by a truncation, the first turns by a prune. Later
//!   replies and summaries depend on the middle.
//! - **A truncation makes a new incarnation.** The existing checks then refuse a repeated truncation, and the reply to
//!   a question that was removed. A truncation to nothing is a deletion.
//! - **Compactions are opaque**, so a new position in a cut changes no store. They have two fields of bytes, `state`
//!   and `derived` (text made from messages), so an erasure can remove the text.
//! - **A truncation removes all compactions but the one its caller passes**, because a summary must not repeat text
//!   that was removed. Other profiles compact anew.
//! - **First turns are checked by epochs.** A conversation that doesn't exist has no incarnation, so a load of nothing
//!   returns the count of the store's deletions. A first turn that began before an erasure of its id is refused. Clocks
//!   differ between replicas, and a record of each erased conversation would keep the ids that had to be erased.
//! - **Conversations are listed by id.** A conversation never moves, so a cursor stays right while others append.
//!   Damaged ones are listed too: otherwise no walk gets past them.
//! - **A conversation's times are those of its exchanges**, so an import keeps them, and all stores agree.
//! - **Labels are replaced under a condition**: a title from before a deletion must not return.
//! - **A fork is one call of the store**, so nobody sees half a copy. It keeps ids, positions and the compaction, so
//!   the copy's prompt begins with the bytes that were sent. A copy that refers to the log would keep what an erasure
//!   has to remove.

mod append;
mod erase;
mod error;
mod fork;
mod list;
mod load;
mod prune;
mod removed;
mod truncate;

use std::{fmt, sync::Arc};

use async_trait::async_trait;

pub use self::{
    append::{Append, Appended, Compact, CompactOutcome, Expect},
    erase::{Erase, ErasedPage, Scrubbed},
    error::StoreError,
    fork::{Fork, ForkTo, Forked},
    list::{Cursor, FailedConversation, LabelsOutcome, List, ListExt, Listed, Listing, Newest},
    load::{Added, KnownState, Load, LoadLimit, LoadLimitError, Loaded, Page, Window},
    prune::{Derived, Prune, PruneTo, Pruned},
    removed::{ByStore, Removed},
    truncate::{Truncate, Truncated},
};
use crate::{
    conversation_id::ConversationId,
    seq::{Incarnation, Seq},
};

/// Stores conversations: an append-only log of exchanges for each, and one compaction per profile.
///
/// The guide [writing a store](crate::writing_a_store) builds one step by step, and [`backend`](crate::backend) has
/// the tools for it.
///
/// # Contract
///
/// - **Atomic.** An append stores its exchange and its compaction in one write, whole or not at all. (A compaction that
///   is [skipped](Self::append) is not a part of this write.) If the caller drops the future, the log has the whole
///   exchange or none of it.
/// - **Conditional.** The check of [`Append::expect`] and the write are one step, also against other processes.
///   Nothing is locked between calls.
/// - **Idempotent.** An append whose exchange id is already in the log stores nothing and returns the recorded
///   position, whatever it expected.
/// - **Gap-free.** The first exchange has position 0, or the one that its [append](Append::first) names, and each
///   further one has the next position. (A [pruned](Prune) log begins at a later position.)
/// - **Acknowledged means durable**, at the level that the store documents. An error other than a refusal
///   ([`Conflict`](StoreError::Conflict), [`Gone`](StoreError::Gone) and the like) leaves the outcome open. To learn
///   it, repeat the append under the same exchange id.
/// - **Deletion ends the incarnation.** A conversation that is created again gets a new incarnation, so appends and
///   compactions from before the deletion are refused. So is the first turn of a conversation, if it [names the
///   epoch](Append::since) that its load returned. (The same holds for a [truncation](Truncate), which not
///   every store supports.)
/// - **Lossless.** Only [`delete`](Self::delete), a [truncation](Truncate) or a [prune](Prune) removes anything.
/// - **Verbatim.** Messages are returned byte for byte. So are the [recalled messages](crate::Exchange::recalled), the
///   [provenance](crate::Exchange::provenance) and the [encrypted content](crate::Exchange::sealed) of an exchange. All
///   of them may contain U+0000. A store need not know the [dialect](crate::Dialect) of an exchange, and an element need
///   not be a JSON object. The [metadata](crate::Exchange::metadata) of an exchange is returned byte for byte, too.
/// - **Compactions are opaque.** A store keeps the bytes of a [compaction](crate::Compaction), which need not be UTF-8,
///   and compares versions. It does not look into them. The writer decides which compaction may replace which, and
///   guarantees that [`window_start`](crate::Compact::window_start) is the position of an exchange that opens a turn. A
///   store need not notice if it is not, but it must not panic.
/// - **Bounded.** A load reads what its limit allows and no more (see [`LoadLimit`]).
/// - **Alone.** Nothing but the store writes its tables, keys or files. It need not notice if another program does.
///
/// Every store should pass the whole conformance suite, which is in the crate `tower-chat-history-conformance`.
///
/// The trait has no default methods, so that a wrapper cannot forget to forward one. Convenience methods are in
/// [`HistoryStoreExt`](crate::HistoryStoreExt). The trait can be used as `Arc<dyn HistoryStore>`.
#[async_trait]
pub trait HistoryStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the kind of the store, for spans and metrics. For a database, this is its value of OpenTelemetry's
    /// attribute `db.system.name`: `sqlite`, `postgresql`, `redis`. For a store in the process's own memory, it is
    /// `memory`. The value never changes.
    fn system(&self) -> &'static str;

    /// Reads what a call needs: the newest exchanges of the window, the compaction and the revision.
    ///
    /// The first of these that applies is the answer:
    ///
    /// 1. If there is no such conversation: [`Loaded::Absent`], with the current [epoch](crate::Epoch).
    /// 2. If [`Load::exchange`] is already in the log: [`Loaded::AlreadyRecorded`].
    /// 3. If nothing changed since [`Load::known`]: [`Loaded::Unchanged`].
    /// 4. If exchanges were added since, and nothing else changed: [`Loaded::Added`]. The load must [allow](Load::or_added)
    ///    this answer, and no store has to give it.
    /// 5. Otherwise the window: [`Loaded::Window`].
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or if a record of the window is
    /// [corrupt](StoreError::Corrupt).
    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError>;

    /// Adds one exchange to the log, and stores a compaction with it if the append carries one.
    ///
    /// Checks in this order: a repeated exchange id, an [erasure](Append::since), what the append expects, the exchange,
    /// the compaction.
    ///
    /// If the compaction replaces a version other than the stored one, it is skipped: the exchange is stored without
    /// it, and [`Appended::compaction`] reports that.
    ///
    /// # Errors
    ///
    /// - [`Conflict`](StoreError::Conflict) or [`Gone`](StoreError::Gone) if the log is not what the append
    ///   expects, or if it was erased.
    /// - [`ContinuesUnknown`](StoreError::ContinuesUnknown) if the exchange continues a position that the log never
    ///   had, or if it would be the [first](Append::first) one of the log.
    /// - [`Full`](StoreError::Full) if the store has a limit and the append would exceed it.
    /// - Another error if the store cannot be written.
    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError>;

    /// Stores a compaction by itself, if the version it replaces is still the stored one.
    ///
    /// # Errors
    ///
    /// - [`Gone`](StoreError::Gone) if the incarnation has ended.
    /// - [`Full`](StoreError::Full) if the store has a limit and the compaction would exceed it.
    /// - Another error if the store cannot be written.
    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError>;

    /// Reads a page of the log in order, starting at a position.
    ///
    /// Returns at most `limit` exchanges. A store that pages by size may return fewer, but returns at least one if
    /// there is one and `limit` is not 0. For a position after the end, the page is empty. For one before the log's
    /// [first](crate::Revision::first) position, reading starts at the first position.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or if a record is [corrupt](StoreError::Corrupt).
    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError>;

    /// Removes the whole conversation: its log and its compactions. Deleting a conversation that does not exist
    /// succeeds. It also refuses calls that are running, whose load found no conversation.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
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
