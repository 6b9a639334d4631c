//! The fields of an exchange other than its messages.

use tower_chat_history_core::{Load, Loaded, Seq, Timestamp, TokenCounts, Usage};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::EXCHANGE;

/// Every field is returned unchanged by load, by read and by the lookup of an exchange id.
pub async fn every_field_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let call = chat.add(call_of("what is it?")).await;
    let mut exchange = result_for(call.seq);
    exchange.at = Timestamp::from_unix_millis(1_700_000_000_123);
    exchange.tokens = Some(TokenCounts { counter: "o200k_base".into(), counts: vec![0, u32::MAX] });
    exchange.model = Some("gpt-4o \"ä\" \u{0}".into());
    exchange.finish_reason = Some("length".into());
    exchange.usage = Some(with!(Usage::new(u64::MAX, 0), cached_input_tokens: Some(7)));
    exchange.incomplete = true;
    let log = [call, chat.add(exchange.clone()).await];
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
    let asked = Load::new().exchange(exchange.id);
    assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(log[1].clone()));
}

/// An absent value is returned as absent, and an empty one as empty.
pub async fn absent_and_empty_are_different(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let absent = turn_of("absent");
    let mut empty = turn_of("empty");
    empty.tokens = Some(TokenCounts { counter: String::new(), counts: vec![] });
    (empty.model, empty.finish_reason) = (Some(String::new()), Some(String::new()));
    empty.usage = Some(Usage::default());
    let log = [chat.add(absent).await, chat.add(empty).await];
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
}

/// The time that the caller set is returned to the millisecond. It does not determine the order.
pub async fn time_is_kept_and_orders_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for millis in [1_700_000_000_999, 0, u64::MAX, 1, i64::MAX as u64, 1_700_000_000_998] {
        let mut exchange = turn_of("x");
        exchange.at = Timestamp::from_unix_millis(millis);
        log.push(chat.add(exchange).await);
    }
    assert_eq!(log[5].seq, Seq::new(5));
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
}
