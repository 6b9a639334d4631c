//! Bounded loads: the newest turns that fit, and never a part of one.

use super::support::*;

/// Asserts that a load returns the log from this exchange on, and reports whether it cut something off.
async fn assert_loads(chat: &Chat, load: Load, log: &[Recorded], from: usize) {
    let limit = load.limit;
    let window = chat.window(load).await;
    assert_eq!((window.truncated, window.exchanges.as_slice()), (from > 0, &log[from..]), "{limit:?}");
}

fn bytes(exchanges: &[Recorded]) -> usize {
    bytes_of(exchanges) as usize
}

/// A limit of messages, or of bytes of their JSON, returns the newest turns that fit, and reports that it cut something
/// off. A window that fits exactly is not truncated.
pub async fn a_limit_brings_the_newest_turns(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    log.extend(chat.add_all([turn_of("世界世界"), turn_of("👩‍👩‍👧 \u{0}\n")]).await);
    for (messages, from) in [(4, 3), (5, 3), (6, 2), (9, 1), (10, 0), (MANY, 0)] {
        assert_loads(&chat, limit(messages, MANY), &log, from).await;
        assert_loads(&chat, limit(messages, bytes(&log)), &log, from).await;
    }
    for from in 0..4 {
        let fits = bytes(&log[from..]);
        for (bytes, from) in [(fits, from), (fits + 1, from), (fits - 1, from + 1)] {
            assert_loads(&chat, limit(MANY, bytes), &log, from).await;
            assert_loads(&chat, limit(10, bytes), &log, from).await;
        }
    }
}

/// A turn of several exchanges is returned whole or not at all.
pub async fn a_turn_is_not_split(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_call(1).await;
    log.extend(chat.add_turns(1).await);
    assert_loads(&chat, limit(6, MANY), &log, 0).await;
    for messages in [3, 4, 5] {
        assert_loads(&chat, limit(messages, MANY), &log, 2).await;
    }
    assert_loads(&chat, limit(MANY, bytes(&log[1..])), &log, 2).await;
}

/// The newest turn is returned whole, even if it exceeds the limit by itself, and however many exchanges it has.
pub async fn the_newest_turn_comes_whole(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_call(1).await;
    assert_loads(&chat, limit(1, MANY), &log, 0).await;
    assert_loads(&chat, limit(MANY, 1), &log, 0).await;

    log.extend(chat.add_call(300).await);
    assert_loads(&chat, limit(1, 1), &log, 2).await;
    assert_loads(&chat, limit(4, MANY), &log, 2).await;
    assert_loads(&chat, limit(log.len() * 2 - 4, MANY), &log, 2).await;
    assert_loads(&chat, limit(log.len() * 2, MANY), &log, 0).await;
}

/// A window never starts at a late continuation, which follows another turn's opening.
pub async fn a_late_continuation_does_not_start_a_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all([call_of("what is it?"), turn_of("never mind"), result_for(Seq::FIRST)]).await;
    assert_loads(&chat, limit(2, MANY), &log, 1).await;
    assert_loads(&chat, limit(4, MANY), &log, 1).await;
    assert_loads(&chat, limit(6, MANY), &log, 0).await;
}

/// The window begins where the compaction says. Earlier exchanges are not loaded, and that is not a truncation. The
/// smallest window is the newest turn.
pub async fn a_window_begins_at_its_compaction(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(5).await;
    let compaction = chat.cut(NONE, summary_to(2, "before")).await;
    assert_loads(&chat, Load::new(), &log[2..], 0).await;
    assert_loads(&chat, limit(6, bytes(&log[2..])), &log[2..], 0).await;
    assert_loads(&chat, limit(5, MANY), &log[2..], 1).await;
    assert_loads(&chat, limit(1, 1), &log[2..], 2).await;

    log.extend(chat.add_call(1).await);
    assert_loads(&chat, Load::new(), &log[2..], 0).await;
    chat.cut(compaction.version, summary_to(5, "before")).await;
    assert_loads(&chat, Load::new(), &log[5..], 0).await;
    assert_loads(&chat, limit(1, 1), &log[5..], 0).await;
}

/// A load without an explicit limit is bounded by the default of 1,000 messages.
pub async fn the_default_limit_holds(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let hundred = || exchange_of((0..100).map(|_| Message::user("x")));
    let log = chat.add_all((0..11).map(|_| hundred())).await;
    assert_loads(&chat, Load::new(), &log, 1).await;
}

/// A large limit is not truncated to a smaller integer type.
pub async fn a_large_limit_is_not_a_small_one(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    for bits in [8, 15, 16, 31, 32, 63] {
        // In a narrower integer, this number would be 3 or negative.
        let Some(large) = 1_usize.checked_shl(bits).map(|power| power + 3) else { continue };
        assert_loads(&chat, limit(large, MANY), &log, 0).await;
        if large >= bytes(&log) {
            assert_loads(&chat, limit(MANY, large), &log, 0).await;
            assert_loads(&chat, limit(large, large), &log, 0).await;
        }
    }
}

/// The store counts more than 65,535 messages.
pub async fn tens_of_thousands_of_messages_are_counted(fixture: &dyn Fixture) {
    const EACH: usize = 33_000;
    let chat = Chat::new(fixture).await;
    let large = || exchange_of(std::iter::repeat_n(Message::user("x"), EACH));
    let log = chat.add_all([large(), large()]).await;
    assert_loads(&chat, limit(2 * EACH, MANY), &log, 0).await;
    assert_loads(&chat, limit(2 * EACH - 1, MANY), &log, 1).await;
}

/// An exchange without messages counts as one message, so a load of such exchanges is bounded too. It has no bytes.
pub async fn an_exchange_without_messages_counts_as_one(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_all((0..6).map(|_| exchange_of([]))).await;
    for messages in 1..8 {
        assert_loads(&chat, limit(messages, MANY), &log, 6_usize.saturating_sub(messages)).await;
    }
    assert_loads(&chat, limit(MANY, 1), &log, 0).await;

    log.extend(chat.add_turns(1).await);
    log.extend(chat.add_all([exchange_of([]), exchange_of([])]).await);
    log.extend(chat.add_turns(1).await);
    // From the newest exchange on: 2, 1, 1 and 2 messages, and then 1 for each of the first exchanges.
    for (messages, from) in [(1, 9), (2, 9), (3, 8), (4, 7), (5, 7), (6, 6), (7, 5), (11, 1), (12, 0), (13, 0)] {
        assert_loads(&chat, limit(messages, MANY), &log, from).await;
    }
    assert_loads(&chat, limit(MANY, bytes(&log)), &log, 0).await;
}

/// A turn is not split, and the newest turn is returned whole, even if its exchanges have no messages.
pub async fn turns_of_empty_exchanges_are_not_split(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = vec![chat.add(exchange_of([])).await];
    for opening in [1, 4].map(Seq::new) {
        log.push(chat.add(exchange_of([])).await);
        for _ in 0..2 {
            log.push(chat.add(exchange_of([]).continuing(opening)).await);
        }
    }
    for (messages, from) in [(1, 4), (3, 4), (4, 4), (5, 4), (6, 1), (7, 0)] {
        assert_loads(&chat, limit(messages, MANY), &log, from).await;
    }
}

/// An exchange without a reply, and one without any message, are allowed. They can be read, known and repeated like any
/// other.
pub async fn empty_exchanges_have_positions_in_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_all([exchange_of([]), exchange_of([]), exchange_of([Message::user("anyone there?")])]).await;
    chat.assert_log(&log).await;
    let window = chat.now().await;
    assert_eq!(window.revision.version(), 3);
    chat.assert_unchanged(&window).await;
    chat.assert_repeat(Expect::AnyOrCreate, &log[1]).await;
}
