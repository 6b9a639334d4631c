//! Bounded loads: the newest turns that fit, and never a part of one.

use tower_chat_history_core::{CompactionVersion, Cut, Exchange, ExchangeId, Load, Message, Recorded, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::LIMIT;

const UNBOUNDED: usize = usize::MAX;

async fn assert_loads(chat: &Chat, load: Load, expected: &[Recorded], truncated: bool) {
    let limit = load.limit;
    let window = chat.window(load).await;
    let seqs: Vec<Seq> = window.exchanges.iter().map(|recorded| recorded.seq).collect();
    assert_eq!((window.truncated, window.exchanges.as_slice()), (truncated, expected), "{limit:?} brought {seqs:?}");
}

fn bytes(exchanges: &[Recorded]) -> usize {
    exchanges.iter().map(|recorded| recorded.exchange.bytes()).sum()
}

/// A message limit returns the newest turns that fit, and reports that it cut something off.
pub async fn a_message_limit_brings_the_newest_turns(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(5).await;
    assert_loads(&chat, limit(4, UNBOUNDED), &log[3..], true).await;
    assert_loads(&chat, limit(5, UNBOUNDED), &log[3..], true).await;
    assert_loads(&chat, limit(6, UNBOUNDED), &log[2..], true).await;
}

/// A byte limit returns the newest turns that fit, and reports that it cut something off.
pub async fn a_byte_limit_brings_the_newest_turns(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(5).await;
    assert_loads(&chat, limit(UNBOUNDED, bytes(&log[3..])), &log[3..], true).await;
    assert_loads(&chat, limit(UNBOUNDED, bytes(&log[3..]) + 1), &log[3..], true).await;
    assert_loads(&chat, limit(UNBOUNDED, bytes(&log[3..]) - 1), &log[4..], true).await;
}

/// The limit counts bytes of the message JSON, not characters.
pub async fn a_byte_limit_counts_bytes(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = [chat.add(turn_of("世界世界")).await, chat.add(turn_of("👩‍👩‍👧 \u{0}\n")).await];
    assert_loads(&chat, limit(UNBOUNDED, bytes(&log)), &log, false).await;
    assert_loads(&chat, limit(UNBOUNDED, bytes(&log) - 1), &log[1..], true).await;
}

/// A window that fits exactly is not truncated. With a limit one message or one byte lower, a turn is cut off.
pub async fn an_exact_fit_is_not_truncated(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(5).await;
    let all = bytes(&log);
    for load in [limit(10, all), limit(10, UNBOUNDED), limit(UNBOUNDED, all), limit(UNBOUNDED, UNBOUNDED)] {
        assert_loads(&chat, load, &log, false).await;
    }
    for load in [limit(9, all), limit(10, all - 1)] {
        assert_loads(&chat, load, &log[1..], true).await;
    }
}

/// A turn of several exchanges is returned whole or not at all.
pub async fn a_turn_is_not_split(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let call = chat.add(call_of("what is it?")).await;
    let mut log = vec![call.clone(), chat.add(result_for(call.seq)).await];
    log.extend(chat.add_turns(1).await);
    assert_loads(&chat, limit(6, UNBOUNDED), &log, false).await;
    for messages in [3, 4, 5] {
        assert_loads(&chat, limit(messages, UNBOUNDED), &log[2..], true).await;
    }
    assert_loads(&chat, limit(UNBOUNDED, bytes(&log[1..])), &log[2..], true).await;
}

/// The newest turn is returned whole, even if it exceeds the limit by itself.
pub async fn the_newest_turn_comes_whole(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = vec![chat.add(call_of("what is it?")).await];
    log.push(chat.add(result_for(Seq::FIRST)).await);
    assert_loads(&chat, limit(1, UNBOUNDED), &log, false).await;
    assert_loads(&chat, limit(UNBOUNDED, 1), &log, false).await;
    let call = chat.add(call_of("and now?")).await;
    log.extend([call.clone(), chat.add(result_for(call.seq)).await, chat.add(result_for(call.seq)).await]);
    assert_loads(&chat, limit(1, 1), &log[2..], true).await;
    assert_loads(&chat, limit(4, UNBOUNDED), &log[2..], true).await;
}

/// A window never starts at a late continuation, which follows another turn's opening.
pub async fn a_late_continuation_does_not_start_a_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let call = chat.add(call_of("what is it?")).await;
    let log = [call.clone(), chat.add(turn_of("never mind")).await, chat.add(result_for(call.seq)).await];
    assert_loads(&chat, limit(2, UNBOUNDED), &log[1..], true).await;
    assert_loads(&chat, limit(4, UNBOUNDED), &log[1..], true).await;
    assert_loads(&chat, limit(6, UNBOUNDED), &log, false).await;
}

/// The window begins where the compaction says. Earlier exchanges are not loaded, and that is not a truncation.
pub async fn a_window_begins_at_its_compaction(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(5).await;
    chat.cut(CompactionVersion::NONE, summary_to(2, "before")).await;
    assert_loads(&chat, Load::new(), &log[2..], false).await;
    assert_loads(&chat, limit(6, bytes(&log[2..])), &log[2..], false).await;
    assert_loads(&chat, limit(5, UNBOUNDED), &log[3..], true).await;
    assert_loads(&chat, limit(1, 1), &log[4..], true).await;
    log.extend(chat.add_turns(1).await);
    assert_loads(&chat, Load::new(), &log[2..], false).await;
}

/// A window with only the newest turn is that turn, and is not truncated.
pub async fn the_smallest_window_is_the_newest_turn(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let call = chat.add(call_of("what is it?")).await;
    let turn = [call.clone(), chat.add(result_for(call.seq)).await];
    chat.cut(CompactionVersion::NONE, Cut::window_from(call.seq)).await;
    assert_loads(&chat, Load::new(), &turn, false).await;
    assert_loads(&chat, limit(1, 1), &turn, false).await;
}

/// An exchange without messages counts as one message, so a load of such exchanges is bounded too.
pub async fn an_exchange_without_messages_counts_as_one(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for messages in [vec![], vec![Message::user("x")], vec![], vec![], vec![]] {
        log.push(chat.add(Exchange::new(ExchangeId::generate(), messages)).await);
    }
    for messages in 1..5 {
        assert_loads(&chat, limit(messages, UNBOUNDED), &log[5 - messages..], true).await;
    }
    assert_loads(&chat, limit(5, UNBOUNDED), &log, false).await;
    // Exchanges without messages have no bytes.
    assert_loads(&chat, limit(UNBOUNDED, bytes(&log)), &log, false).await;
}

/// A load without an explicit limit is bounded by the default of 1,000 messages.
pub async fn the_default_limit_holds(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for _ in 0..11 {
        let messages = (0..100).map(|_| Message::user("x"));
        log.push(chat.add(Exchange::new(ExchangeId::generate(), messages)).await);
    }
    assert_loads(&chat, Load::new(), &log[1..], true).await;
}

/// The newest turn is returned whole, however many exchanges it has.
pub async fn the_newest_turn_comes_whole_with_hundreds_of_exchanges(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let before = chat.add_turns(1).await;
    let mut turn = vec![chat.add(call_of("what is it?")).await];
    let opening = turn[0].seq;
    for _ in 0..300 {
        turn.push(chat.add(result_for(opening)).await);
    }
    assert_loads(&chat, limit(1, 1), &turn, true).await;
    assert_loads(&chat, limit(turn.len() * 2, UNBOUNDED), &turn, true).await;
    let log = [before, turn].concat();
    assert_loads(&chat, limit(log.len() * 2, UNBOUNDED), &log, false).await;
}

/// A large limit is not truncated to a smaller integer type.
pub async fn a_large_limit_is_not_a_small_one(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    for bits in [8, 15, 16, 31, 32, 63] {
        // In a narrower integer, this number would be 3 or negative.
        let Some(large) = 1_usize.checked_shl(bits).map(|power| power + 3) else { continue };
        assert_loads(&chat, limit(large, UNBOUNDED), &log, false).await;
        if large >= bytes(&log) {
            assert_loads(&chat, limit(UNBOUNDED, large), &log, false).await;
            assert_loads(&chat, limit(large, large), &log, false).await;
        }
    }
}

/// The store counts more than 65,535 messages.
pub async fn tens_of_thousands_of_messages_are_counted(fixture: &dyn Fixture) {
    const EACH: usize = 33_000;
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for _ in 0..2 {
        let messages = std::iter::repeat_n(Message::user("x"), EACH);
        log.push(chat.add(Exchange::new(ExchangeId::generate(), messages)).await);
    }
    assert_loads(&chat, limit(2 * EACH, UNBOUNDED), &log, false).await;
    assert_loads(&chat, limit(2 * EACH - 1, UNBOUNDED), &log[1..], true).await;
}
