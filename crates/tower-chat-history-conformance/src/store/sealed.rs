//! Exchanges that a wrapper has encrypted.

use tower_chat_history_core::{Exchange, ExchangeId, Load, Loaded, Message};

use super::{Capability, Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::VERBATIM;

/// Returns a turn of two messages whose content is this text, which is longer than the messages.
fn sealed(question: &str, text: &str) -> Exchange {
    turn_of(question).sealed_as(text.repeat(64)).expect("the text is longer than the messages")
}

/// Encrypted content is returned unchanged by load, by read, by the lookup of an exchange id, and through other
/// handles.
pub async fn encrypted_content_comes_back(fixture: &dyn Fixture) {
    Capability::Sealed.demand(fixture).await;
    let chat = Chat::new(fixture).await;
    let first = chat.add(sealed("first", "AQID/+=-_.")).await;
    let log = [first, chat.add(turn_of("not encrypted")).await, chat.add(sealed("third", "ä \u{0} \"\\")).await];
    for chat in [&chat, &chat.reopened(fixture).await] {
        assert_eq!(chat.log().await, log);
        assert_eq!(chat.window(Load::new()).await.exchanges, log);
        let asked = Load::new().exchange(log[2].exchange.id.clone());
        assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(log[2].clone()));
    }
}

/// A limit counts the messages that are encrypted and their bytes, not those of the encrypted text.
pub async fn a_limit_counts_encrypted_messages(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIMIT;
    Capability::Sealed.demand(fixture).await;
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for question in ["a", "b", "c"] {
        log.push(chat.add(sealed(question, "encrypted")).await);
    }
    let bytes: usize = log[1..].iter().map(|recorded| recorded.exchange.bytes()).sum();
    for load in [limit(4, usize::MAX), limit(5, usize::MAX), limit(usize::MAX, bytes)] {
        assert_eq!(chat.window(load).await.exchanges, log[1..]);
    }
    assert_eq!(chat.window(limit(usize::MAX, bytes - 1)).await.exchanges, log[2..]);
}

/// An exchange whose encrypted content has no messages counts as one message.
pub async fn encrypted_content_without_messages_counts_as_one(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIMIT;
    Capability::Sealed.demand(fixture).await;
    let chat = Chat::new(fixture).await;
    let empty = || Exchange::new(ExchangeId::generate(), Vec::<Message>::new());
    let mut log = Vec::new();
    for _ in 0..3 {
        log.push(chat.add(empty().sealed_as("encrypted".into()).expect("no message is no byte")).await);
    }
    assert_eq!(chat.window(limit(2, 1)).await.exchanges, log[1..]);
}

/// A listing shows the size of the messages that are encrypted.
pub async fn a_listing_counts_encrypted_messages(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LISTED_BYTES;
    Capability::Sealed.demand(fixture).await;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let log = [chat.add(sealed("first", "encrypted")).await, chat.add(turn_of("not encrypted")).await];
    let listed = owned.list(&owned.under(&["acme"]), 10).await;
    assert_eq!(listed[0].bytes, bytes_of(&log));
}
