//! The operations of a store, each with its faults.

use async_trait::async_trait;
use tower_chat_history_core::{
    Append, Appended, ByStore, Compact, CompactOutcome, ConversationId, Cursor, Derived, Erase, ErasedPage, Fork,
    ForkTo, Forked, HistoryStore, Incarnation, Labels, LabelsOutcome, LabelsVersion, List, Listed, Listing, Load,
    Loaded, Page, Prefix, Prune, PruneTo, Pruned, Removed, Revision, Scrubbed, Seq, StoreError, Truncate, Truncated,
};

use super::FaultStore;

/// An operation of a [`HistoryStore`], or of one that can [truncate](Truncate), [prune](Prune), [fork](Fork),
/// [list](tower_chat_history_core::List) or [erase](tower_chat_history_core::Erase).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`HistoryStore::load`].
    Load,
    /// [`HistoryStore::append`].
    Append,
    /// [`HistoryStore::compact`].
    Compact,
    /// [`HistoryStore::read`].
    Read,
    /// [`HistoryStore::delete`].
    Delete,
    /// [`Truncate::truncate`].
    Truncate,
    /// [`Prune::prune`].
    Prune,
    /// [`Fork::fork`].
    Fork,
    /// [`List::list`](tower_chat_history_core::List::list).
    List,
    /// [`List::describe`](tower_chat_history_core::List::describe).
    Describe,
    /// [`List::set_labels`](tower_chat_history_core::List::set_labels).
    SetLabels,
    /// [`Erase::bar`](tower_chat_history_core::Erase::bar).
    Bar,
    /// [`Erase::erase`](tower_chat_history_core::Erase::erase).
    Erase,
    /// [`Erase::erase_if`](tower_chat_history_core::Erase::erase_if).
    EraseIf,
    /// [`Erase::count`](tower_chat_history_core::Erase::count).
    Count,
    /// [`Erase::scrub`](tower_chat_history_core::Erase::scrub).
    Scrub,
}

impl Op {
    /// The number of operations.
    pub(super) const COUNT: usize = Self::Scrub as usize + 1;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: HistoryStore> HistoryStore for FaultStore<S> {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        let loaded = self.of(Op::Load).run_stages(Some(id), self.inner.load(id, load)).await?;
        self.count(&loaded);
        Ok(loaded)
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.of(Op::Append).run_stages(Some(id), self.inner.append(id, append)).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.of(Op::Compact).run_stages(Some(id), self.inner.compact(id, incarnation, compact)).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.of(Op::Read).run_stages(Some(id), self.inner.read(id, from, limit)).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.of(Op::Delete).run_stages(Some(id), self.inner.delete(id)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Truncate> Truncate for FaultStore<S> {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        self.of(Op::Truncate).run_stages(Some(id), self.inner.truncate(id, expect, from, keep)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Prune> Prune for FaultStore<S> {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        self.of(Op::Prune).run_stages(Some(id), self.inner.prune(id, incarnation, keep, derived)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Fork> Fork for FaultStore<S> {
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        self.of(Op::Fork).run_stages(Some(id), self.inner.fork(id, incarnation, to)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List> List for FaultStore<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.of(Op::List).run_stages(under.as_id(), self.inner.list(under, after, limit)).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.of(Op::Describe).run_stages(Some(id), self.inner.describe(id)).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.of(Op::SetLabels).run_stages(Some(id), self.inner.set_labels(id, incarnation, replaces, labels)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase> Erase for FaultStore<S> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.of(Op::Bar).run_stages(under.as_id(), self.inner.bar(under)).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        self.of(Op::Erase).run_stages(under.as_id(), self.inner.erase(under, after, limit)).await
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        self.of(Op::EraseIf).run_stages(Some(id), self.inner.erase_if(id, revision)).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        self.of(Op::Count).run_stages(under.as_id(), self.inner.count(under)).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.of(Op::Scrub).run_stages(None, self.inner.scrub()).await
    }
}
