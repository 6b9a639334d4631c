//! A conversation in a store, and the same one in a memory store to compare with.

use std::{ops::Range, sync::Arc, time::Duration};

use tests::Storage;
use tower_chat_history::{
    CachedStore, ConversationId, Exchange, HistoryStore, HistoryStoreExt as _, MemoryStore, Message, RoutedStore,
    recall::{Analyzer, Ask, Findings, Language, LogSearch, SearchAnswer, SearchTool},
    store::{Append, Citation, Derived, Expect, PruneTo, Revision, Seq},
};

/// The allowance of each search. A token has four bytes here.
const ALLOWANCE: u64 = 700;

/// Changes a search, for example to search by meaning.
pub(super) type Setup = fn(LogSearch) -> LogSearch;

/// A conversation in two stores.
pub(super) struct World {
    pub(super) storage: Storage,
    pub(super) id: ConversationId,
    memory: MemoryStore,
    /// The search in memory, and those through each handle. They keep what they made between checks.
    of_memory: LogSearch,
    searches: Vec<(&'static str, LogSearch)>,
}

impl World {
    pub(super) async fn new(storage: Storage, setup: Setup) -> Self {
        let (id, memory, store) = (storage.conversation(), MemoryStore::new(), &storage.store);
        let over = |store: Arc<dyn HistoryStore>| setup(LogSearch::new(store, analyzer()));
        let routed = store.clone();
        let searches = vec![
            ("plain", over(Arc::new(store.clone()))),
            ("cached", over(Arc::new(CachedStore::new(store.clone())))),
            ("routed", over(Arc::new(RoutedStore::new(move |_: &ConversationId| routed.clone())))),
            ("replica", over(Arc::new(storage.replica().await.store))),
        ];
        Self { of_memory: over(Arc::new(memory.clone())), searches, storage, memory, id }
    }

    /// Adds an exchange for each of these positions to both logs.
    pub(super) async fn append(&self, positions: Range<u64>, exchange: impl Fn(u64) -> Exchange) {
        for position in positions {
            let append = Append::new(Expect::AnyOrCreate, exchange(position));
            assert_eq!(self.memory.append(&self.id, append.clone()).await.unwrap().seq, Seq::new(position));
            assert_eq!(self.storage.store.append(&self.id, append).await.unwrap().seq, Seq::new(position));
        }
    }

    /// Truncates both logs.
    pub(super) async fn truncate(&self, from: Seq) {
        self.memory.conversation(&self.id).truncate(from).await.unwrap();
        self.storage.store.conversation(&self.id).truncate(from).await.unwrap();
    }

    /// Prunes both logs.
    pub(super) async fn prune(&self, from: Seq, derived: Derived) {
        let of_memory = self.memory.conversation(&self.id).prune(PruneTo::From(from), derived).await.unwrap().unwrap();
        let pruned = self.storage.store.conversation(&self.id).prune(PruneTo::From(from), derived).await.unwrap();
        assert_eq!(pruned.unwrap().removed, of_memory.removed);
    }

    /// Makes the vectors before a position, if there are any.
    async fn prepare(&self, search: &LogSearch, revision: Revision, before: Seq) {
        loop {
            let prepared = search.prepare(&self.id, revision, before).await.unwrap();
            assert_eq!(prepared.embedding, None);
            if !prepared.more {
                return;
            }
        }
    }

    async fn found(&self, search: &LogSearch, revision: Revision, question: Question<'_>) -> Option<Findings> {
        let ask = Ask {
            conversation: &self.id,
            revision: Some(revision),
            before: question.before,
            input: &[Message::user(question.text)],
            already: question.already,
            allowance: ALLOWANCE,
            cost: &|message| message.bytes() as u64 / 4,
        };
        match search.search(ask).await.unwrap() {
            SearchAnswer::Found(found) => Some(found),
            SearchAnswer::Nothing => None,
            other => panic!("{question:?}: {other:?}"),
        }
    }

    /// Checks that the store returns the same for these questions as the memory store. Some questions are asked through
    /// all handles, and some again for more than they have found. Returns the number of questions for which messages
    /// were found.
    pub(super) async fn check(&self, questions: &[&str], before: Seq) -> usize {
        let in_memory = self.memory.conversation(&self.id).revision().await.unwrap().unwrap();
        self.prepare(&self.of_memory, in_memory, before).await;
        let revision = self.storage.store.conversation(&self.id).revision().await.unwrap().unwrap();
        assert_eq!((revision.first(), revision.next()), (in_memory.first(), in_memory.next()));
        for (_, search) in &self.searches {
            self.prepare(search, revision, before).await;
        }
        let mut answered = 0;
        for (number, text) in questions.iter().enumerate() {
            let mut already = Vec::new();
            for round in 0..if number.is_multiple_of(16) { 2 } else { 1 } {
                let question = Question { text, before, already: &already };
                let expected = self.found(&self.of_memory, in_memory, question).await;
                let missed = expected.as_ref().map(|found| (found.unsearched, found.unprepared));
                assert_eq!(missed.unwrap_or_default(), (0, 0));
                let handles = if number.is_multiple_of(16) { self.searches.len() } else { 1 };
                for (handle, search) in &self.searches[..handles] {
                    let found = self.found(search, revision, question).await;
                    assert_eq!(
                        found.as_ref().and_then(bytes),
                        expected.as_ref().and_then(bytes),
                        "{handle}: {question:?}"
                    );
                    assert_eq!(found, expected, "{handle}: {question:?}");
                }
                let recalled = expected.and_then(|found| found.recalled);
                answered += usize::from(round == 0 && recalled.is_some());
                already.extend(recalled.into_iter().flat_map(|recalled| recalled.citations));
            }
        }
        for (handle, search) in &self.searches {
            let expected = self.page(&self.of_memory, questions[0]).await;
            assert_eq!(self.page(search, questions[0]).await, expected, "{handle}");
        }
        answered
    }

    /// Returns the result of the tool, which searches the whole log.
    async fn page(&self, search: &LogSearch, question: &str) -> String {
        let arguments = serde_json::json!({ "query": question }).to_string();
        // A busy machine may need longer than the default limit.
        let tool = SearchTool::new(search.clone()).time_limit(Duration::from_secs(60));
        tool.call(&self.id, &arguments).await.unwrap()
    }
}

/// A question, as it is asked.
#[derive(Clone, Copy, Debug)]
struct Question<'a> {
    text: &'a str,
    before: Seq,
    already: &'a [Citation],
}

/// Returns the message that is shown, as JSON.
fn bytes(found: &Findings) -> Option<&str> {
    found.recalled.as_ref().map(|recalled| recalled.message.json())
}

/// Returns the analyzer of the searches.
fn analyzer() -> Analyzer {
    Analyzer::new([Language::English, Language::German, Language::Russian, Language::Arabic])
}
