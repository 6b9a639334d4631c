//! Forks. A sealed item opens only in its own conversation, so each exchange is opened, and sealed for the copy.

use std::sync::Arc;

use async_trait::async_trait;
use tower_chat_history_core::{
    Append, Appended, CompactionVersion, ConversationId, Erase, Exchange, Expect, Fork, ForkTo, Forked,
    HistoryStore as _, Incarnation, LabelsOutcome, LabelsVersion, List as _, Recalled, Recorded, Revision, Seq,
    StoreError,
};

use crate::encryption::store::EncryptedStore;

/// The number of exchanges that are read at once.
const PAGE: usize = 100;

/// The inner store need not fork, but it must list and erase.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase> Fork for EncryptedStore<S> {
    /// Copies the log exchange by exchange, because each has to be sealed for the copy. This is not one step:
    ///
    /// - Others can see a part of the copy. The compaction comes with its last exchange, and then come the labels.
    /// - If a step fails, the part is removed, and the call fails with the error of the step. The part stays if it
    ///   cannot be removed, if an append was repeated and its outcome is still unknown, if the future is dropped, or if
    ///   the process ends. A fork by the handle gives a complete copy the label
    ///   [`FORKED_FROM`](tower_chat_history_core::Labels::FORKED_FROM). If the conversation has no label after a fork
    ///   that failed or was dropped, it is a part, unless others have used the id:
    ///   [delete](tower_chat_history_core::HistoryStore::delete) it, and fork again.
    /// - If another caller appends to the part or labels it, the call fails with [`Conflict`](StoreError::Conflict).
    ///   The part stays, because it is now the conversation of that caller.
    /// - The inner store chooses the incarnation of the copy, so a repeated call does not recognize the copy of an
    ///   earlier one: it fails with [`Conflict`](StoreError::Conflict).
    /// - The copy is listed with the times of its exchanges in place of [`ForkTo::at`]. An
    ///   [expiry](tower_chat_history_core::Expiry) may remove the copy of an old conversation soon.
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        if let Some(current) = self.revision(&to.id).await? {
            return Err(StoreError::Conflict { current: Some(current) });
        }
        let log = self.revision(id).await?.filter(|log| log.incarnation() == incarnation).ok_or(StoreError::Gone)?;

        let mut copy = None;
        let copied = self.copy_to(id, log, &to, &mut copy).await;
        if let (Err(error), Some(part)) = (&copied, copy)
            && !matches!(error, StoreError::Conflict { .. })
        {
            // The first error is returned in any case.
            let _ = self.erase_if(&to.id, part).await;
        }
        copied.map(|()| Forked::new(copy))
    }
}

impl<S: Erase> EncryptedStore<S> {
    /// Copies the log page by page. `copy` is always the revision of what was copied so far.
    async fn copy_to(
        &self,
        id: &ConversationId,
        log: Revision,
        to: &ForkTo,
        copy: &mut Option<Revision>,
    ) -> Result<(), StoreError> {
        let end = to.before.min(log.next());
        let mut next = log.first();
        while next < end {
            let left = usize::try_from(end.get() - next.get()).unwrap_or(PAGE);
            let page = self.read(id, next, left.min(PAGE)).await?;
            let is_same = page.revision.is_some_and(|now| now.incarnation() == log.incarnation());
            // A page that begins later is of a log that was pruned in the meantime.
            if !is_same || page.exchanges.first().is_none_or(|first| first.seq != next) {
                return Err(StoreError::Gone);
            }

            for recorded in page.exchanges {
                next = recorded.seq.next();
                let expect = copy.map_or(Expect::Absent, Expect::Exactly);
                let mut append = Append::new(expect, without_others(recorded, log.first()));
                append = append.since(to.since).beginning_at(log.first());
                if next == end {
                    append.compact = to.compact.clone();
                }
                if let Some(compact) = &mut append.compact {
                    compact.replaces = CompactionVersion::NONE;
                }
                *copy = Some(self.append_once(&to.id, append).await?.revision);
            }
        }

        if let Some(copy) = copy
            && !to.labels.is_empty()
        {
            let labels = to.labels.clone();
            let outcome = self.set_labels(&to.id, copy.incarnation(), LabelsVersion::NONE, labels).await?;
            if let LabelsOutcome::Kept(..) = outcome {
                return Err(StoreError::Conflict { current: Some(*copy) });
            }
        }

        // An erasure that removed the log in the meantime may have ended before it could find the copy.
        match self.revision(id).await? {
            Some(now) if now.incarnation() == log.incarnation() => Ok(()),
            _ => Err(StoreError::Gone),
        }
    }

    /// Appends, and repeats the append if its outcome is unknown. An exchange that is in the copy already is of another
    /// fork of the same log.
    async fn append_once(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        match self.append(id, append.clone()).await {
            Ok(appended) if appended.duplicate => Err(StoreError::Conflict { current: Some(appended.revision) }),
            Err(error) if error.is_retryable() => self.append(id, append).await,
            appended => appended,
        }
    }
}

/// Returns the exchange without recalled messages that a fork does not copy.
fn without_others(recorded: Recorded, first: Seq) -> Arc<Exchange> {
    let mut exchange = recorded.exchange;
    // It is -1 if another conversation is cited.
    if let Some(least_cited) = exchange.recalled.as_ref().and_then(Recalled::least_cited)
        && u64::try_from(least_cited).map_or(true, |cited| cited < first.get())
    {
        Arc::make_mut(&mut exchange).recalled = None;
    }
    exchange
}
