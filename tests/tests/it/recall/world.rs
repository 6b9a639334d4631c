//! A conversation in a store, and the same one in a memory store to compare with.

use std::{ops::Range, sync::Arc, time::Duration};

use tests::Storage;
use tower_chat_history::{
    CachedStore, ConversationId, Exchange, HistoryStore as _, HistoryStoreExt as _, MemoryStore, Message, RoutedStore,
    recall::{Analyzer, Language, SearchTool, StoredIndex},
    store::{Append, Attach, AttachmentName, Citation, Derived, Expect, PruneTo, Revision, Seq},
};
use tower_chat_history_recall::{Ask, Found, Searched, Term};

/// The allowance of each search. A token has four bytes here.
const ALLOWANCE: u64 = 700;

/// Changes an index, for example to search by meaning.
pub(super) type Setup = fn(StoredIndex) -> StoredIndex;

/// A conversation in two stores.
pub(super) struct World {
    pub(super) storage: Storage,
    pub(super) id: ConversationId,
    memory: MemoryStore,
    setup: Setup,
}

impl World {
    pub(super) fn new(storage: Storage, setup: Setup) -> Self {
        let id = storage.conversation();
        Self { storage, memory: MemoryStore::new(), id, setup }
    }

    /// Opens the conversation of another process, whose log has these exchanges.
    pub(super) async fn of_process(
        storage: Storage,
        id: ConversationId,
        positions: Range<u64>,
        exchange: impl Fn(u64) -> Exchange,
    ) -> Self {
        let memory = MemoryStore::new();
        for position in positions {
            memory.append(&id, Append::new(Expect::AnyOrCreate, exchange(position))).await.unwrap();
        }
        Self { storage, memory, id, setup: |index| index }
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

    /// Returns an index over a handle.
    fn index_over(&self, store: Arc<dyn Attach>) -> StoredIndex {
        (self.setup)(StoredIndex::new(store, analyzer()))
    }

    /// Removes the index, while other processes may search it.
    pub(super) async fn remove_index(&self, before: Seq) {
        let store = Arc::new(self.storage.store.clone());
        let other = StoredIndex::new(store, Analyzer::default()).former_analyzers([analyzer().id()]);
        self.prepare(&other, before).await;
    }

    /// Returns the ranges of the blocks that are stored.
    pub(super) async fn blocks(&self) -> Vec<Range<u64>> {
        let name = AttachmentName::new(format!("terms/{:012x}/all", Term::of(analyzer().id()).get())).unwrap();
        let read = self.storage.store.attachments(&self.id, &[name], usize::MAX).await.unwrap();
        read.attachments.iter().map(|block| block.range.start.get()..block.range.end.get()).collect()
    }

    /// Returns an index over the store.
    pub(super) fn index(&self) -> StoredIndex {
        self.index_over(Arc::new(self.storage.store.clone()))
    }

    /// Returns an index over a handle with its own connections.
    pub(super) async fn index_of_replica(&self) -> StoredIndex {
        self.index_over(Arc::new(self.storage.replica().await.store))
    }

    /// Returns an index over the store itself, through each wrapper, and over another handle.
    async fn indexes(&self) -> Vec<(&'static str, StoredIndex)> {
        let store = &self.storage.store;
        let routed = store.clone();
        vec![
            ("plain", self.index()),
            ("cached", self.index_over(Arc::new(CachedStore::new(store.clone())))),
            ("routed", self.index_over(Arc::new(RoutedStore::new(move |_: &ConversationId| routed.clone())))),
            ("replica", self.index_of_replica().await),
        ]
    }

    /// Makes all steps of an index before this position. Returns the number of blocks and of segments that it made.
    pub(super) async fn prepare(&self, index: &StoredIndex, before: Seq) -> (u32, u32) {
        let revision = self.storage.store.conversation(&self.id).revision().await.unwrap().unwrap();
        self.prepare_at(index, revision, before).await
    }

    async fn prepare_at(&self, index: &StoredIndex, revision: Revision, before: Seq) -> (u32, u32) {
        let (mut blocks, mut segments) = (0, 0);
        loop {
            let indexed = index.index(&self.id, revision, before).await.unwrap();
            assert!(!indexed.gone && indexed.embedding.is_none(), "{indexed:?}");
            (blocks, segments) = (blocks + indexed.blocks, segments + indexed.segments);
            if !indexed.more {
                return (blocks, segments);
            }
        }
    }

    async fn found(&self, index: &StoredIndex, revision: Revision, question: Question<'_>) -> Found {
        let ask = Ask {
            conversation: &self.id,
            revision: Some(revision),
            before: question.before,
            input: &[Message::user(question.text)],
            already: question.already,
            allowance: ALLOWANCE,
            cost: &|message| message.bytes() as u64 / 4,
        };
        match index.search(ask).await.unwrap() {
            Searched::Found(found) => found,
            other => panic!("{question:?}: {other:?}"),
        }
    }

    /// Checks that the store returns the same for these questions as the memory store, whose index is complete. Some
    /// questions are asked through all handles, and some again for more than they have found. Returns the number of
    /// questions for which messages were found.
    pub(super) async fn check(&self, questions: &[&str], before: Seq) -> usize {
        let of_memory = self.index_over(Arc::new(self.memory.clone()));
        let in_memory = self.memory.conversation(&self.id).revision().await.unwrap().unwrap();
        self.prepare_at(&of_memory, in_memory, before).await;
        let indexes = self.indexes().await;
        let revision = self.storage.store.conversation(&self.id).revision().await.unwrap().unwrap();
        assert_eq!((revision.first(), revision.next()), (in_memory.first(), in_memory.next()));
        let mut answered = 0;
        for (number, text) in questions.iter().enumerate() {
            let mut already = Vec::new();
            for round in 0..if number.is_multiple_of(16) { 2 } else { 1 } {
                let question = Question { text, before, already: &already };
                let expected = self.found(&of_memory, in_memory, question).await;
                assert_eq!((expected.unsearched, expected.damaged), (0, 0));
                let handles = if number.is_multiple_of(16) { indexes.len() } else { 1 };
                for (handle, index) in &indexes[..handles] {
                    let found = self.found(index, revision, question).await;
                    assert_eq!(bytes(&found), bytes(&expected), "{handle}: {question:?}");
                    assert_eq!(found, expected, "{handle}: {question:?}");
                }
                answered += usize::from(round == 0 && expected.recalled.is_some());
                already.extend(expected.recalled.into_iter().flat_map(|recalled| recalled.citations));
            }
        }
        for (handle, index) in &indexes {
            let expected = self.page(&of_memory, questions[0]).await;
            assert_eq!(self.page(index, questions[0]).await, expected, "{handle}");
        }
        answered
    }

    /// Checks one search of the store alone, whose index another process may change at the moment.
    pub(super) async fn check_one(&self, text: &str, before: Seq) {
        let of_memory = self.index_over(Arc::new(self.memory.clone()));
        let in_memory = self.memory.conversation(&self.id).revision().await.unwrap().unwrap();
        self.prepare_at(&of_memory, in_memory, before).await;
        let revision = self.storage.store.conversation(&self.id).revision().await.unwrap().unwrap();
        let question = Question { text, before, already: &[] };
        let expected = self.found(&of_memory, in_memory, question).await;
        assert_eq!(self.found(&self.index(), revision, question).await, expected, "{question:?}");
    }

    /// Returns the result of the tool, which searches the whole log.
    async fn page(&self, index: &StoredIndex, question: &str) -> String {
        let arguments = serde_json::json!({ "query": question }).to_string();
        // A busy machine may need longer than the default limit.
        let tool = SearchTool::new(index.clone()).time_limit(Duration::from_secs(60));
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
fn bytes(found: &Found) -> Option<&str> {
    found.recalled.as_ref().map(|recalled| recalled.message.json())
}

/// Returns the analyzer of the index.
fn analyzer() -> Analyzer {
    Analyzer::new([Language::English, Language::German, Language::Russian, Language::Arabic])
}
