//! Appends, which seal an exchange for its position.
//!
//! A position is known only within the append. So the wrapper seals for the position that the log's revision names, and
//! makes the append depend on that revision. If another append comes first, the store refuses this one and names the
//! next position. The wrapper then seals again.

use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Expect, HistoryStore, Profile, Revision, Seq, StoreError,
};

use super::EncryptedStore;
use crate::encryption::{
    cipher::Cipher,
    sealing::{seal_compact, seal_exchange},
};

/// The number of times that an append is sealed. Among the clones of one store, appends to one conversation wait for
/// each other, so only other stores, mostly those of other processes, can come first.
const MAX_ATTEMPTS: usize = 64;

impl<S: HistoryStore> EncryptedStore<S> {
    pub(super) async fn append_sealed(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
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
                    let incarnation = |revision: Option<Revision>| revision.map(|revision| revision.incarnation());
                    if incarnation(now) == incarnation(current) {
                        // It was refused because of an erasure.
                        return Err(StoreError::Gone);
                    }
                    current = now;
                }
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::unavailable(Contended))
    }

    /// Returns the cipher that seals the items of a conversation that exists.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`](StoreError::Gone) if there is no data key: there is no such conversation, or its keys were
    /// destroyed. No key is made for it.
    pub(super) async fn current(&self, id: &ConversationId) -> Result<Cipher, StoreError> {
        self.keys.current(id).await?.ok_or(StoreError::Gone)
    }

    /// Seals a compaction of a conversation that exists. Without text, it needs no key.
    pub(super) async fn seal_compact(&self, id: &ConversationId, compact: Compact) -> Result<Compact, StoreError> {
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

    pub(super) async fn open_outcome(
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
struct Contended;
