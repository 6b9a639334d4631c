//! Many conversations and many open streams in one process: each has its own text, and memory is bounded by what is open.
#![allow(clippy::unwrap_used)] // A test may.

use std::sync::Arc;

use futures_util::{StreamExt as _, future, stream};
use tempfile::TempDir;
use tests::{Asked, asked, exchanges, said, short};
use tokio::sync::Mutex;
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    ChatHistoryLayer, ConversationId, HistoryOptions, HistoryStore, MemoryStore, Message, ReportHandle,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_sqlite::SqliteStore;
use tower_chat_history_test::{MockLlm, Reply};

/// As much memory as an open stream may have, in bytes. It is far more than one needs, and far less than a window that is kept
/// twice, a thread or a connection a stream would be.
const STREAM: usize = 64 << 10;

/// The resident set of this process in bytes, where the system tells it.
fn resident() -> Option<usize> {
    let pages: usize = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    // The size of a page on every system that has this file and runs these tests; a larger one only makes the numbers smaller.
    Some(pages * 4096)
}

fn conversation(number: usize) -> ConversationId {
    ConversationId::new(["many", &number.to_string()]).unwrap()
}

/// A model that answers with how many messages it got, and the question.
fn model() -> MockLlm {
    MockLlm::rules(|messages| {
        let question = messages.last().map(Message::text).unwrap_or_default();
        Reply::text(format!("{} {question}", messages.len()))
    })
}

fn layer(store: &Arc<dyn HistoryStore>) -> ChatHistoryLayer<OpenAi> {
    ChatHistoryLayer::with_options(Arc::clone(store), OpenAi::new(), HistoryOptions::new())
}

fn call(number: usize, turn: usize) -> (Asked, ReportHandle) {
    asked(&conversation(number), &format!("{number}/{turn}")).with_report()
}

/// What a conversation must hold after so many turns: its own text and nothing else.
fn expected(number: usize, turns: usize) -> Vec<[String; 2]> {
    let turn = |turn| [format!("user: {number}/{turn}"), format!("assistant: {} {number}/{turn}", 2 * turn + 1)];
    (0..turns).map(turn).collect()
}

async fn is_its_own(store: &dyn HistoryStore, number: usize, turns: usize) {
    let log = exchanges(store, &conversation(number)).await;
    let log: Vec<Vec<String>> =
        log.iter().map(|recorded| recorded.exchange.messages.iter().map(short).collect()).collect();
    assert_eq!(log, expected(number, turns), "conversation {number}");
}

/// A thousand conversations at once, each with some turns.
async fn a_thousand_conversations_do_not_mix(store: Arc<dyn HistoryStore>) {
    const CONVERSATIONS: usize = 1_000;
    const TURNS: usize = 5;

    let (layer, llm) = (layer(&store), model());
    let talks = (0..CONVERSATIONS).map(|number| {
        let chat = layer.layer(llm.unary());
        tokio::spawn(async move {
            for turn in 0..TURNS {
                chat.clone().oneshot(call(number, turn).0).await.unwrap();
            }
        })
    });
    future::try_join_all(talks).await.unwrap();
    for number in 0..CONVERSATIONS {
        is_its_own(&*store, number, TURNS).await;
    }
}

/// Ten thousand streams, all of which have begun before the first one is read.
async fn ten_thousand_open_streams_do_not_mix_and_fit_into_memory(store: Arc<dyn HistoryStore>) {
    const STREAMS: usize = 10_000;

    let layer = layer(&store);
    let before = resident();
    let mut open = Vec::new();
    for number in 0..STREAMS {
        // A mock remembers what it was asked: one for all would be what grows here.
        let (asked, report) = call(number, 0);
        let stream = layer.layer(model().stream()).oneshot(asked).await.unwrap();
        open.push((stream, report));
    }
    if let (Some(before), Some(now)) = (before, resident()) {
        let each = now.saturating_sub(before) / STREAMS;
        println!("{each} bytes a stream");
        assert!(each < STREAM, "{each} bytes a stream");
    }

    let read = open.into_iter().enumerate().map(async |(number, (stream, report))| {
        let chunks: Vec<_> = stream.map(Result::unwrap).collect().await;
        assert_eq!(said(&chunks), format!("1 {number}/0"));
        assert!(report.await.unwrap().revision().is_some());
    });
    future::join_all(read).await;
    assert_eq!(layer.engine().pending_saves(), 0);
    for number in 0..STREAMS {
        is_its_own(&*store, number, 1).await;
    }
    // What was open is given back: as many turns again, a hundred at a time, need far less.
    let before = resident();
    let turns = stream::iter(0..STREAMS).map(async |number| {
        let stream = layer.layer(model().stream()).oneshot(call(number, 1).0).await.unwrap();
        let chunks: Vec<_> = stream.map(Result::unwrap).collect().await;
        assert_eq!(said(&chunks), format!("3 {number}/1"));
    });
    turns.buffer_unordered(100).collect::<()>().await;
    if let (Some(before), Some(now)) = (before, resident()) {
        let each = now.saturating_sub(before) / STREAMS;
        println!("{each} bytes a turn that is over");
        assert!(each < STREAM / 8, "{each} bytes a turn that is over");
    }
}

fn memory() -> Arc<dyn HistoryStore> {
    Arc::new(MemoryStore::new())
}

async fn sqlite(directory: &TempDir) -> Arc<dyn HistoryStore> {
    Arc::new(SqliteStore::open(directory.path().join("chat.db")).await.unwrap())
}

/// The memory of the process is measured, so these tests run one after the other.
static ALONE: Mutex<()> = Mutex::const_new(());

macro_rules! over_both_stores {
    ($($name:ident),+) => {
        mod in_memory {
            $(
                #[tokio::test]
                async fn $name() {
                    let _alone = super::ALONE.lock().await;
                    super::$name(super::memory()).await;
                }
            )+
        }
        mod in_sqlite {
            $(
                #[tokio::test]
                async fn $name() {
                    let _alone = super::ALONE.lock().await;
                    let directory = tempfile::tempdir().unwrap();
                    super::$name(super::sqlite(&directory).await).await;
                }
            )+
        }
    };
}

over_both_stores!(a_thousand_conversations_do_not_mix, ten_thousand_open_streams_do_not_mix_and_fit_into_memory);
