//! Sealing stored items again, with the current data keys.

mod report;

use tower_chat_history_core::{
    Compact, CompactOutcome, Compaction, ConversationId, Cursor, Cut, FailedConversation, Incarnation, LabelsOutcome,
    List, Listed, Load, LoadLimit, Loaded, Prefix, Profile, Recorded, Reseal, StoreError,
};

pub use self::report::{ResealError, ResealRun};
use super::EncryptedStore;
use crate::{
    cipher::{Cipher, key_of},
    key::{KeyError, KeyId},
    keys::Keys,
    sealing::{Opener, open_compaction, open_exchange, open_labels, seal_compact, seal_exchange, seal_labels},
};

/// The largest number of conversations that are listed per call of the store.
const PAGE: usize = 100;

/// The number of exchanges that are read at a time.
const EXCHANGES: usize = 50;

/// The largest number of times that a conversation is begun again because others truncate or prune it.
const MAX_ATTEMPTS: usize = 5;

impl<S: Reseal + List> EncryptedStore<S> {
    /// Seals exchanges, labels and the summaries of these profiles again, if they are not sealed with the current data
    /// key of their prefix. Looks at `limit` conversations or fewer, after the cursor of the last call if there is one.
    /// Call it after a [rotation](crate::Keys::rotate), until it returns no cursor.
    ///
    /// Others may use the conversations at the same time. No revision changes, but the versions of compactions and of
    /// labels do. An item keeps its content, so the call can be interrupted and repeated. Processes that still have the
    /// old key in memory seal with it. So repeat the pass after the [lifetime](crate::Keys::with_lifetime) of keys, until
    /// it seals nothing.
    ///
    /// [Attachments](tower_chat_history_core::Attach) stay as they are.
    ///
    /// # Errors
    ///
    /// Returns an error if the store or the keys cannot be reached. [`ResealError::run`] says what was done before, and
    /// at which conversation to continue. A conversation with an item that does not open is counted as
    /// [failed](ResealRun::failed).
    pub async fn reseal(
        &self,
        under: &Prefix,
        profiles: &[Profile],
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<ResealRun, ResealError> {
        let mut run = ResealRun { next: after.cloned(), ..ResealRun::default() };
        let mut left = limit.max(1);
        while left > 0 {
            match self.reseal_page(under, profiles, left.min(PAGE), &mut run).await {
                // An empty page counts as one conversation, so that the number of pages is bounded.
                Ok(examined) => left = left.saturating_sub(examined.max(1)),
                Err(source) => return Err(ResealError { run: Box::new(run), source }),
            }
            if run.next.is_none() {
                break;
            }
        }
        Ok(run)
    }

    /// Seals one page again. Returns its number of conversations.
    async fn reseal_page(
        &self,
        under: &Prefix,
        profiles: &[Profile],
        limit: usize,
        run: &mut ResealRun,
    ) -> Result<usize, StoreError> {
        let page = self.inner.list(under, run.next.as_ref(), limit).await?;
        let (examined, next) = (page.len(), page.next.clone());
        for entry in page.into_entries() {
            let id = match entry {
                Ok(listed) => {
                    let id = listed.id.clone();
                    match self.reseal_conversation(listed, profiles, &mut run.items).await {
                        Ok(()) => {}
                        Err(error) if error.is_retryable() => return Err(error),
                        Err(error) => run.fail(FailedConversation::new(id.clone(), error)),
                    }
                    id
                }
                Err(damaged) => {
                    let id = damaged.id.clone();
                    run.fail(damaged);
                    id
                }
            };
            run.examined += 1;
            run.next = Some(Cursor::after(id));
        }
        run.next = next;
        Ok(examined)
    }

    async fn reseal_conversation(
        &self,
        mut listed: Listed,
        profiles: &[Profile],
        items: &mut u64,
    ) -> Result<(), StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            match self.reseal_items(&listed, profiles, items).await {
                // The next attempt skips the items that are sealed with the current key.
                Err(StoreError::Gone) => match self.inner.describe(&listed.id).await? {
                    Some(now) => listed = now,
                    None => return Ok(()),
                },
                resealed => return resealed,
            }
        }
        Err(StoreError::Gone)
    }

    async fn reseal_items(&self, listed: &Listed, profiles: &[Profile], items: &mut u64) -> Result<(), StoreError> {
        let Some(newest) = Newest::of(&self.keys, &listed.id).await? else {
            // Without a key, nothing of the conversation can be opened. No key is made.
            return Err(StoreError::backend(NoKey));
        };
        self.reseal_exchanges(listed, &newest, items).await?;
        for profile in profiles {
            self.reseal_compaction(listed, profile, &newest, items).await?;
        }
        self.reseal_labels(listed, &newest, items).await
    }

    async fn reseal_exchanges(&self, listed: &Listed, newest: &Newest, items: &mut u64) -> Result<(), StoreError> {
        let (id, incarnation) = (&listed.id, listed.revision.incarnation());
        let mut next = listed.revision.first();
        loop {
            let page = self.inner.read(id, next, EXCHANGES).await?;
            if page.revision.map(|revision| revision.incarnation()) != Some(incarnation) {
                return Err(StoreError::Gone);
            }
            for recorded in &page.exchanges {
                *items += u64::from(self.reseal_exchange(id, incarnation, recorded, newest).await?);
            }
            match page.exchanges.last() {
                Some(last) if page.more => next = last.seq.next(),
                _ => return Ok(()),
            }
        }
    }

    async fn reseal_exchange(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        recorded: &Recorded,
        newest: &Newest,
    ) -> Result<bool, StoreError> {
        let Recorded { seq, exchange: stored, .. } = recorded;
        let key = stored.sealed.as_ref().and_then(|sealed| key_of(sealed.text()));
        if key == Some(newest.cipher.key()) {
            return Ok(false);
        }
        let opened = open_exchange(&mut Opener::new(&self.keys, id), recorded).await;
        let opened = opened.map_err(|error| error.of_exchange(id, *seq))?;
        if !key.is_some_and(|key| newest.replaces(key)) {
            // Another call has added a newer key since this one read the vault.
            return Ok(false);
        }
        let sealed = seal_exchange(&newest.cipher, id, &opened.exchange, *seq)?;
        self.inner.reseal(id, incarnation, *seq, stored, sealed).await
    }

    async fn reseal_compaction(
        &self,
        listed: &Listed,
        profile: &Profile,
        newest: &Newest,
        items: &mut u64,
    ) -> Result<(), StoreError> {
        let (id, incarnation) = (&listed.id, listed.revision.incarnation());
        let load = Load::new().profile(profile.clone()).limit(LoadLimit::new(1, 1).unwrap_or_default());
        let Loaded::Window(window) = self.inner.load(id, load).await? else { return Ok(()) };
        let Some(compaction) = window.compaction else { return Ok(()) };
        let keys = keys_of(&compaction);
        if keys.iter().all(|key| *key == Some(newest.cipher.key())) {
            return Ok(());
        }
        let opened = open_compaction(&mut Opener::new(&self.keys, id), profile, compaction).await;
        let Compaction { version, cut, replaced, .. } = opened.map_err(|error| error.of_compaction(id, profile))?;
        if !keys.into_iter().flatten().any(|key| newest.replaces(key)) {
            return Ok(());
        }
        let compact = Compact::new(profile.clone(), version, cut).replacing(replaced.map(|cut| *cut));
        let outcome = self.inner.compact(id, incarnation, seal_compact(&newest.cipher, compact)?).await?;
        // If another compaction was stored in the meantime, that one stays.
        *items += u64::from(matches!(outcome, CompactOutcome::Stored(_)));
        Ok(())
    }

    async fn reseal_labels(&self, listed: &Listed, newest: &Newest, items: &mut u64) -> Result<(), StoreError> {
        let (id, incarnation) = (&listed.id, listed.revision.incarnation());
        let key = listed.labels.as_sealed().and_then(key_of);
        if listed.labels.is_empty() || key == Some(newest.cipher.key()) {
            return Ok(());
        }
        let labels = open_labels(&mut Opener::new(&self.keys, id), &listed.labels).await?;
        if !key.is_some_and(|key| newest.replaces(key)) {
            return Ok(());
        }
        let sealed = seal_labels(&newest.cipher, &labels)?;
        let outcome = self.inner.set_labels(id, incarnation, listed.labels_version, sealed).await?;
        *items += u64::from(matches!(outcome, LabelsOutcome::Stored(_)));
        Ok(())
    }
}

/// The newest key of a conversation, as it was in the vault when its pass began.
struct Newest {
    cipher: Cipher,
    older: Vec<KeyId>,
}

impl Newest {
    async fn of(keys: &Keys, id: &ConversationId) -> Result<Option<Self>, KeyError> {
        Ok(keys.newest(id).await?.map(|(cipher, older)| Self { cipher, older }))
    }

    /// Returns `true` if this key is newer. An item never goes back to an older key.
    fn replaces(&self, key: KeyId) -> bool {
        self.older.contains(&key)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the vault has no data key for this conversation")]
struct NoKey;

/// Returns the keys with which the summaries of the compaction are sealed.
fn keys_of(compaction: &Compaction) -> Vec<Option<KeyId>> {
    let cuts = [Some(&compaction.cut), compaction.replaced.as_deref()];
    let summaries = cuts.into_iter().flatten().filter_map(|cut: &Cut| cut.summary.as_ref());
    summaries.map(|summary| key_of(&summary.text)).collect()
}
