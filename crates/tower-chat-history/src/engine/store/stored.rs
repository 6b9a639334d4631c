//! The search for an exchange that an earlier attempt stored, although its answer was lost.

use tokio::time::sleep;
use tower_chat_history_core::{
    Append, Appended, ConversationId, Exchange, ExchangeId, Expect, Loaded, Revision, Seq, StoreError,
};

use super::{BoundedStore, FIRST_PAUSE, StoreFailure, is_transient};
use crate::error::SaveError;

impl BoundedStore {
    /// Returns the exchange that an earlier attempt stored, or `None` if the append can be repeated.
    ///
    /// The store refuses a second exchange with an id only while the first one is in the log. If the log was pruned
    /// beyond the position that the exchange could have got, a repetition could store it twice.
    pub(super) async fn stored_earlier(
        &self,
        conversation: &ConversationId,
        append: &Append,
        next: Seq,
    ) -> Result<Option<Appended>, SaveError> {
        let may_be_pruned = |revision: &Revision| {
            let is_expected = match append.expect {
                Expect::Exactly(expected) => expected.incarnation() == revision.incarnation(),
                Expect::AnyIn(incarnation) => incarnation == revision.incarnation(),
                Expect::Absent | Expect::AnyOrCreate => true,
            };
            is_expected && revision.first() > next
        };
        if self.revision(conversation).await?.filter(may_be_pruned).is_none() {
            return Ok(None);
        }
        let Loaded::AlreadyRecorded(recorded) = self.find(conversation, &append.exchange.id).await? else {
            return Err(SaveError::UnknownOutcome);
        };
        let revision = self.revision(conversation).await?.ok_or(SaveError::Store(StoreError::Gone))?;
        Ok(Some(Appended::duplicate(revision, recorded.seq)))
    }

    async fn revision(&self, conversation: &ConversationId) -> Result<Option<Revision>, StoreFailure> {
        let page = self.bounded(self.store.read(conversation, Seq::FIRST, 0)).await?;
        Ok(page.revision)
    }

    /// Loads the exchange with this id if it is in the log.
    async fn find(&self, conversation: &ConversationId, exchange: &ExchangeId) -> Result<Loaded, StoreFailure> {
        let asked = self.window_or(Some(exchange));
        self.bounded(self.store.load(conversation, asked)).await
    }

    /// Returns `true` if the duplicate that the store found in the log is this exchange itself, stored by an attempt
    /// whose answer was lost. `has_caller_id` is true if the caller chose the exchange's id. The load of the duplicate
    /// is retried after transient errors. If it fails, the outcome of the save is unknown.
    pub(in crate::engine) async fn is_own(
        &self,
        conversation: &ConversationId,
        own: &Exchange,
        has_caller_id: bool,
        attempts: u32,
    ) -> Result<bool, SaveError> {
        // No other exchange has a generated id. A single attempt cannot find an exchange of an earlier attempt.
        if !has_caller_id || attempts < 2 {
            return Ok(!has_caller_id);
        }
        let mut pause = FIRST_PAUSE;
        for left in (0..self.options.save_attempts.max(1)).rev() {
            match self.find(conversation, &own.id).await.map_err(SaveError::from) {
                Ok(Loaded::AlreadyRecorded(recorded)) => {
                    return Ok(recorded.exchange.at == own.at && recorded.exchange.messages == own.messages);
                }
                // It was deleted or pruned in between.
                Ok(Loaded::Absent(_) | Loaded::Unchanged | Loaded::Added(_) | Loaded::Window(_)) => break,
                Err(error) => {
                    let kind = error.kind();
                    tracing::warn!(error.type = kind, error = %error, "a stored exchange could not be loaded");
                    if left == 0 || !is_transient(&error) {
                        break;
                    }
                    sleep(pause).await;
                    pause *= 2;
                }
            }
        }
        Err(SaveError::UnknownOutcome)
    }
}
