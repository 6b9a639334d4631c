//! Recall by a search in the log.

use std::sync::Arc;

use async_trait::async_trait;
use tower_chat_history_core::{ConversationId, HistoryStore, Prefix, StoreError};

use super::{
    PrepareRequest, Recall, RecallError, RecallRequest, Recollection,
    analyzer::Analyzer,
    log::{Ask, Findings, LogSearch, Meaning, SearchAnswer, SearchError},
};

/// Searches the log of a conversation for the words of the input, and those of [other
/// conversations](crate::recall#other-conversations) on request.
///
/// The words are compared by their stems, and rare words count more (BM25). The search needs no model. Small talk
/// recalls nothing, and neither does an input without a word that the log has.
///
/// It searches the newest 2,000 messages before the window. They are read from the log for the first question, and
/// their terms stay in memory. Nothing is stored. If an embedder fails, a warning is logged, and the search goes on
/// without it. A search in a conversation that was deleted or cut back since it was loaded returns
/// [`StoreError::Gone`]. [Other languages](super::Language), the number of messages and the search [by
/// meaning](crate::recall#by-meaning) are options of its [`LogSearch`].
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
    search: LogSearch,
}

impl LogRecall {
    /// Creates the search in the conversations of a store, which must be the store of the layer or the engine. Words
    /// are English.
    pub fn new(store: impl HistoryStore) -> Self {
        LogSearch::new(Arc::new(store), Analyzer::default()).into()
    }
}

impl From<LogSearch> for LogRecall {
    /// Creates the recall by this search: for other languages, for a search by meaning, or for a search in other
    /// conversations.
    fn from(search: LogSearch) -> Self {
        Self { search }
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

        let mut search = self.search.clone().dialect(request.dialect);
        if search.covers_others(request.conversation) {
            // The messages that are found must be read in the rest of the time.
            search = search.time_for_others(request.timeout / 2);
        }

        let found = match search.search(ask).await? {
            SearchAnswer::Found(found) => found,
            SearchAnswer::Gone => return Err(StoreError::Gone.into()),
            _ => return Ok(Recollection { conversations: 0, ..Recollection::nothing() }),
        };

        warn(&found);
        Ok(Recollection {
            recalled: found.recalled,
            best_score: (found.best > 0.0).then_some(found.best),
            unprepared: found.unprepared,
            conversations: found.conversations,
            failed_conversations: found.others.failed,
            is_incomplete: found.others.is_incomplete,
        })
    }

    fn covers_others(&self, conversation: &ConversationId) -> bool {
        self.search.covers_others(conversation)
    }

    async fn prepare(&self, request: PrepareRequest<'_>) -> Result<bool, RecallError> {
        let PrepareRequest { conversation, dialect, revision, before } = request;
        let prepared = self.search.clone().dialect(dialect).prepare(conversation, revision, before).await?;
        match prepared.embedding {
            // The engine logs the error.
            Some(error) => Err(RecallError::search(error)),
            None => Ok(prepared.more),
        }
    }

    fn forget(&self, under: &Prefix) {
        self.search.forget(under);
    }
}

/// Logs what a search did without.
fn warn(found: &Findings) {
    if let Meaning::Failed(error) = &found.meaning {
        tracing::warn!(error.type = error.kind(), "a search by meaning failed; words were searched");
    }
    if found.others.failed > 0 {
        let failed = found.others.failed;
        tracing::warn!(
            failed,
            "other conversations could not be searched, or not in time; nothing of them was recalled"
        );
    }
}

impl From<SearchError> for RecallError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Store(error) => Self::Store(error),
            error => Self::search(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tower::service_fn;
    use tower_chat_history_core::{ChatCompletions, HistoryStore as _, HistoryStoreExt as _, Message, Revision, Seq};

    use super::*;
    use crate::{
        error::BoxError,
        memory::MemoryStore,
        recall::{EmbedError, Embedder, RecallOptions, ServiceEmbedder},
    };

    const BEFORE: Seq = Seq::new(90);

    /// A log that names a dog at its beginning.
    async fn log() -> (MemoryStore, ConversationId, Revision) {
        let store = MemoryStore::new();
        let id = ConversationId::new(["ann"]).unwrap();
        let mut messages = vec![Message::user("My dog is called Rex."), Message::assistant("A good name!")];
        let turn = |n: usize| [Message::user(format!("Chapter {n}")), Message::assistant("Read.")];
        messages.extend((0..100).flat_map(turn));
        store.conversation(&id).import(messages).await.unwrap();
        let revision = store.conversation(&id).revision().await.unwrap().unwrap();
        (store, id, revision)
    }

    fn by_meaning<S>(store: &MemoryStore, service: S) -> LogSearch
    where
        ServiceEmbedder<S>: Embedder,
        S: tower_service::Service<Vec<String>, Response = Vec<Vec<f32>>>,
    {
        LogSearch::new(Arc::new(store.clone()), Analyzer::default()).by_meaning(Arc::new(ServiceEmbedder::new(service)))
    }

    /// Searches for the dog. Returns the error of the embedder, if it failed.
    async fn search(search: LogSearch, id: &ConversationId, revision: Revision) -> Option<EmbedError> {
        let input = [Message::user("What is my dog called?")];
        let cost = |message: &Message| message.bytes() as u64 / 4;
        let ask = Ask {
            conversation: id,
            revision: Some(revision),
            before: BEFORE,
            input: &input,
            already: &[],
            allowance: 500,
            cost: &cost,
        };
        let SearchAnswer::Found(found) = search.search(ask).await.unwrap() else { panic!("nothing was searched") };
        let request = RecallRequest {
            conversation: id,
            revision: Some(revision),
            before: BEFORE,
            dialect: &ChatCompletions,
            input: &input,
            shown: &[],
            allowance: 500,
            cost: &cost,
            timeout: RecallOptions::TIMEOUT,
        };
        let recalled = LogRecall::from(search).recall(request).await.unwrap().recalled;
        assert!(recalled.as_ref().unwrap().message.text().contains("called Rex"), "words alone find it");
        assert_eq!(recalled, found.recalled);
        match found.meaning {
            Meaning::Failed(error) => Some(error),
            _ => None,
        }
    }

    #[tokio::test]
    async fn words_decide_if_the_service_fails_or_returns_a_wrong_number_of_vectors() {
        let (store, id, revision) = log().await;
        let failing = service_fn(|_: Vec<String>| async { Err::<Vec<Vec<f32>>, _>(std::fmt::Error) });
        let failed = search(by_meaning(&store, failing), &id, revision).await;
        assert!(matches!(failed, Some(EmbedError::Failed(source)) if source.is::<std::fmt::Error>()));
        let twice = service_fn(|texts: Vec<String>| async move { Ok::<_, BoxError>(vec![vec![1.0]; texts.len() * 2]) });
        let failed = search(by_meaning(&store, twice), &id, revision).await;
        assert_eq!(failed, Some(EmbedError::Count { expected: 1, found: 2 }));
    }

    #[tokio::test]
    async fn a_failing_service_is_an_error_of_the_preparation_only() {
        let (store, id, revision) = log().await;
        let none = service_fn(|_: Vec<String>| async { Ok::<_, BoxError>(Vec::new()) });
        let recall = LogRecall::from(by_meaning(&store, none));
        let request = PrepareRequest::new(&id, revision, BEFORE);
        assert_eq!(recall.prepare(request).await.unwrap_err().kind(), "search");
        assert_eq!(search(recall.search, &id, revision).await, Some(EmbedError::Count { expected: 1, found: 0 }));

        let right = service_fn(|texts: Vec<String>| async move { Ok::<_, BoxError>(vec![vec![1.0]; texts.len()]) });
        let recall = LogRecall::from(by_meaning(&store, right));
        assert!(!recall.prepare(request).await.unwrap());
        assert_eq!(search(recall.search, &id, revision).await, None);
    }

    #[tokio::test]
    async fn a_conversation_that_is_gone_is_an_error() {
        let (store, id, revision) = log().await;
        let recall = LogRecall::new(store.clone());
        store.delete(&id).await.unwrap();
        let input = [Message::user("What is my dog called?")];
        let cost = |message: &Message| message.bytes() as u64;
        let request = RecallRequest::new(&id, Some(revision), BEFORE, &input, 500, &cost);
        assert_eq!(recall.recall(request).await.unwrap_err().kind(), StoreError::Gone.kind());
        assert!(!recall.prepare(PrepareRequest::new(&id, revision, BEFORE)).await.unwrap(), "nothing is left to do");
    }
}
