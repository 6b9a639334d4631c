//! Settings of builders apply in any order.

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

/// Makes 20 calls. Returns the limit of the first call's prompt, and the number of exchanges in the log after the last
/// call.
async fn call_20_times(
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
    assert_eq!(reports.len(), 20, "the hook of the options gets the reports");
    (reports[0].tokens.map(|tokens| tokens.limit), exchanges(store).await.len())
}

#[tokio::test]
async fn options_budget_and_retention_apply_in_any_order() {
    for steps in [
        &[Step::Options][..],
        &[Step::Options, Step::Budget],
        &[Step::Budget, Step::Options],
        &[Step::Options, Step::Budget, Step::Options],
        &[Step::Budget, Step::Options, Step::Budget],
    ] {
        let (store, reports) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
        let options = || {
            let reports = Arc::clone(&reports);
            HistoryOptions::new().on_turn(move |report| reports.lock().unwrap().push(report.clone()))
        };
        let budget = || ContextBudget::tokens(LIMIT as u32).reply_reserve(0);
        let engine = Engine::with_retention(store.clone(), HistoryOptions::new(), Retention::LastTurns(4));
        let mut client = OpenAiHistory::from_engine(engine.clone());
        let mut layer = ChatHistoryLayer::from_engine(engine, OpenAiHttp::new());
        for step in steps {
            (client, layer) = match step {
                Step::Options => (client.options(options()), layer.options(options())),
                Step::Budget => (client.budget(budget()), layer.budget(budget())),
            };
        }
        let limit = steps.iter().any(|step| matches!(step, Step::Budget)).then_some(LIMIT);
        for history in [client, OpenAiHistory::from_engine(layer.engine().clone())] {
            reports.lock().unwrap().clear();
            let (reported, stored) = call_20_times(&store, history, &reports).await;
            assert_eq!(reported.filter(|limit| *limit == LIMIT), limit, "{steps:?}");
            assert!((4..=5).contains(&stored), "{stored} exchanges are stored: {steps:?}");
        }
    }
}

#[tokio::test]
async fn a_budget_in_later_options_replaces_the_earlier_one() {
    let (store, reports) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
    let options = HistoryOptions::new().context(ContextBudget::tokens(LIMIT as u32).reply_reserve(0)).on_turn({
        let reports = Arc::clone(&reports);
        move |report| reports.lock().unwrap().push(report.clone())
    });
    let history = OpenAiHistory::new(store.clone()).budget(ContextBudget::tokens(9_999)).options(options);
    assert_eq!(call_20_times(&store, history, &reports).await.0, Some(LIMIT));
}
