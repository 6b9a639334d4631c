//! Recall by a search in the log.

use std::sync::Arc;

use async_trait::async_trait;
use tower_chat_history_core::{Attach, StoreError};
use tower_chat_history_recall::{Analyzer, Ask, Found, IndexError, Meaning, Searched, StoredIndex};

use super::{PrepareRequest, Recall, RecallError, RecallRequest, Recollection};

/// The most steps of the index that one preparation makes.
const MAX_STEPS: usize = 4;

/// Searches the log of a conversation for the words of the input.
///
/// The words are compared by their stems, and rare words count more (BM25). The search needs no model. Small talk
/// recalls nothing, and neither does an input without a word that the log has.
///
/// The index is made in the background and stored next to the log, in the same store. A conversation whose whole log is
/// in its window has no index. If an embedder fails or the index is damaged, a warning is logged, and the search goes
/// on without it. A search in a conversation that was deleted or cut back since it was loaded returns
/// [`StoreError::Gone`]. The crate [`tower_chat_history_recall`] has the details: languages, limits, and the search by
/// meaning.
///
/// ```
/// use tower_chat_history::{
///     ChatHistoryLayer, ContextBudget, HistoryOptions, MemoryStore, adapt::Json,
///     recall::{LogRecall, RecallOptions},
/// };
///
/// let store = MemoryStore::new();
/// let recall = RecallOptions::new(LogRecall::new(store.clone()));
/// let options = HistoryOptions::new().context(ContextBudget::tokens(16_000)).recall(recall);
/// let layer = ChatHistoryLayer::with_options(store, Json::new(), options);
/// # let _ = layer;
/// ```
#[derive(Clone, Debug)]
pub struct LogRecall {
    index: StoredIndex,
}

impl LogRecall {
    /// Creates the search in the conversations of a store, which must be the store of the layer or the engine. Words
    /// are English.
    pub fn new(store: impl Attach) -> Self {
        StoredIndex::new(Arc::new(store), Analyzer::default()).into()
    }
}

impl From<StoredIndex> for LogRecall {
    /// Creates the search with this index, for other languages, and for a search by meaning.
    fn from(index: StoredIndex) -> Self {
        Self { index }
    }
}

#[async_trait]
impl Recall for LogRecall {
    async fn recall(&self, request: RecallRequest<'_>) -> Result<Recollection, RecallError> {
        let ask = Ask {
            conversation: request.conversation,
            revision: request.revision,
            before: request.before,
            input: request.input,
            already: request.shown,
            allowance: request.allowance,
            cost: request.cost,
        };
        let found = match self.index.search(ask).await? {
            Searched::Found(found) => found,
            Searched::Gone => return Err(StoreError::Gone.into()),
            _ => return Ok(Recollection::nothing()),
        };
        warn(&found);
        Ok(Recollection {
            recalled: found.recalled,
            best_score: (found.best > 0.0).then_some(found.best),
            unprepared: found.unsearched,
        })
    }

    async fn prepare(&self, request: PrepareRequest<'_>) -> Result<bool, RecallError> {
        for _ in 0..MAX_STEPS {
            let PrepareRequest { conversation, revision, before } = request;
            let indexed = self.index.index(conversation, revision, before).await?;
            if let Some(error) = indexed.embedding {
                tracing::warn!(error.type = error.kind(), vectors = indexed.vectors, "vectors could not be made");
                return Err(RecallError::search(error));
            }
            if !indexed.more {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Logs what a search did without.
fn warn(found: &Found) {
    if let Meaning::Failed(error) = &found.meaning {
        tracing::warn!(error.type = error.kind(), "a search by meaning failed; words were searched");
    }
    if found.damaged > 0 {
        tracing::warn!(
            damaged = found.damaged,
            unsearched = found.unsearched,
            "parts of an index are damaged; their exchanges were read from the log as far as the limit allows"
        );
    }
}

impl From<IndexError> for RecallError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Store(error) => Self::Store(error),
            error => Self::search(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{
        ConversationId, HistoryStore, HistoryStoreExt, Message, Revision, Seq, testing::shorthand::conversation,
    };
    use tower_chat_history_recall::Embedder;

    use crate::{error::BoxError, memory::MemoryStore};

    use super::*;

    #[derive(Debug)]
    struct Down;

    #[async_trait]
    impl Embedder for Down {
        async fn embed(&self, _: Vec<String>) -> Result<Vec<Vec<f32>>, BoxError> {
            Err("down".into())
        }

        fn model(&self) -> &'static str {
            "down"
        }
    }

    async fn chat() -> (MemoryStore, ConversationId, Revision) {
        let (store, id) = (MemoryStore::new(), conversation("log-recall"));
        let messages = (0..100).flat_map(|n| [Message::user(format!("note{n}")), Message::assistant("Noted.")]);
        store.conversation(&id).import(messages.collect::<Vec<Message>>()).await.unwrap();
        let revision = store.conversation(&id).revision().await.unwrap().unwrap();
        (store, id, revision)
    }

    async fn recall(
        recall: &LogRecall,
        conversation: &ConversationId,
        revision: Revision,
    ) -> Result<bool, RecallError> {
        let request = RecallRequest {
            conversation,
            revision,
            before: Seq::new(90),
            input: &[Message::user("Which note7?")],
            shown: &[],
            allowance: 900,
            cost: &|message| message.bytes() as u64,
        };
        Ok(recall.recall(request).await?.recalled.is_some())
    }

    #[tokio::test]
    async fn a_failing_embedder_is_an_error_of_the_preparation_only() {
        let (store, id, revision) = chat().await;
        let index = StoredIndex::new(Arc::new(store), Analyzer::default()).by_meaning(Arc::new(Down));
        let log = LogRecall::from(index);
        let request = PrepareRequest { conversation: &id, revision, before: Seq::new(90) };
        assert_eq!(log.prepare(request).await.unwrap_err().kind(), "search");
        assert!(recall(&log, &id, revision).await.unwrap());
    }

    #[tokio::test]
    async fn a_conversation_that_is_gone_is_an_error() {
        let (store, id, revision) = chat().await;
        let log = LogRecall::new(store.clone());
        assert!(recall(&log, &id, revision).await.unwrap());
        store.delete(&id).await.unwrap();
        assert_eq!(recall(&log, &id, revision).await.unwrap_err().kind(), StoreError::Gone.kind());
        let request = PrepareRequest { conversation: &id, revision, before: Seq::new(90) };
        assert!(!log.prepare(request).await.unwrap(), "nothing is left to do");
    }
}
