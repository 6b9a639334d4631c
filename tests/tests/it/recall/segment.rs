//! A segment of the index returns the same in every store.

use tests::{Storage, over_every_store};
use tower_chat_history::{
    Exchange, ExchangeId, Message,
    store::{Seq, Timestamp},
};

use super::world::World;

over_every_store! {
    #[tokio::test]
    a_search_in_a_segment_returns_what_it_returns_in_memory,
}

/// A segment of 4,096 exchanges, a block, and a part of another one.
const LEN: u64 = 4_190;

fn exchange(position: u64) -> Exchange {
    let text = format!("Room {} has the number {position}.", position % 97);
    let mut exchange = Exchange::new(ExchangeId::new(position.to_string()).unwrap(), [Message::user(text)]);
    exchange.at = Timestamp::from_unix_millis(position * 60_000);
    exchange
}

async fn a_search_in_a_segment_returns_what_it_returns_in_memory(storage: Storage) {
    let world = World::new(storage, |index| index);
    world.append(0..LEN, exchange).await;
    let before = Seq::new(LEN - 10);
    assert_eq!(world.prepare(&world.index(), before).await, (65, 1));
    let questions = [
        "Where is number 17?",
        "Where is number 4095?",
        "Which number is 4170?",
        "What has room 33?",
        "Number 999999?",
    ];
    assert_eq!(world.check(&questions, before).await, 4);
}
