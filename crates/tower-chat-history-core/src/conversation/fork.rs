//! Copies of a conversation's log.

use super::{Conversation, PAGE, settle};
use crate::{
    conversation_id::ConversationId,
    exchange::Recorded,
    management::TARGET,
    revision::Incarnation,
    seq::Seq,
    store::{Append, Expect, HistoryStore, StoreError},
};

impl<S: HistoryStore + ?Sized> Conversation<'_, S> {
    /// Copies the exchanges before position `at` into another conversation of the same store, which must not exist
    /// yet. Returns the number of copied exchanges. This conversation is not changed.
    ///
    /// Each copied exchange has the id, the time and the messages of the original. It also has its position, unless the
    /// log was pruned. Compactions are not copied, because they are derived: the copy's window starts at its
    /// beginning. [Recalled messages](crate::Exchange::recalled) are not copied if they cite a pruned exchange. Neither
    /// are those that cite another conversation, because the copy may be of another person.
    ///
    /// A position within a turn leaves the copy's turn open. A position after the end copies the whole log.
    /// Position 0 copies nothing and creates no conversation. The copy of a [pruned](crate::Prune) log begins at
    /// position 0 as well, so its positions are counted from the first copied exchange. Reasoning that is
    /// [bound](crate::Bound) to its prompt is sent only if the prompt before it is the same in the copy. It is not the
    /// same if the prompt began with a summary, because the copy has none. In that case, do not fork within a turn
    /// whose reasoning the provider needs.
    ///
    /// Each exchange is one write. A write whose outcome is unknown is repeated once. Until the fork is done,
    /// nothing else may write to the copy.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Seq};
    ///
    /// /// Tries another continuation from the third exchange on, and leaves the first one in place.
    /// async fn branch(store: &dyn HistoryStore, id: &ConversationId) -> Result<(), Box<dyn std::error::Error>> {
    ///     let copy = ConversationId::new(["acme", "user-42", "support-7b"])?;
    ///     store.conversation(id).fork(Seq::new(2), &copy).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ForkError::Exists`] if the other conversation exists already, and [`ForkError::Read`] or
    /// [`ForkError::Write`] if the store fails or if another caller changes one of the two logs during the call.
    #[doc(alias = "branch")]
    #[doc(alias = "copy")]
    pub async fn fork(&self, at: Seq, to: &ConversationId) -> Result<usize, ForkError> {
        let unread = |copied| move |source| ForkError::Read { copied, source };
        // The first append checks this too, but an existing exchange with the same id would pass as a repeat.
        if self.store.read(to, Seq::FIRST, 0).await.map_err(unread(0))?.revision.is_some() {
            return Err(ForkError::Exists);
        }
        let (mut next, mut copied, mut expect) = (Seq::FIRST, 0, Expect::Absent);
        let (mut incarnation, mut first) = (None, None);
        while next < at {
            let limit = usize::try_from(at.get() - next.get()).map_or(PAGE, |left| left.min(PAGE));
            let (page, more) = self.page(next, limit, &mut incarnation).await.map_err(unread(copied))?;
            for recorded in page.into_iter().take_while(|recorded| recorded.seq < at) {
                if first.is_some() && recorded.seq != next {
                    // The log was pruned during the call.
                    return Err(unread(copied)(StoreError::Gone));
                }
                let first = *first.get_or_insert(recorded.seq);
                expect = self.copy(to, expect, &recorded, first, copied).await?;
                copied += 1;
                next = recorded.seq.next();
            }
            if !more || first.is_none() {
                break;
            }
        }
        tracing::info!(target: TARGET, action = "fork", conversation = %self.id, %to, exchanges = copied);
        Ok(copied)
    }

    /// Reads a page of the log, which must be in the same incarnation as the pages before.
    async fn page(
        &self,
        from: Seq,
        limit: usize,
        incarnation: &mut Option<Incarnation>,
    ) -> Result<(Vec<Recorded>, bool), StoreError> {
        let page = self.store.read(self.id, from, limit).await?;
        let found = page.revision.map(|revision| revision.incarnation());
        if incarnation.is_some() && found != *incarnation || page.exchanges.is_empty() && page.more {
            return Err(StoreError::Gone);
        }
        // The copy could not be decrypted under another id.
        page.exchanges.iter().try_for_each(Recorded::check_unsealed)?;
        *incarnation = found;
        Ok((page.exchanges, page.more))
    }

    /// Appends one exchange to the copy, and returns the condition for the next append.
    async fn copy(
        &self,
        to: &ConversationId,
        expect: Expect,
        recorded: &Recorded,
        first: Seq,
        copied: usize,
    ) -> Result<Expect, ForkError> {
        let mut exchange = (*recorded.exchange).clone();
        // A late continuation of a pruned turn names a position before the copied ones. The difference saturates at 0,
        // so it remains a continuation and opens no turn.
        exchange.continues = exchange.continues.map(|seq| seq.moved_back(first));
        exchange.recalled = exchange.recalled.and_then(|recalled| recalled.moved_back(first));
        exchange.provenance = exchange.provenance.map(|provenance| Box::new(provenance.moved_back(first)));
        let append = Append::new(expect, exchange);
        match settle(self.store, to, append).await {
            // Another caller appended the same exchange: another fork of this log.
            Ok((appended, repeated)) if appended.duplicate && !repeated => {
                let source = StoreError::Conflict { current: Some(appended.revision) };
                Err(if copied == 0 { ForkError::Exists } else { ForkError::Write { copied, source } })
            }
            Ok((appended, _)) => Ok(Expect::Exactly(appended.revision)),
            Err(StoreError::Conflict { .. }) if copied == 0 => Err(ForkError::Exists),
            Err(source) => Err(ForkError::Write { copied, source }),
        }
    }
}

/// The error for a conversation that was not copied, or not completely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The other conversation exists already. Nothing was copied.
    #[error("the conversation to copy into already exists")]
    Exists,
    /// The log could not be read further: the store failed, or the log was deleted, truncated or pruned during the
    /// call ([`Gone`](StoreError::Gone)).
    #[error("the log could not be read after {copied} copied exchanges: {source}")]
    Read {
        /// The number of exchanges in the copy.
        copied: usize,
        /// The cause.
        source: StoreError,
    },
    /// The copy could not be written further: the store failed, or another caller wrote to it. Unless the cause is
    /// a conflict, the next exchange may be in the copy as well. If nothing else writes to the copy, clear it and
    /// fork again.
    #[error("the copy could not be written after {copied} copied exchanges: {source}")]
    Write {
        /// The number of exchanges that are certainly in the copy.
        copied: usize,
        /// The cause.
        source: StoreError,
    },
}

impl ForkError {
    /// Returns the number of exchanges that are certainly in the copy.
    #[must_use]
    pub const fn copied(&self) -> usize {
        match self {
            Self::Exists => 0,
            Self::Read { copied, .. } | Self::Write { copied, .. } => *copied,
        }
    }
}
