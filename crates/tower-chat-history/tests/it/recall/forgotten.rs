//! Erased conversations: nothing of them is found, and the engine forgets what is in memory of them.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tower_chat_history::{
    BoxError, Engine, HistoryOptions, MemoryStore, Reply, TurnInput, TurnReport,
    recall::{Analyzer, Embedder, LogRecall, LogSearch, RecallOptions},
    store::{EraseExt as _, Message, Prefix},
};
use tower_chat_history_test::{FaultStore, Op};

use super::support::{answer, budget, id, question};

/// A model that collects its texts.
#[derive(Debug, Default)]
struct Collecting(Mutex<Vec<String>>);

impl Collecting {
    /// Returns how often the text that names the dog was embedded.
    fn named(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|text| text.contains("Rex")).count()
    }
}

#[async_trait]
impl Embedder for Collecting {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, BoxError> {
        let vectors = texts.iter().map(|text| vec![1.0, text.len() as f32]).collect();
        self.0.lock().unwrap().extend(texts);
        Ok(vectors)
    }
}

struct Chat {
    store: FaultStore<MemoryStore>,
    embedder: Arc<Collecting>,
    engine: Engine,
}

impl Chat {
    fn new() -> Self {
        let store = FaultStore::new(MemoryStore::new());
        let embedder = Arc::new(Collecting::default());
        let search = LogSearch::new(Arc::new(store.clone()), Analyzer::default());
        let recall = LogRecall::from(search.by_meaning(Arc::<Collecting>::clone(&embedder)));
        let options = HistoryOptions::new().context(budget()).recall(RecallOptions::new(recall));
        Self { engine: Engine::with_options(store.clone(), options), store, embedder }
    }

    /// Runs a turn, and the preparation after it. Returns the recalled messages, if there are any.
    async fn turn(&self, input: Message) -> (Option<String>, Arc<TurnReport>) {
        let turn = self.engine.begin(TurnInput::new(id(), [input])).await.unwrap();
        // A constant reply stands between the recalled messages and the input.
        let before_reply = turn.context().iter().rev().nth(2).map(|message| message.text().into_owned());
        let recalled = before_reply.filter(|text| text.starts_with("<earlier_messages"));
        let report = turn.commit(Reply::new(answer())).await.unwrap();
        self.engine.drain(std::time::Duration::from_secs(100)).await.unwrap();
        (recalled, report)
    }

    /// Says something, and goes on until it has long left the window.
    async fn say(&self, text: &str) {
        self.turn(Message::user(text)).await;
        for number in 0..30 {
            self.turn(question(&format!("filler {number}"))).await;
        }
    }

    /// Asks for the name of the dog.
    async fn ask(&self) -> Option<String> {
        let (recalled, report) = self.turn(Message::user("What is my dog called?")).await;
        assert!(report.recall.is_some(), "it was searched");
        recalled
    }
}

#[tokio::test]
async fn nothing_of_an_erased_conversation_is_found() {
    let chat = Chat::new();
    chat.say("My dog is called Rex.").await;
    assert!(chat.ask().await.unwrap().contains("Rex"));
    assert_eq!(chat.embedder.named(), 1);

    let under = Prefix::from(&id());
    assert!(chat.store.get_ref().erase_all(&under).await.unwrap().is_complete());
    chat.engine.forget(&under);
    chat.say("My cat is called Tom.").await;
    let recalled = chat.ask().await.unwrap_or_default();
    assert!(!recalled.contains("Rex"), "{recalled}");
    assert_eq!(chat.embedder.named(), 1);
}

#[tokio::test]
async fn an_engine_that_forgot_a_conversation_reads_and_embeds_it_again() {
    let chat = Chat::new();
    chat.say("My dog is called Rex.").await;
    let first = chat.ask().await;
    assert!(first.as_ref().unwrap().contains("Rex"));
    let reads = chat.store.calls(Op::Read);
    chat.ask().await;
    let warm = chat.store.calls(Op::Read) - reads;
    assert_eq!(chat.embedder.named(), 1);

    chat.engine.forget(&Prefix::from(&id()));
    let reads = chat.store.calls(Op::Read);
    chat.ask().await;
    let cold = chat.store.calls(Op::Read) - reads;
    assert!(cold > warm, "{cold} {warm}");
    assert_eq!(chat.embedder.named(), 2, "the preparation after the turn made the vectors again");

    // Other conversations keep what is in memory.
    chat.engine.forget(&Prefix::new(["tests", "another"]).unwrap());
    chat.ask().await;
    assert_eq!(chat.embedder.named(), 2);
}
