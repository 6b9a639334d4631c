//! The wrapper around a store.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures_util::future::join_all;
use quick_cache::sync::Cache;
use tower_chat_history_core::{
    Append, Appended, ByStore, Compact, CompactOutcome, Compaction, ConversationId, Cursor, Derived, Erase, ErasedPage,
    Expect, HistoryStore, Incarnation, Labels, LabelsOutcome, LabelsVersion, List, Listed, Listing, Load, Loaded, Page,
    Prefix, Profile, Prune, PruneTo, Pruned, Recorded, Removed, Revision, Scrubbed, Seq, StoreError, Truncate,
    Truncated,
};

use crate::encryption::{
    cipher::Cipher,
    item::OpenError,
    key::KeyError,
    keys::Keys,
    queue::Queues,
    sealing::{Opener, open_compaction, open_exchange, open_labels, seal_compact, seal_exchange, seal_labels},
};

/// The number of conversations whose last revision is kept in memory.
const REVISIONS: usize = 10_000;

/// The number of times that an append is sealed. Among the clones of one store, appends to one conversation wait for
/// each other, so only other stores, mostly those of other processes, can come first.
const MAX_ATTEMPTS: usize = 64;

/// The number of conversations whose labels are opened side by side. Each may need a call of the vault and one of the
/// master keys.
const AT_ONCE: usize = 32;

/// A store that encrypts what another store keeps. See the [module's documentation](crate::encryption).
///
/// It has the abilities of the inner store, and it [forks](tower_chat_history_core::Fork) if the inner store erases. A
/// fork is not one step. A clone is another handle on the same store and the same keys.
#[derive(Clone)]
pub struct EncryptedStore<S> {
    inner: S,
    keys: Keys,
    shared: Arc<Shared>,
}

struct Shared {
    /// The last revision that was seen of each conversation. It may be outdated.
    revisions: Cache<ConversationId, Revision>,
    /// The appends that seal for the next position, whatever it is.
    queues: Queues<ConversationId>,
}

impl<S> EncryptedStore<S> {
    /// Wraps a store. Items are sealed and opened with these keys.
    pub fn new(inner: S, keys: Keys) -> Self {
        let shared = Arc::new(Shared { revisions: Cache::new(REVISIONS), queues: Queues::default() });
        Self { inner, keys, shared }
    }

    /// Returns the inner store, whose items are sealed.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the inner store, for example to close it.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Returns the keys.
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Removes what this handle and its clones keep in memory of the conversations under a prefix: ids with revisions,
    /// and [data keys](Keys::forget). Call it after others have erased them. An erasure through this store forgets the
    /// revisions, but not the data keys, which other conversations may use.
    pub fn forget(&self, under: &Prefix) {
        self.forget_revisions(under);
        self.keys.forget(under);
    }

    fn forget_revisions(&self, under: &Prefix) {
        self.shared.revisions.retain(|id, _| !under.contains(id));
    }

    fn remember(&self, id: &ConversationId, revision: Revision) {
        self.shared.revisions.insert(id.clone(), revision);
    }
}

impl<S: Sync> EncryptedStore<S> {
    /// Opens exchanges that were read from the inner store.
    async fn open_all(&self, id: &ConversationId, exchanges: &mut [Recorded]) -> Result<(), StoreError> {
        let mut opener = Opener::new(&self.keys, id);
        for recorded in exchanges {
            *recorded = open_exchange(&mut opener, recorded).await.map_err(|e| e.of_exchange(id, recorded.seq))?;
        }
        Ok(())
    }

    async fn open_compaction(
        &self,
        id: &ConversationId,
        profile: &Profile,
        compaction: Compaction,
    ) -> Result<Compaction, StoreError> {
        let opened = open_compaction(&mut Opener::new(&self.keys, id), profile, compaction).await;
        opened.map_err(|error| error.of_compaction(id, profile))
    }

    /// Opens labels. If all data keys of the conversation's prefix were destroyed, the labels are gone, as if they had
    /// been removed, so that the conversation can still be listed and expire.
    async fn open_labels(&self, id: &ConversationId, labels: &Labels) -> Result<Labels, OpenError> {
        let opened = open_labels(&mut Opener::new(&self.keys, id), labels).await;
        let lacks_key = matches!(opened, Err(OpenError::Key { source: KeyError::Missing { .. }, .. }));
        // If the person still has keys, the labels were changed, or are another one's.
        if lacks_key && matches!(self.keys.current(id).await, Ok(None)) {
            return Ok(Labels::default());
        }
        opened
    }

    async fn open_listed(&self, mut listed: Listed) -> Result<Listed, OpenError> {
        listed.labels = self.open_labels(&listed.id, &listed.labels).await?;
        Ok(listed)
    }
}

impl<S: fmt::Debug> fmt::Debug for EncryptedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedStore").field("inner", &self.inner).field("keys", &self.keys).finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: HistoryStore> HistoryStore for EncryptedStore<S> {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        let profile = load.profile.clone();
        match self.inner.load(id, load).await? {
            Loaded::Window(mut window) => {
                self.remember(id, window.revision);
                self.open_all(id, &mut window.exchanges).await?;
                if let Some(compaction) = window.compaction.take() {
                    window.compaction = Some(self.open_compaction(id, &profile, compaction).await?);
                }
                Ok(Loaded::Window(window))
            }
            Loaded::Added(mut added) => {
                self.remember(id, added.revision);
                self.open_all(id, &mut added.exchanges).await?;
                Ok(Loaded::Added(added))
            }
            Loaded::AlreadyRecorded(mut recorded) => {
                self.open_all(id, std::slice::from_mut(&mut recorded)).await?;
                Ok(Loaded::AlreadyRecorded(recorded))
            }
            loaded @ (Loaded::Absent(_) | Loaded::Unchanged) => Ok(loaded),
        }
    }

    /// A position is known only within the append. So the wrapper seals for the position that the log's revision names,
    /// and makes the append depend on that revision. If another append comes first, the store refuses this one and
    /// names the next position. The wrapper then seals again.
    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let is_pinned = matches!(append.expect, Expect::Exactly(_) | Expect::Absent);
        let _permit = if is_pinned { None } else { Some(self.shared.queues.enter(id).await) };
        let mut current = if is_pinned { None } else { self.last_revision(id).await? };

        for _ in 0..MAX_ATTEMPTS {
            let (expect, seq) = pinned(append.expect, current, append.first);
            let cipher = if expect == Expect::Absent {
                // It may begin the first conversation of a person.
                self.keys.current_or_new(id).await?
            } else if let Some(cipher) = self.keys.current(id).await? {
                cipher
            } else {
                // There is no such conversation, or its keys were destroyed.
                current = self.revision(id).await?;
                if append.expect == Expect::AnyOrCreate && current.is_none() {
                    continue;
                }
                append.expect.check(current)?;
                return Err(StoreError::Gone);
            };

            let sealed = seal_append(&cipher, id, &append, expect, seq)?;
            match self.inner.append(id, sealed).await {
                Ok(appended) => {
                    self.remember(id, appended.revision);
                    return self.open_appended(id, &append, appended).await;
                }
                Err(StoreError::Conflict { current: Some(now) }) if !is_pinned => current = Some(now),
                Err(StoreError::Conflict { current: None }) if !is_pinned => current = self.revision(id).await?,
                Err(StoreError::Gone) if append.expect == Expect::AnyOrCreate && current.is_some() => {
                    let now = self.revision(id).await?;
                    if now.map(|now| now.incarnation()) == current.map(|current| current.incarnation()) {
                        // It was refused because of an erasure.
                        return Err(StoreError::Gone);
                    }
                    current = now;
                }
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::unavailable(Contention))
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        let profile = compact.profile.clone();
        let sealed = self.seal_compact(id, compact).await?;
        let outcome = self.inner.compact(id, incarnation, sealed).await?;
        self.open_outcome(id, &profile, outcome).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        let mut page = self.inner.read(id, from, limit).await?;
        self.open_all(id, &mut page.exchanges).await?;
        Ok(page)
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        let deleted = self.inner.delete(id).await;
        self.shared.revisions.remove(id);
        deleted
    }
}

impl<S: HistoryStore> EncryptedStore<S> {
    /// Returns the cipher that seals the items of a conversation that exists.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`](StoreError::Gone) if there is no data key: there is no such conversation, or its keys were
    /// destroyed. No key is made for it.
    async fn current(&self, id: &ConversationId) -> Result<Cipher, StoreError> {
        self.keys.current(id).await?.ok_or(StoreError::Gone)
    }

    /// Seals a compaction of a conversation that exists. Without text, it needs no key.
    async fn seal_compact(&self, id: &ConversationId, compact: Compact) -> Result<Compact, StoreError> {
        if compact.derived.is_none() {
            return Ok(compact);
        }
        seal_compact(&self.current(id).await?, compact)
    }

    /// Opens the compaction that the store has kept. If it does not open, the exchange is stored nevertheless.
    async fn open_appended(
        &self,
        id: &ConversationId,
        append: &Append,
        mut appended: Appended,
    ) -> Result<Appended, StoreError> {
        if let (Some(compact), Some(outcome)) = (&append.compact, appended.compaction.take()) {
            let opened = self.open_outcome(id, &compact.profile, outcome).await;
            appended.compaction = Some(opened.unwrap_or(CompactOutcome::Kept(None)));
        }
        Ok(appended)
    }

    async fn open_outcome(
        &self,
        id: &ConversationId,
        profile: &Profile,
        outcome: CompactOutcome,
    ) -> Result<CompactOutcome, StoreError> {
        match outcome {
            CompactOutcome::Kept(Some(compaction)) => {
                self.open_compaction(id, profile, compaction).await.map(|opened| CompactOutcome::Kept(Some(opened)))
            }
            outcome => Ok(outcome),
        }
    }

    async fn last_revision(&self, id: &ConversationId) -> Result<Option<Revision>, StoreError> {
        match self.shared.revisions.get(id) {
            Some(revision) => Ok(Some(revision)),
            None => self.revision(id).await,
        }
    }

    pub(super) async fn revision(&self, id: &ConversationId) -> Result<Option<Revision>, StoreError> {
        Ok(self.inner.read(id, Seq::FIRST, 0).await?.revision)
    }
}

fn seal_append(
    cipher: &Cipher,
    id: &ConversationId,
    append: &Append,
    expect: Expect,
    seq: Seq,
) -> Result<Append, StoreError> {
    let exchange = seal_exchange(cipher, id, &append.exchange, seq)?;
    let mut sealed = Append::new(expect, exchange).since(append.since).beginning_at(append.first);
    sealed.compact = append.compact.clone().map(|compact| seal_compact(cipher, compact)).transpose()?;
    Ok(sealed)
}

/// Returns an expectation that holds only if the exchange gets a certain position, and that position. `current` is the
/// log's revision, as far as it is known.
fn pinned(expect: Expect, current: Option<Revision>, first: Seq) -> (Expect, Seq) {
    let revision = match (expect, current) {
        (Expect::Exactly(revision), _) | (Expect::AnyOrCreate, Some(revision)) => revision,
        (Expect::Absent, _) | (Expect::AnyOrCreate, None) => return (Expect::Absent, first),
        (Expect::AnyIn(incarnation), Some(revision)) if revision.incarnation() == incarnation => revision,
        // No log has this revision, so the store says which one it has.
        (Expect::AnyIn(incarnation), _) => Revision::new(incarnation, 0),
    };
    (Expect::Exactly(revision), revision.next())
}

#[derive(Debug, thiserror::Error)]
#[error("other processes appended to the conversation each time that the exchange was sealed")]
struct Contention;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Truncate> Truncate for EncryptedStore<S> {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        // Only the text of a compaction that is carried over needs a key.
        let sealed = match keep {
            Some(keep) => Some(self.seal_compact(id, keep).await?),
            None => None,
        };
        self.inner.truncate(id, expect, from, sealed).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Prune> Prune for EncryptedStore<S> {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        self.inner.prune(id, incarnation, keep, derived).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List> List for EncryptedStore<S> {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let page = self.inner.list(under, after, limit).await?;
        let mut opened = Listing::new(Vec::with_capacity(page.conversations.len()), page.next.clone());
        opened.foreign_keys = page.foreign_keys;
        opened.damaged = page.damaged;

        for listed in page.conversations.chunks(AT_ONCE) {
            let entries = join_all(listed.iter().map(|listed| self.open_listed(listed.clone()))).await;
            for (listed, entry) in listed.iter().zip(entries) {
                match entry {
                    // The keys of the other conversations cannot be read either.
                    Err(error) if error.is_unavailable() => return Err(error.into()),
                    entry => opened.push(listed.id.clone(), entry.map_err(StoreError::from)),
                }
            }
        }
        opened.damaged.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(opened)
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        match self.inner.describe(id).await? {
            Some(listed) => Ok(Some(self.open_listed(listed).await?)),
            None => Ok(None),
        }
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        let sealed = if labels.is_empty() { labels } else { seal_labels(&self.current(id).await?, &labels)? };
        match self.inner.set_labels(id, incarnation, replaces, sealed).await? {
            LabelsOutcome::Kept(labels, version) => {
                Ok(LabelsOutcome::Kept(self.open_labels(id, &labels).await?, version))
            }
            stored @ LabelsOutcome::Stored(_) => Ok(stored),
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase> Erase for EncryptedStore<S> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        self.inner.bar(under).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let erased = self.inner.erase(under, after, limit).await;
        self.forget_revisions(under);
        erased
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        let removed = self.inner.erase_if(id, revision).await?;
        if removed.is_some() {
            self.shared.revisions.remove(id);
        }
        Ok(removed)
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        self.inner.count(under).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        self.inner.scrub().await
    }
}
