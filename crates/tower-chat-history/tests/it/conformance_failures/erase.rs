//! Faults of listings and erasures.

use std::sync::PoisonError;

use async_trait::async_trait;
use tower_chat_history::{
    ConversationId, HistoryStore as _, StoreError,
    store::{Incarnation, Load, Loaded, Revision},
};
use tower_chat_history_core::{
    ByStore, Cursor, Erase, ErasedPage, Labels, LabelsOutcome, LabelsVersion, List, Listed, Listing, Prefix, Removed,
    Scrubbed,
};

use super::{Fault, Faulty};

impl Faulty {
    /// Returns the entry as the fault changes it.
    async fn entry(&self, mut entry: Listed) -> Result<Listed, StoreError> {
        if self.fault == Fault::UpdatedByTheNewest
            && let Loaded::Window(window) = self.store.load(&entry.id, Load::new()).await?
            && let Some(newest) = window.exchanges.last()
        {
            entry.updated_at = newest.exchange.at;
        }
        let labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((labels, version)) = labels.get(&entry.id)
            && entry.labels_version == LabelsVersion::NONE
        {
            entry = entry.labels(labels.clone(), *version);
        }
        Ok(entry)
    }

    /// Returns the ids whose text begins with the prefix, after the cursor.
    async fn ids_of_text(&self, under: &Prefix, after: Option<&Cursor>) -> Result<Vec<ConversationId>, StoreError> {
        let all = self.store.list(&Prefix::all(), after, usize::MAX).await?;
        let ids = all.conversations.into_iter().map(|entry| entry.id);
        Ok(ids.filter(|id| id.as_str().starts_with(under.as_str())).collect())
    }

    /// Returns the numbers as the fault changes them.
    fn numbers(&self, numbers: ByStore) -> ByStore {
        if self.fault != Fault::CountsNoIds {
            return numbers;
        }
        let mut total = numbers.total();
        total.exchange_ids = 0;
        ByStore::of(self.store.system(), total)
    }
}

#[async_trait]
impl List for Faulty {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let page = if self.fault == Fault::PrefixesOfText {
            let mut ids = self.ids_of_text(under, after).await?;
            let more = ids.len() > limit;
            ids.truncate(limit);
            let mut entries = Vec::new();
            for id in &ids {
                entries.extend(self.store.describe(id).await?);
            }
            Listing::new(entries, ids.pop().filter(|_| more).map(Cursor::after))
        } else {
            self.store.list(under, after, limit).await?
        };
        let mut entries = Vec::new();
        if let Some(after) = after
            && self.fault == Fault::RepeatsAtCursors
        {
            entries.extend(self.store.describe(after.last()).await?);
        }
        for entry in page.conversations {
            entries.push(self.entry(entry).await?);
        }
        entries.truncate(limit);
        Ok(Listing::new(entries, page.next))
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        Ok(match self.store.describe(id).await? {
            Some(entry) => Some(self.entry(entry).await?),
            None => None,
        })
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        mut replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        if self.fault == Fault::UnconditionalLabels
            && let Some(entry) = self.store.describe(id).await?
        {
            replaces = entry.labels_version;
        }
        let outcome = self.store.set_labels(id, incarnation, replaces, labels.clone()).await?;
        if let LabelsOutcome::Stored(version) = outcome
            && self.fault == Fault::LabelsOutlive
        {
            self.labels.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), (labels, version));
        }
        Ok(outcome)
    }
}

#[async_trait]
impl Erase for Faulty {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        if self.fault == Fault::IgnoresBars { Ok(()) } else { self.store.bar(under).await }
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        if self.fault == Fault::NothingRemoved {
            return Ok(ErasedPage::default());
        }
        if self.fault == Fault::PrefixesOfText {
            let mut removed = Removed::default();
            for id in self.ids_of_text(under, after).await?.iter().take(limit) {
                let Some(entry) = self.store.describe(id).await? else { continue };
                removed += self.store.erase_if(id, entry.revision).await?.unwrap_or_default();
            }
            let next = self.ids_of_text(under, after).await?.into_iter().next();
            let next = next.filter(|_| removed.conversations > 0).map(Cursor::after);
            return Ok(ErasedPage::new(ByStore::of(self.store.system(), removed), next));
        }
        let page = self.store.erase(under, after, limit).await?;
        Ok(ErasedPage::new(self.numbers(page.removed), page.next))
    }

    async fn erase_if(&self, id: &ConversationId, mut revision: Revision) -> Result<Option<Removed>, StoreError> {
        if self.fault == Fault::ErasesAnyRevision
            && let Some(entry) = self.store.describe(id).await?
        {
            revision = entry.revision;
        }
        self.store.erase_if(id, revision).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        Ok(self.numbers(self.store.count(under).await?))
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.store.scrub().await
    }
}
