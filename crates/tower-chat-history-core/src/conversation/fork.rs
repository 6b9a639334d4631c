//! Going on from one log in another conversation.

use super::{Conversation, PAGE, settle};
use crate::{
    conversation_id::ConversationId,
    exchange::Recorded,
    revision::Incarnation,
    seq::Seq,
    store::{Append, Expect, HistoryStore, StoreError},
};

impl<S: HistoryStore + ?Sized> Conversation<'_, S> {
    /// Copies the exchanges before position `at` into another conversation of the same store, which must not exist yet, and
    /// returns how many these are. This conversation stays as it is.
    ///
    /// The copies are the same exchanges at the same positions: ids, times, what they continue, and all else. Compactions
    /// are not copied, since they are derived: the copy's window starts at its beginning. A position within a turn leaves
    /// the copy's turn open; one beyond the end copies the whole log; position 0 copies nothing, and no conversation is
    /// created. The copy of a [pruned](crate::Prune) log begins at position 0 all the same: there, positions are counted from
    /// the first exchange that was copied.
    ///
    /// Each exchange is one write, and a write whose outcome is unknown is repeated once. The fork expects to be the only
    /// writer of the copy until it is done.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Seq};
    ///
    /// /// Tries another way from the third exchange on, and keeps the first one.
    /// async fn branch(store: &dyn HistoryStore, id: &ConversationId) -> Result<(), Box<dyn std::error::Error>> {
    ///     let copy = ConversationId::new(["acme", "user-42", "support-7b"])?;
    ///     store.conversation(id).fork(Seq::new(2), &copy).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ForkError::Exists`] when the other conversation is there already, [`ForkError::Read`] and [`ForkError::Write`] when
    /// the store fails or one of the two logs is changed by others meanwhile.
    #[doc(alias = "branch")]
    #[doc(alias = "copy")]
    pub async fn fork(&self, at: Seq, to: &ConversationId) -> Result<usize, ForkError> {
        let unread = |copied| move |source| ForkError::Read { copied, source };
        // The first append checks it as well, but an exchange that is there under its own id would pass as its repeat.
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
                    // The log was pruned meanwhile.
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
        Ok(copied)
    }

    /// A piece of the log, which must be in one incarnation from piece to piece.
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
        *incarnation = found;
        Ok((page.exchanges, page.more))
    }

    /// Appends one exchange to the copy and returns what its next one must expect.
    async fn copy(
        &self,
        to: &ConversationId,
        expect: Expect,
        recorded: &Recorded,
        first: Seq,
        copied: usize,
    ) -> Result<Expect, ForkError> {
        let mut exchange = (*recorded.exchange).clone();
        // A late continuation of a turn that was pruned stays one: it opens no turn, whatever it names.
        exchange.continues = exchange.continues.map(|seq| Seq::new(seq.get().saturating_sub(first.get())));
        let append = Append::new(expect, exchange);
        match settle(self.store, to, append).await {
            // Somebody else appended the same exchange: another fork of this log.
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

/// A conversation that was not copied, or not whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The other conversation exists already. Nothing was copied.
    #[error("the conversation to copy into exists already")]
    Exists,
    /// The log could not be read on: the store failed, or the log was deleted, truncated or pruned meanwhile
    /// ([`Gone`](StoreError::Gone)).
    #[error("the log could not be read after {copied} copied exchanges")]
    Read {
        /// How many exchanges are in the copy.
        copied: usize,
        /// Why it stopped.
        source: StoreError,
    },
    /// The copy could not be written on: the store failed, or somebody else wrote to it. Unless the store refused the next
    /// exchange (a conflict), that one may be in as well. Where nothing else writes to the copy, clear it and fork again.
    #[error("the copy could not be written after {copied} copied exchanges")]
    Write {
        /// How many exchanges are surely in the copy.
        copied: usize,
        /// Why it stopped.
        source: StoreError,
    },
}

impl ForkError {
    /// How many exchanges are surely in the copy.
    #[must_use]
    pub const fn copied(&self) -> usize {
        match self {
            Self::Exists => 0,
            Self::Read { copied, .. } | Self::Write { copied, .. } => *copied,
        }
    }
}
