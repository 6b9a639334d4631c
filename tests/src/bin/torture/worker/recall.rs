//! Steps of the indexes, which a kill can interrupt.

use std::sync::Arc;

use tests::FullStore;
use tower_chat_history::{HistoryStoreExt as _, StoreError, store::Attach};
use tower_chat_history_recall::IndexError;

use super::Worker;
use crate::{
    exchange::{Conversation, conversation_id},
    index::{INDEXES, index, remover},
    protocol::WorkerMessage,
    rng::SeededRng,
};

/// A step is made after one stored exchange in this many.
const STEP_ONCE_IN: u64 = 3;
/// One of this many steps removes an index, so that it is made again.
const REMOVAL_ONCE_IN: u64 = 12;

impl Worker {
    /// Sometimes makes a step of one of the indexes of a conversation, or removes that index.
    pub(super) async fn index(&self, conversation: Conversation, rng: &mut SeededRng) -> std::io::Result<()> {
        if !rng.once_in(STEP_ONCE_IN) {
            return Ok(());
        }
        let Ok(id) = conversation_id(conversation) else { return Ok(()) };
        let number = rng.index(INDEXES);
        let store: Arc<dyn Attach> = Arc::<dyn FullStore>::clone(&self.store);
        let index = if rng.once_in(REMOVAL_ONCE_IN) { remover(&store, number) } else { index(&store, number) };
        let failed = match self.store.conversation(&id).revision().await {
            Ok(Some(revision)) => match index.index(&id, revision, revision.next()).await {
                Ok(step) if step.blocks > 0 => {
                    return self.output.write(&WorkerMessage::Indexed { blocks: step.blocks });
                }
                Ok(_) => return Ok(()),
                Err(IndexError::Store(error)) => error,
                Err(error) => return self.output.violation(format!("c{conversation} cannot be indexed: {error}")),
            },
            Ok(None) => return Ok(()),
            Err(error) => error,
        };
        // Servers are restarted, and connections are cut.
        if matches!(failed, StoreError::Unavailable { .. }) {
            return Ok(());
        }
        self.output.violation(format!("c{conversation} cannot be indexed: {failed}"))
    }
}
