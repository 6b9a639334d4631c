//! Clients and layers have the options and the retention of their engine.

use std::sync::{Arc, Mutex};

use tower_chat_history::{ChatHistoryLayer, ContextBudget, Engine, HistoryOptions, MemoryStore, Retention, TurnReport};
use tower_chat_history_openai::client::{OpenAiHistory, OpenAiHttp};
use tower_chat_history_test::{MockServer, Replies, Reply};

use super::{ask, config, exchanges};

const LIMIT: u64 = 5_000;

fn options(reports: &Arc<Mutex<Vec<TurnReport>>>) -> HistoryOptions {
    let reports = Arc::clone(reports);
    HistoryOptions::new()
        .context(ContextBudget::tokens(LIMIT as u32).reply_reserve(0))
        .on_turn(move |report| reports.lock().unwrap().push(report.clone()))
}

/// Makes 20 calls. Returns the limit of the first call's prompt, and the number of exchanges in the log afterward.
async fn limit_and_stored(
    store: &MemoryStore,
    history: OpenAiHistory,
    reports: &Mutex<Vec<TurnReport>>,
) -> (Option<u64>, usize) {
    let server = MockServer::start(Replies::rules(|_| Reply::text("a"))).await.unwrap();
    let client = history.client(config(&server));
    for at in 0..20 {
        ask(&client, false, &format!("u{at}")).await.unwrap();
    }
    let reports = reports.lock().unwrap().clone();
    assert_eq!(reports.len(), 20, "the hook of the options receives every report");
    (reports[0].tokens.map(|tokens| tokens.limit), exchanges(store).await.len())
}

#[tokio::test]
async fn clients_and_layers_have_the_options_and_the_retention_of_their_engine() {
    let (store, reports) = (MemoryStore::new(), Arc::default());
    let engine = Engine::with_retention(store.clone(), options(&reports), Retention::LastTurns(4));
    let client = OpenAiHistory::from_engine(engine.clone());
    let layer = ChatHistoryLayer::from_engine(engine, OpenAiHttp::new());
    for history in [client, OpenAiHistory::from_engine(layer.engine().clone())] {
        reports.lock().unwrap().clear();
        let (limit, stored) = limit_and_stored(&store, history, &reports).await;
        assert_eq!(limit, Some(LIMIT));
        assert!((4..=5).contains(&stored), "{stored} exchanges are stored");
    }
}

#[tokio::test]
async fn a_client_has_the_options_that_it_was_created_with() {
    let (store, reports) = (MemoryStore::new(), Arc::default());
    let history = OpenAiHistory::with_options(store.clone(), options(&reports));
    assert_eq!(limit_and_stored(&store, history, &reports).await, (Some(LIMIT), 20));
}
