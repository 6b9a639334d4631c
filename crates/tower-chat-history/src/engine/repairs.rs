//! Storing what a turn has learned from refusals: that encrypted elements are left out, and what a reader accepts.
//!
//! # Decisions
//!
//! - **A provider may refuse encrypted elements that it made itself**, for example after a change of its key. The turn
//!   is planned again without them and called once more, under the same exchange id. Nothing is removed from the log:
//!   another process may still be able to send them.
//! - **No save waits for this.** It runs in the background, because the reply was paid for and is stored already.

use std::sync::Arc;

use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use tower_chat_history_core::{ConversationId, Cut, Incarnation, LearnedReader, Seq};

use super::{
    running::RunningWork,
    store::{BoundedStore, Replacement, StoredCut},
};
use crate::timeout::timeout;

/// The largest number of attempts to merge the position into a compaction that was stored in the meantime.
const MAX_MERGES: u32 = 8;

/// Stores in the background what turns have learned from refusals, one turn after the other in each conversation.
///
/// The exchange of a turn that was repeated without encrypted elements normally has the position in its compaction. If
/// another compaction was stored during the turn, the position is stored here, after the exchange. The reply does not
/// wait for it.
pub(super) struct Repairs {
    store: BoundedStore,
    running: Arc<RunningWork<()>>,
}

impl Repairs {
    pub(super) fn new(store: BoundedStore, tasks: TaskTracker) -> Self {
        Self { store, running: Arc::new(RunningWork::new(tasks)) }
    }

    /// Begins to store what a turn has learned. `store` has the turn's profile.
    pub(super) fn start(
        &self,
        store: &BoundedStore,
        conversation: &ConversationId,
        incarnation: Incarnation,
        lessons: Lessons,
    ) {
        let base = self.store.clone();
        let store = store.clone();
        let id = conversation.clone();
        let work = async move {
            if let Some(before) = lessons.encrypted_from {
                let leave_out = |cut: &mut Cut| {
                    let is_new = cut.encrypted_from < before;
                    cut.encrypted_from = cut.encrypted_from.max(before);
                    is_new
                };
                change_cut(&store, &id, incarnation, leave_out).await;
                if store.profile() != base.profile() {
                    change_cut(&base, &id, incarnation, leave_out).await;
                }
            }
            if let Some(learned) = lessons.learned {
                let learn = |cut: &mut Cut| {
                    cut.learned.learn(learned.clone());
                    true
                };
                change_cut(&base, &id, incarnation, learn).await;
            }
            None
        };
        self.running.run_next(conversation, work);
    }

    /// Returns `true` if a position of the conversation is being stored.
    pub(super) fn has(&self, conversation: &ConversationId) -> bool {
        self.running.get(conversation).is_some()
    }

    /// Waits until the position of this conversation is stored, at most for the store timeout if there is one. A turn
    /// that begins without it may be refused, and is then repaired itself.
    pub(super) async fn stored(&self, conversation: &ConversationId) {
        if let Some(running) = self.running.get(conversation) {
            let _ = timeout(self.store.options().store_timeout, running.output()).await;
        }
    }

    /// Returns the number of conversations whose position is being stored.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }
}

/// The lessons of a turn from refusals.
pub(super) struct Lessons {
    /// The position before which encrypted elements are left out, if the exchange was stored without it.
    pub(super) encrypted_from: Option<Seq>,
    /// The facts about the reader.
    pub(super) learned: Option<LearnedReader>,
}

impl Lessons {
    /// Returns `true` if nothing was learned.
    pub(super) const fn is_empty(&self) -> bool {
        self.encrypted_from.is_none() && self.learned.is_none()
    }
}

/// Changes the cut that is stored now. `change` returns `false` if there is nothing to change. It is attempted as often
/// as a save, with the same pauses.
async fn change_cut(
    store: &BoundedStore,
    conversation: &ConversationId,
    incarnation: Incarnation,
    change: impl Fn(&mut Cut) -> bool,
) {
    let mut replaced: Option<StoredCut> = None;
    let mut merges = 0;
    let mut attempts = 1;
    let mut pauses = store.pauses();
    loop {
        let mut cut = replaced.as_ref().map(|stored| stored.cut.clone()).unwrap_or_default();
        if !change(&mut cut) {
            return;
        }
        match store.compact(conversation, incarnation, replaced.as_ref(), cut).await {
            Ok(Replacement::Stored) => return,
            Ok(Replacement::Kept(stored)) if merges < MAX_MERGES => {
                replaced = stored;
                merges += 1;
            }
            Ok(Replacement::Kept(_)) => {
                tracing::warn!(
                    merges,
                    "what a turn has learned from a refusal could not be stored, because other compactions were stored \
                    first; the next call may be refused once more"
                );
                return;
            }
            Err(error) => {
                if let Some(pause) = pauses.next().filter(|_| error.is_retryable()) {
                    attempts += 1;
                    sleep(pause).await;
                    continue;
                }
                let kind = error.kind();
                tracing::warn!(error.type = kind, error = %error, attempts, "what a turn has learned from a refusal \
                    could not be stored; the next call may be refused once more");
                return;
            }
        }
    }
}
