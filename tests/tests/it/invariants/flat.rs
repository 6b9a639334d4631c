//! Invariant 9: the cost of a turn does not grow with the log.

use tempfile::TempDir;
use tests::{BOTH_KINDS, Chat, Storage, over_every_store, prompts, request};
use tower_chat_history::{
    ContextOptions, Exchange, ExchangeId, HistoryOptions, HistoryStore as _, InConversation, Message,
    store::{Append, Expect, Load, LoadLimit, Loaded, Seq},
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_sqlite::{SqliteOptions, Synchronous};
use tower_chat_history_test::{FaultStore, Op, Reply};

over_every_store! {
    #[tokio::test]
    invariant_9_a_turn_costs_one_bounded_load_and_one_append,
}

const LIMIT: usize = 40;

fn limited() -> HistoryOptions {
    HistoryOptions::new().context(ContextOptions::new().load_limit(LoadLimit::new(LIMIT, 1 << 20).unwrap()))
}

/// Returns the stored start of the window, and true if a load of this size is cut off.
async fn window(store: &dyn tower_chat_history::HistoryStore, id: &tower_chat_history::ConversationId) -> (u64, bool) {
    let load = Load::new().limit(LoadLimit::new(LIMIT, 1 << 20).unwrap());
    let Loaded::Window(window) = store.load(id, load).await.unwrap() else { panic!("it is there") };
    (window.compaction.map_or(0, |compaction| compaction.window_start.get()), window.truncated)
}

async fn invariant_9_a_turn_costs_one_bounded_load_and_one_append(storage: Storage) {
    let store = &storage.store;
    let (chat, id) = (
        Chat::with_options(&storage, tower_chat_history_test::Replies::rules(|_| Reply::text("a")), limited()),
        storage.conversation(),
    );
    let (mut starts, mut last_start) = (0, 0);
    for turn in 0..100_u64 {
        let before = (store.calls(Op::Load), store.calls(Op::Append), store.loaded_messages());
        chat.ask(BOTH_KINDS[turn as usize % 2], &id, &format!("u{turn}")).await.unwrap();
        let after = (store.calls(Op::Load), store.calls(Op::Append), store.loaded_messages());
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
        assert!(after.2 - before.2 <= LIMIT, "turn {turn} loaded {} messages", after.2 - before.2);

        let sent = prompts(&chat.llm).pop().unwrap();
        assert!(sent.len() <= LIMIT + 1);
        let (start, _) = window(store, &id).await;
        if start != last_start {
            // The start moved to 75% of the limit, and stays there until the limit is reached again.
            assert_eq!(sent.len(), LIMIT / 4 * 3 + 1);
            (starts, last_start) = (starts + 1, start);
        }
        assert_eq!(sent[0], format!("user: u{start}"), "the prompt begins at the start of the window");
    }
    assert!((10..=20).contains(&starts), "the start does not slide: {starts} times in 100 turns");
    assert_eq!((store.calls(Op::Compact), store.calls(Op::Delete)), (0, 0));
}

/// With a hundred thousand messages in a file, a turn reads as many rows as its window has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_9_a_turn_on_a_log_of_100_000_messages_reads_its_window_only() {
    const EXCHANGES: u64 = 50_000;
    let directory = TempDir::new().unwrap();
    let options = SqliteOptions::new().synchronous(Synchronous::Normal);
    let file = options.open(directory.path().join("chat.db")).await.unwrap();
    let id = tower_chat_history::ConversationId::new(["tests", "long"]).unwrap();
    for first in (0..EXCHANGES).step_by(500) {
        // Appended concurrently, so that they share transactions.
        let append = |turn: u64| {
            let messages = [Message::user(format!("u{turn}")), Message::assistant("a")];
            Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), messages))
        };
        let appends = (first..first + 500).map(|turn| file.append(&id, append(turn)));
        futures_util::future::try_join_all(appends).await.unwrap();
    }

    let store = FaultStore::new(file.clone());
    let llm = tower_chat_history_test::MockLlm::rules(|_| Reply::text("a"));
    let layer = tower_chat_history::ChatHistoryLayer::new(store.clone(), OpenAi::new());
    let mut starts = Vec::new();
    for turn in 0..3 {
        let (before, loaded) = (file.stats(), store.loaded_messages());
        let chat = tower::Layer::layer(&layer, llm.unary());
        let (call, report) = InConversation::new(id.clone(), request([Message::user("next")])).with_report();
        tower::ServiceExt::oneshot(chat, call).await.unwrap();
        let (after, loaded) = (file.stats(), store.loaded_messages() - loaded);

        assert_eq!((after.reads - before.reads, after.transactions - before.transactions), (1, 1));
        let (exchanges, rows) = (after.exchanges_read - before.exchanges_read, after.rows_read - before.rows_read);
        let report = report.await.unwrap();
        // The first load is cut off at 1,000 messages. The next ones begin at the start of the window, 750
        // messages before the end.
        let expected = if turn == 0 { 500 } else { 375 + turn };
        assert_eq!((exchanges, loaded as u64, report.truncated), (expected, 2 * expected, turn == 0));
        assert!(rows <= expected + 1, "{rows} rows");
        assert_eq!(report.messages_sent as u64, 2 * (375 + turn) + 1);
        let Loaded::Window(window) = file.load(&id, Load::new()).await.unwrap() else { panic!("it is there") };
        starts.push(window.compaction.unwrap().window_start);
    }
    assert_eq!(starts, [Seq::new(EXCHANGES - 375); 3]);
    assert_eq!((store.calls(Op::Load), store.calls(Op::Append)), (3, 3));
    file.close().await.unwrap();
}
