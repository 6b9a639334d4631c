//! Changes of a conversation: removing its end or its beginning, labels, and copies.

use super::{Conversation, smallest};
use crate::{
    compaction::{Compaction, Cuts},
    conversation_id::ConversationId,
    exchange::Recorded,
    labels::Labels,
    management::TARGET,
    seq::{Revision, Seq},
    store::{
        Derived, Fork, ForkTo, LabelsOutcome, List, Load, Loaded, Prune, PruneTo, Pruned, StoreError, Truncate,
        Truncated,
    },
};

impl<S: Truncate + ?Sized> Conversation<'_, S> {
    /// Removes the exchanges from position `from` on, so that the conversation can continue with another message.
    /// If the conversation does not exist, there is nothing to remove.
    ///
    /// [`Truncate`] documents the effects on calls in flight, on exchange ids and on compactions. A position within
    /// a turn leaves the turn open. Position 0 removes the conversation. If there is no exchange at the position,
    /// nothing is removed.
    ///
    /// Of the compactions, only that of the handle's [profile](Self::profile) stays, as far as it is still right. If it
    /// cannot be read, it is removed, too.
    ///
    /// This truncates the current log. If the log was edited after you read a position, the position may belong to
    /// another exchange now. To refuse the truncation in that case, call [`Truncate::truncate`] with the revision at
    /// which you read the position.
    ///
    /// # Errors
    ///
    /// Returns [`Conflict`](StoreError::Conflict) or [`Gone`](StoreError::Gone) if the log changes during the call.
    /// Nothing is removed then. Returns another error if the store cannot be read or written.
    pub async fn truncate(&self, from: Seq) -> Result<Truncated, StoreError> {
        let found = match self.newest_window().await {
            Ok(window) => window.map(|window| (window.revision, window.compaction)),
            // Exchanges and compactions that cannot be read can still be removed.
            Err(StoreError::Corrupt { .. } | StoreError::CorruptCompaction { .. }) => {
                self.revision().await?.map(|revision| (revision, None))
            }
            Err(error) => return Err(error),
        };
        match found {
            Some((revision, compaction)) => self.truncate_at(revision, compaction.as_ref(), from).await,
            None => Ok(Truncated::new(None, 0)),
        }
    }

    /// Removes the last exchange and returns it, or returns `None` if there is no such conversation. To have the
    /// reply generated again, send its input again.
    ///
    /// This removes one exchange, not one turn. In a turn with tool calls, that is the last continuation, whose input
    /// is the results of the calls. To see if the exchange has a reply, look at its last message. The store no longer
    /// has the exchange, so keep the returned value until its input has been sent again.
    ///
    /// Only stored exchanges count. If an engine serves the conversation, let it finish its saves first
    /// (`Engine::saved`). Otherwise, if a complete reply is not stored yet, this method removes the exchange that
    /// precedes it, and the store then refuses the reply.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message, Role, Truncate};
    ///
    /// /// Returns the messages to send again.
    /// async fn regenerate(
    ///     store: &dyn Truncate,
    ///     id: &ConversationId,
    /// ) -> Result<Option<Vec<Message>>, Box<dyn std::error::Error>> {
    ///     let Some(last) = store.conversation(id).take_last().await? else { return Ok(None) };
    ///     let mut input = last.exchange.messages.clone();
    /// // All messages before the reply are input. The same exchange id may be used again, too.
    ///     if input.last().is_some_and(|message| *message.role() == Role::Assistant) {
    ///         input.pop();
    ///     }
    ///     Ok(Some(input))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Conflict`](StoreError::Conflict) or [`Gone`](StoreError::Gone) if the log changes during the call.
    /// Nothing is removed then, and the last exchange may be another one.
    ///
    /// Returns another error if the store cannot be read or written. If writing failed, the exchange may have been
    /// removed. If you need its contents in that case, read it first.
    #[doc(alias = "forget_last")]
    #[doc(alias = "clear_history")]
    #[doc(alias = "regenerate")]
    #[doc(alias = "undo")]
    pub async fn take_last(&self) -> Result<Option<Recorded>, StoreError> {
        let Some(mut window) = self.newest_window().await? else { return Ok(None) };
        let Some(last) = window.exchanges.pop() else { return Ok(None) };
        last.check_unsealed()?;
        self.truncate_at(window.revision, window.compaction.as_ref(), last.seq).await?;
        Ok(Some(last))
    }

    async fn truncate_at(
        &self,
        revision: Revision,
        compaction: Option<&Compaction>,
        from: Seq,
    ) -> Result<Truncated, StoreError> {
        let keep = compaction.and_then(|compaction| {
            let cuts = Cuts::read(compaction).ok()?.truncated_to(from.get())?;
            cuts.compact(self.profile.clone(), compaction.version).ok()
        });
        let truncated = self.store.truncate(self.id, revision, from, keep).await?;
        let exchanges = truncated.removed;
        tracing::info!(target: TARGET, action = "truncate", conversation = %self.id, exchanges);
        Ok(truncated)
    }
}

impl<S: Prune + ?Sized> Conversation<'_, S> {
    /// Removes all but the last `turns` turns from the store. Returns the number of removed exchanges. The last
    /// turn always remains. If the conversation does not exist, there is nothing to remove.
    ///
    /// Removed exchanges cannot be recovered. Summaries are kept: see [`prune`](Self::prune).
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStoreExt, Prune};
    ///
    /// async fn tidy(store: &dyn Prune, id: &ConversationId) -> Result<(), Box<dyn std::error::Error>> {
    ///     let removed = store.conversation(id).keep_last_turns(50).await?;
    ///     println!("{removed} exchanges removed");
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The same as [`prune`](Self::prune).
    #[doc(alias = "trim")]
    pub async fn keep_last_turns(&self, turns: usize) -> Result<u64, StoreError> {
        self.removed(PruneTo::LastTurns(turns)).await
    }

    /// Removes the oldest turns, until the remaining ones have at most `messages` messages. Returns the number of
    /// removed exchanges. The last turn always remains, even if it has more messages. See also
    /// [`keep_last_turns`](Self::keep_last_turns).
    ///
    /// # Errors
    ///
    /// The same as [`prune`](Self::prune).
    #[doc(alias = "trim")]
    pub async fn keep_last_messages(&self, messages: usize) -> Result<u64, StoreError> {
        self.removed(PruneTo::LastMessages(messages)).await
    }

    /// Removes the beginning of the log from the store, up to the part to keep. Returns `None` if there is no such
    /// conversation.
    ///
    /// [`Prune`] documents the effects on calls in flight, on exchange ids and on compactions. With
    /// [`Derived::Keep`], summaries still describe removed exchanges. To remove these summaries too, use
    /// [`Derived::Erase`]:
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStoreExt, PruneTo, Prune, Seq, Derived};
    ///
    /// /// Erases everything before a position.
    /// async fn forget(
    ///     store: &dyn Prune,
    ///     id: &ConversationId,
    ///     before: Seq,
    /// ) -> Result<(), Box<dyn std::error::Error>> {
    ///     store.conversation(id).prune(PruneTo::From(before), Derived::Erase).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Gone`](StoreError::Gone) if the conversation is deleted or truncated during the call, and another
    /// error if the store cannot be read or written. After an error other than a refusal, the beginning may have been
    /// removed. Repeating the call is safe.
    pub async fn prune(&self, keep: PruneTo, derived: Derived) -> Result<Option<Pruned>, StoreError> {
        let Some(revision) = self.revision().await? else { return Ok(None) };
        let pruned = self.store.prune(self.id, revision.incarnation(), keep, derived).await?;
        let exchanges = pruned.removed;
        tracing::info!(target: TARGET, action = "prune", conversation = %self.id, exchanges, ?derived);
        Ok(Some(pruned))
    }

    async fn removed(&self, keep: PruneTo) -> Result<u64, StoreError> {
        Ok(self.prune(keep, Derived::Keep).await?.map_or(0, |pruned| pruned.removed))
    }
}

impl<S: List + ?Sized> Conversation<'_, S> {
    /// Replaces all labels of the conversation. Returns `None` if there is no such conversation. If somebody else
    /// replaces them during the call, theirs [stay](LabelsOutcome::Kept).
    ///
    /// # Errors
    ///
    /// The same as [`List::set_labels`].
    pub async fn set_labels(&self, labels: Labels) -> Result<Option<LabelsOutcome>, StoreError> {
        let Some(listed) = self.store.describe(self.id).await? else { return Ok(None) };
        let incarnation = listed.revision.incarnation();
        let outcome = self.store.set_labels(self.id, incarnation, listed.labels_version, labels).await?;
        if matches!(outcome, LabelsOutcome::Stored(_)) {
            tracing::info!(target: TARGET, action = "set_labels", conversation = %self.id);
        }
        Ok(Some(outcome))
    }
}

impl<S: Fork + ?Sized> Conversation<'_, S> {
    /// Copies the exchanges before position `at` into another conversation of the same store, which must not exist
    /// yet. Returns the number of copied exchanges. This conversation is not changed.
    ///
    /// [`Fork`] documents what is copied. Of the compactions, only that of the handle's [profile](Self::profile) is
    /// copied, as far as it is right for the copy. So the copy's next prompt begins as this conversation's prompt at
    /// that position did. A compaction that cannot be read is not copied.
    ///
    /// The copy has the label [`forked_from`](Labels::forked_from), which contains the id of this conversation. Other
    /// labels are not copied.
    ///
    /// A position within a turn leaves the copy's turn open. A position after the end copies the whole log. If there is
    /// no exchange before the position, nothing is copied and no conversation is created.
    ///
    /// Fork an encrypted log by a handle on the wrapper that decrypts it: encrypted content does not open in another
    /// conversation. Other handles refuse to fork if the newest turn is encrypted, but check no older one. If only
    /// older exchanges are encrypted, they make a copy that does not open.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, Fork, HistoryStoreExt, Seq};
    ///
    /// /// Tries another continuation from the third exchange on, and leaves the first one in place.
    /// async fn branch(store: &dyn Fork, id: &ConversationId) -> Result<(), Box<dyn std::error::Error>> {
    ///     let copy = ConversationId::new(["acme", "user-42", "support-7b"])?;
    ///     store.conversation(id).fork(Seq::new(2), &copy).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ForkError::Exists`]: the other conversation exists already.
    /// - [`ForkError::Store`]: the store fails, the newest turn is encrypted and this is not a handle on the wrapper
    ///   that decrypts it, or the log is deleted or truncated during the call.
    #[doc(alias = "branch")]
    #[doc(alias = "copy")]
    pub async fn fork(&self, at: Seq, to: &ConversationId) -> Result<u64, ForkError> {
        let copy = self.store.load(to, Load::new().limit(smallest())).await?;
        let Loaded::Absent(epoch) = copy else { return Err(ForkError::Exists) };
        let Some(window) = self.newest_window().await? else { return Ok(0) };
        // The copy could not be decrypted under another id.
        window.exchanges.iter().try_for_each(Recorded::check_unsealed)?;

        // Exchanges that are appended after the load are not copied, so the label has the right position.
        let at = at.min(window.revision.next());
        let compact = window.compaction.as_ref().and_then(|compaction| {
            let cuts = Cuts::read(compaction).ok()?.truncated_to(at.get())?;
            cuts.compact(self.profile.clone(), compaction.version).ok()
        });
        let labels = Labels::of_fork(self.id, at);
        let to = ForkTo::new(to.clone(), at).since(Some(epoch)).labels(labels).compact(compact);

        let incarnation = window.revision.incarnation();
        let mut forked = self.store.fork(self.id, incarnation, to.clone()).await;
        if forked.as_ref().is_err_and(StoreError::is_retryable) {
            forked = self.store.fork(self.id, incarnation, to.clone()).await;
        }
        let copied = forked?.copied;
        tracing::info!(target: TARGET, action = "fork", conversation = %self.id, to = %to.id, exchanges = copied);
        Ok(copied)
    }
}

/// The error for a conversation that was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The other conversation exists already. Nothing was copied.
    #[error("the conversation to copy into already exists")]
    Exists,
    /// The log could not be read, or the copy could not be written.
    #[error("the conversation could not be copied: {0}")]
    Store(#[source] StoreError),
}

impl From<StoreError> for ForkError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict { .. } => Self::Exists,
            error => Self::Store(error),
        }
    }
}
