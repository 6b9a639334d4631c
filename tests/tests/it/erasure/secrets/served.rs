//! The loads and the turns of a process, which has caches.

use std::sync::Arc;

use tests::FullStore;
use tower_chat_history::{
    Engine, HistoryOptions, HistoryStore, Message, Reply, TurnInput,
    recall::{Analyzer, Language, LogRecall, LogSearch, RecallOptions},
    store::Load,
};

use super::{
    CONVERSATIONS,
    plant::{PERSON, id},
    search::{secret, secrets_in},
};

/// The number of conversations in which the process also begins a turn.
const TURNS: usize = 20;

/// A process: a store behind a cache, and an engine with its caches and recall.
pub(super) struct Process {
    store: Arc<dyn FullStore>,
    engine: Engine,
}

impl Process {
    pub(super) fn new(store: Arc<dyn FullStore>) -> Self {
        let searched: Arc<dyn HistoryStore> = Arc::<dyn FullStore>::clone(&store);
        let search = LogSearch::new(searched, Analyzer::new([Language::English]));
        let options = HistoryOptions::new().recall(RecallOptions::new(LogRecall::from(search)));
        let engine = Engine::with_options(Arc::clone(&store), options);
        Self { store, engine }
    }

    pub(super) const fn store(&self) -> &Arc<dyn FullStore> {
        &self.store
    }

    /// Loads all conversations of the person, and stores a turn in some of them. The secret must be in all of them.
    pub(super) async fn serve(&self) {
        for number in 0..CONVERSATIONS {
            assert!(!self.store.load(&id(PERSON, number), Load::new()).await.unwrap().is_absent(), "{number}");
        }
        for number in 0..TURNS {
            let turn = self.engine.begin(question(number)).await.unwrap();
            assert_ne!(secrets_in(context(turn.context()).as_bytes()), [""; 0], "the window has the secret");
            turn.commit(Reply::new(Message::assistant(secret("reply")))).await.unwrap();
        }
    }

    /// Does the same without storing anything. The secret must be in none of them.
    pub(super) async fn serve_nothing(&self) {
        for number in 0..CONVERSATIONS {
            assert!(self.store.load(&id(PERSON, number), Load::new()).await.unwrap().is_absent(), "{number}");
        }
        for number in 0..TURNS {
            let turn = self.engine.begin(question(number)).await.unwrap();
            assert_eq!(secrets_in(context(turn.context()).as_bytes()), [""; 0]);
        }
    }
}

fn question(number: usize) -> TurnInput {
    TurnInput::new(id(PERSON, number), [Message::user("What did I ask about before?")])
}

fn context(messages: &[Message]) -> String {
    messages.iter().map(Message::json).collect()
}
