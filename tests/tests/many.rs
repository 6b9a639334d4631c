//! Many conversations and many open streams in one process. Their texts do not mix, and the memory is bounded
//! by the number of open streams.
//!
//! This file is a binary of its own, because it measures the memory of its process.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, future, stream};
use tempfile::TempDir;
use test_servers::{left_out, postgres, redis};
use tests::{TypedCall, exchanges, patient, reply_text, short, user_call};
use tokio::sync::Mutex;
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    ChatHistoryLayer, ConversationId, HistoryOptions, HistoryStore, MemoryStore, Message, ReportHandle,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_sqlite::SqliteStore;
use tower_chat_history_test::{MockLlm, Reply};

/// The memory limit of an open stream, in bytes. It is far more than a stream needs, and far less than a
/// second copy of its window, a thread or a connection would add.
const MAX_STREAM_BYTES: usize = 64 << 10;

/// The longest time of a call. All streams end at once, so the save of the last one waits for all others.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of concurrent calls, where they are limited.
const MAX_CONCURRENT: usize = 100;

/// Returns the resident memory of this process in bytes, if the system reports it.
fn resident() -> Option<usize> {
    let pages: usize = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    // This page size is right on every system that has this file and runs these tests. With larger pages, the
    // result would be too small.
    Some(pages * 4096)
}

fn conversation(number: usize) -> ConversationId {
    ConversationId::new(["many", &number.to_string()]).unwrap()
}

/// A model whose replies have the number of messages and the question.
fn model() -> MockLlm {
    MockLlm::rules(|messages| {
        let question = messages.last().map(Message::text).unwrap_or_default();
        Reply::text(format!("{} {question}", messages.len()))
    })
}

fn layer(store: &Arc<dyn HistoryStore>) -> ChatHistoryLayer<OpenAi> {
    ChatHistoryLayer::with_options(Arc::clone(store), OpenAi::new(), HistoryOptions::new().store_timeout(PATIENCE))
}

fn call(number: usize, turn: usize) -> (TypedCall, ReportHandle) {
    user_call(&conversation(number), &format!("{number}/{turn}")).with_report()
}

/// Returns the messages of a conversation after some turns.
fn expected(number: usize, turns: usize) -> Vec<[String; 2]> {
    let turn = |turn| [format!("user: {number}/{turn}"), format!("assistant: {} {number}/{turn}", 2 * turn + 1)];
    (0..turns).map(turn).collect()
}

/// Checks that conversations have only their own messages.
async fn check_conversations(store: &dyn HistoryStore, conversations: usize, turns: usize) {
    let read = stream::iter(0..conversations).map(async |number| {
        let log = exchanges(store, &conversation(number)).await;
        let log: Vec<Vec<String>> =
            log.iter().map(|recorded| recorded.exchange.messages.iter().map(short).collect()).collect();
        assert_eq!(log, expected(number, turns), "conversation {number}");
    });
    read.buffer_unordered(MAX_CONCURRENT).collect::<()>().await;
}

/// Runs a thousand conversations at the same time, each with some turns.
async fn a_thousand_conversations_do_not_mix(store: Arc<dyn HistoryStore>) {
    const CONVERSATIONS: usize = 1_000;
    const TURNS: usize = 2;

    let (layer, llm) = (layer(&store), model());
    let conversations = (0..CONVERSATIONS).map(|number| {
        let chat = layer.layer(llm.unary());
        tokio::spawn(async move {
            for turn in 0..TURNS {
                chat.clone().oneshot(call(number, turn).0).await.unwrap();
            }
        })
    });
    future::try_join_all(conversations).await.unwrap();
    check_conversations(&*store, CONVERSATIONS, TURNS).await;
}

/// Opens streams, all of which begin before the first one is read.
async fn open_streams_do_not_mix_and_fit_into_memory<const STREAMS: usize>(store: Arc<dyn HistoryStore>) {
    let layer = layer(&store);
    let before = resident();
    let open = stream::iter(0..STREAMS).map(async |number| {
        // A mock keeps its requests, so that the memory of a shared one would grow. Each stream gets its own.
        let (typed_call, report) = call(number, 0);
        (layer.layer(model().stream()).oneshot(typed_call).await.unwrap(), report)
    });
    let open: Vec<_> = open.buffered(MAX_CONCURRENT).collect().await;
    if let (Some(before), Some(now)) = (before, resident()) {
        let each = now.saturating_sub(before) / STREAMS;
        println!("{each} bytes per stream");
        assert!(each < MAX_STREAM_BYTES, "{each} bytes per stream");
    }

    let read = open.into_iter().enumerate().map(async |(number, (stream, report))| {
        let chunks: Vec<_> = stream.map(Result::unwrap).collect().await;
        assert_eq!(reply_text(&chunks), format!("1 {number}/0"));
        let report = report.await.unwrap();
        assert!(report.revision().is_some(), "{:?}", report.outcome);
    });
    future::join_all(read).await;
    assert_eq!(layer.engine().pending_saves(), 0);
    check_conversations(&*store, STREAMS, 1).await;
    // The memory of the streams is released: the same number of further turns, some at a time, needs far
    // less.
    let before = resident();
    let turns = stream::iter(0..STREAMS).map(async |number| {
        let stream = layer.layer(model().stream()).oneshot(call(number, 1).0).await.unwrap();
        let chunks: Vec<_> = stream.map(Result::unwrap).collect().await;
        assert_eq!(reply_text(&chunks), format!("3 {number}/1"));
    });
    turns.buffer_unordered(MAX_CONCURRENT).collect::<()>().await;
    if let (Some(before), Some(now)) = (before, resident()) {
        let each = now.saturating_sub(before) / STREAMS;
        println!("{each} bytes per finished turn");
        assert!(each < MAX_STREAM_BYTES / 8, "{each} bytes per finished turn");
    }
}

/// A store, and the directory of its file.
type Opened = Option<(Arc<dyn HistoryStore>, Option<TempDir>)>;

async fn memory() -> Opened {
    Some((Arc::new(MemoryStore::new()), None))
}

async fn sqlite() -> Opened {
    let directory = tempfile::tempdir().unwrap();
    Some((Arc::new(SqliteStore::open(directory.path().join("chat.db")).await.unwrap()), Some(directory)))
}

async fn postgres() -> Opened {
    if !postgres::is_available() {
        left_out(postgres::NAME);
        return None;
    }
    let url = postgres::shared().database().await;
    Some((Arc::new(patient::postgres().connect(&url).await.unwrap()), None))
}

async fn redis() -> Opened {
    static SERVER: OnceLock<redis::Server> = OnceLock::new();
    static PREFIXES: AtomicUsize = AtomicUsize::new(0);
    if !redis::is_available() {
        left_out(redis::NAME);
        return None;
    }
    let prefix = format!("many{}:", PREFIXES.fetch_add(1, Relaxed));
    let url = SERVER.get_or_init(redis::Server::start).url();
    Some((Arc::new(patient::redis().prefix(prefix).connect(url).await.unwrap()), None))
}

/// These tests run one after the other, because they measure the memory of the process.
static ALONE: Mutex<()> = Mutex::const_new(());

macro_rules! over {
    ($($store:ident: $open:expr, $streams:expr;)+) => {
        $(
            mod $store {
                #[tokio::test]
                async fn a_thousand_conversations_do_not_mix() {
                    let _alone = super::ALONE.lock().await;
                    let Some((store, _directory)) = $open().await else { return };
                    super::a_thousand_conversations_do_not_mix(store).await;
                }

                #[tokio::test]
                async fn thousands_of_open_streams_do_not_mix_and_fit_into_memory() {
                    let _alone = super::ALONE.lock().await;
                    let Some((store, _directory)) = $open().await else { return };
                    super::open_streams_do_not_mix_and_fit_into_memory::<$streams>(store).await;
                }
            }
        )+
    };
}

// A call takes several times as long if it leaves the process or writes to a file.
over! {
    in_memory: super::memory, 10_000;
    in_sqlite: super::sqlite, 2_000;
    in_postgres: super::postgres, 2_000;
    in_redis: super::redis, 2_000;
}
