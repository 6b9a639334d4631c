//! Exchanges without messages: they have a position in the log, and a limit bounds how many of them a load returns.

use tower_chat_history_core::{Exchange, ExchangeId, Expect, Load, Recorded, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::EMPTY;

fn nothing() -> Exchange {
    Exchange::new(ExchangeId::generate(), [])
}

async fn add_empty(chat: &Chat, count: usize) -> Vec<Recorded> {
    let mut log = Vec::new();
    for _ in 0..count {
        log.push(chat.add(nothing()).await);
    }
    log
}

/// Each exchange without messages counts as one message against the limit.
pub async fn a_load_of_empty_exchanges_is_bounded(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = add_empty(&chat, 6).await;
    for messages in 1..8 {
        let window = chat.window(limit(messages, usize::MAX)).await;
        let from = log.len().saturating_sub(messages);
        assert_eq!((window.exchanges.as_slice(), window.truncated), (&log[from..], from > 0), "{messages} messages");
    }
    assert_eq!(chat.window(limit(usize::MAX, 1)).await.exchanges, log, "they have no bytes");
}

/// The counts of exchanges with and without messages add up.
pub async fn empty_and_other_exchanges_add_up(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = add_empty(&chat, 2).await;
    log.extend(chat.add_turns(1).await);
    log.extend(add_empty(&chat, 2).await);
    log.extend(chat.add_turns(1).await);
    // From the newest exchange on: 2, 1, 1, 2, 1 and 1 messages.
    for (messages, begins) in [(1, 5), (2, 5), (3, 4), (4, 3), (5, 3), (6, 2), (7, 1), (8, 0), (9, 0)] {
        let window = chat.window(limit(messages, usize::MAX)).await;
        assert_eq!((&window.exchanges[..], window.truncated), (&log[begins..], begins > 0), "{messages} messages");
    }
}

/// A turn is not split, and the newest turn is returned whole, even if its exchanges have no messages.
pub async fn turns_of_empty_exchanges_are_not_split(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIMIT;
    let chat = Chat::new(fixture).await;
    let mut log = add_empty(&chat, 1).await;
    for opening in [1, 4] {
        log.push(chat.add(nothing()).await);
        for _ in 0..2 {
            log.push(chat.add(nothing().continuing(Seq::new(opening))).await);
        }
    }
    for (messages, begins) in [(1, 4), (3, 4), (4, 4), (5, 4), (6, 1), (7, 0)] {
        let window = chat.window(limit(messages, usize::MAX)).await;
        assert_eq!((&window.exchanges[..], window.truncated), (&log[begins..], begins > 0), "{messages} messages");
    }
}

/// A log of only exchanges without messages can be read, known and repeated like any other.
pub async fn empty_exchanges_have_positions_in_the_log(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::GAP_FREE;
    let chat = Chat::new(fixture).await;
    let log = add_empty(&chat, 3).await;
    assert_eq!(chat.log().await, log);
    let window = chat.window(Load::new()).await;
    assert_eq!((window.revision.version(), &window.exchanges[..]), (3, &log[..]));
    let again = chat.append(Expect::AnyOrCreate, Exchange::clone(&log[1].exchange)).await;
    let again = again.must("a repeat is no mistake", &clause::IDEMPOTENT);
    assert_eq!((again.duplicate, again.seq), (true, Seq::new(1)));
}
