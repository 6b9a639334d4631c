//! What the tests of the store share.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)] // Each test file uses a part of it.

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use rusqlite::Connection;
use tempfile::TempDir;
use tower_chat_history_core::{
    Append, Appended, ConversationId, Exchange, ExchangeId, Expect, HistoryStore, Load, Loaded, Message, StoreError,
    Window,
};
use tower_chat_history_sqlite::SqliteStore;

/// A directory of its own for each test, and the database's path in it.
pub(crate) struct Place {
    pub(crate) directory: TempDir,
    pub(crate) path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chat.db");
        Self { directory, path }
    }

    pub(crate) async fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path).await.unwrap()
    }

    /// A connection beside the store's own, as another process would have it.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    /// Whether one of the files contains the text. (This drops the store's file locks, which no other process looks at.)
    pub(crate) fn contains(&self, text: &str) -> bool {
        let files =
            self.directory.path().read_dir().unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
        files.into_iter().any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }
}

pub(crate) fn conversation(name: &str) -> ConversationId {
    ConversationId::new(["test", name]).unwrap()
}

/// A question and its answer.
pub(crate) fn exchange(text: &str) -> Exchange {
    Exchange::new(ExchangeId::generate(), [Message::user(text), Message::assistant("ok")])
}

pub(crate) fn append(text: &str) -> Append {
    Append::new(Expect::AnyOrCreate, exchange(text))
}

pub(crate) async fn say(store: &SqliteStore, id: &ConversationId, text: &str) -> Appended {
    store.append(id, append(text)).await.unwrap()
}

pub(crate) async fn window(store: &SqliteStore, id: &ConversationId) -> Window {
    match store.load(id, Load::new()).await.unwrap() {
        Loaded::Window(window) => window,
        other => panic!("{other:?}"),
    }
}

/// What was said in a window, in order.
pub(crate) fn texts(window: &Window) -> Vec<String> {
    window.exchanges.iter().map(|recorded| recorded.exchange.messages[0].text().into_owned()).collect()
}

/// A call that was begun: it is queued, and runs whether or not it is polled again.
pub(crate) type Begun<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Polls a call once, so that it stands in the store's queue.
pub(crate) fn begin<'a, T: Send + 'a>(call: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Begun<'a, T> {
    let mut call: Begun<'a, T> = Box::pin(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => call,
        Poll::Ready(result) => Box::pin(std::future::ready(result)),
    }
}
