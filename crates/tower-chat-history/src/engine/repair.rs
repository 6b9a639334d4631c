//! Storing that encrypted elements are left out, after another compaction was stored first.

use tower_chat_history_core::{CompactOutcome, Compaction, ConversationId, Cut, Incarnation, Seq};

use super::store::BoundedStore;

/// The largest number of attempts to merge the position into a compaction that was stored in the meantime.
const MAX_MERGES: usize = 8;

impl BoundedStore {
    /// Stores that encrypted elements before this position are left out, in the compaction that is stored now. Returns
    /// the cut, or `None` if the stored one leaves them out already.
    ///
    /// If the cut cannot be stored, the next turn is refused once more, and stores it.
    pub(super) async fn leave_out_encrypted(
        &self,
        conversation: &ConversationId,
        incarnation: Incarnation,
        before: Seq,
    ) -> Option<Cut> {
        let mut replaced: Option<Compaction> = None;
        let mut attempts = self.options().save_attempts;
        for _ in 0..MAX_MERGES {
            let mut cut = replaced.as_ref().map(|stored| stored.cut.clone()).unwrap_or_default();
            if cut.encrypted_from >= before {
                return None;
            }
            cut.encrypted_from = before;
            match self.compact(conversation, incarnation, replaced.as_ref(), cut.clone()).await {
                Ok(CompactOutcome::Stored(_)) => return Some(cut),
                Ok(CompactOutcome::Kept(stored)) => replaced = stored,
                Err(error) if error.is_retryable() && attempts > 1 => attempts -= 1,
                Err(error) => {
                    let kind = error.kind();
                    tracing::warn!(error.type = kind, error = %error, "a compaction without encrypted elements could \
                        not be stored");
                    return None;
                }
            }
        }
        None
    }
}
