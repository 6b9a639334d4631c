//! Short forms for a store's own tests, in addition to the conformance suite. Each panics if the store returns an
//! error.
//!
//! ```
//! use tower_chat_history_conformance::shorthand::{conversation, say, texts, window};
//! use tower_chat_history_core::HistoryStore;
//!
//! async fn the_second_exchange_is_last(store: &impl HistoryStore) {
//!     let id = conversation("a");
//!     say(store, &id, "one").await;
//!     say(store, &id, "two").await;
//!     assert_eq!(texts(&window(store, &id).await), ["one", "two"]);
//! }
//! ```

use tower_chat_history_core::{
    Append, Appended, ConversationId, Exchange, ExchangeId, Expect, HistoryStore, Load, Loaded, Message, Recorded, Seq,
    Window,
};

/// Returns the number of cases of a property test: the value of the environment variable `PROPTEST_CASES` if it is set,
/// and `default` otherwise. (`proptest` itself reads the variable only if a test states no number.)
#[must_use]
pub fn cases(default: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

/// Returns the id of the conversation `test/NAME`.
#[must_use]
pub fn conversation(name: &str) -> ConversationId {
    ConversationId::new(["test", name]).expect("a name is not empty and not too long")
}

/// Returns an exchange with a new id: a user message with this text, and the reply "ok".
#[must_use]
pub fn exchange(text: &str) -> Exchange {
    Exchange::new(ExchangeId::generate(), [Message::user(text), Message::assistant("ok")])
}

/// Returns an append of [`exchange(text)`](exchange) without a condition ([`Expect::AnyOrCreate`]).
#[must_use]
pub fn append(text: &str) -> Append {
    Append::new(Expect::AnyOrCreate, exchange(text))
}

/// Appends [`exchange(text)`](exchange) without a condition.
pub async fn say<S: HistoryStore + ?Sized>(store: &S, id: &ConversationId, text: &str) -> Appended {
    store.append(id, append(text)).await.expect("an append that expects nothing is stored")
}

/// Loads the window of a conversation, which must exist.
pub async fn window<S: HistoryStore + ?Sized>(store: &S, id: &ConversationId) -> Window {
    match store.load(id, Load::new()).await.expect("the window can be loaded") {
        Loaded::Window(window) => window,
        other => panic!("not a window: {other:?}"),
    }
}

/// Returns the first message's text of each exchange in a window, in order.
#[must_use]
pub fn texts(window: &Window) -> Vec<String> {
    first_texts(&window.exchanges)
}

/// Reads the whole log as one page, and returns the first message's text of each exchange, in order.
pub async fn log_texts<S: HistoryStore + ?Sized>(store: &S, id: &ConversationId) -> Vec<String> {
    let page = store.read(id, Seq::FIRST, usize::MAX).await.expect("the log can be read");
    assert!(!page.more, "the log is too long for one page");
    first_texts(&page.exchanges)
}

/// Reads the whole log in pages of at most `limit` exchanges, and returns the number of exchanges of each page.
pub async fn page_sizes<S: HistoryStore + ?Sized>(store: &S, id: &ConversationId, limit: usize) -> Vec<usize> {
    let mut from = Seq::FIRST;
    let mut sizes = Vec::new();
    loop {
        let page = store.read(id, from, limit).await.expect("the page can be read");
        sizes.push(page.exchanges.len());
        match page.exchanges.last() {
            Some(last) if page.more => from = last.seq.next(),
            _ => return sizes,
        }
    }
}

fn first_texts(exchanges: &[Recorded]) -> Vec<String> {
    exchanges.iter().map(|recorded| recorded.exchange.messages[0].text().into_owned()).collect()
}
