//! Labels of a conversation.

use super::Conversation;
use crate::{
    labels::Labels,
    management::TARGET,
    store::{LabelsOutcome, List, StoreError},
};

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
