//! Appends that are repeated under their exchange id.

use super::support::*;

/// More exchanges than a store would remember if it remembered only the newest ids.
const LONG_LOG: usize = 300;

/// A repeated append stores nothing and returns the recorded position, whatever it expects. So does a repeated first
/// turn.
pub async fn a_repeat_stores_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let first = turn_of("once");
    chat.append(Expect::Absent, first.clone()).await.unwrap();
    let mut log = vec![Recorded::new(Seq::FIRST, first)];
    chat.assert_repeat(Expect::Absent, &log[0]).await;

    log.extend(chat.add_turns(1).await);
    let stale = chat.revision().await;
    log.extend(chat.add_turns(2).await);
    let now = chat.revision().await;
    for expect in [
        Expect::AnyOrCreate,
        Expect::AnyIn(now.incarnation()),
        Expect::AnyIn(Incarnation::random()),
        Expect::Exactly(now),
        Expect::Exactly(stale),
        Expect::Exactly(Revision::new(Incarnation::random(), 1)),
        Expect::Absent,
    ] {
        chat.assert_repeat(expect, &log[2]).await;
    }
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.revision().await, now);
}

/// Only the id matters: the other contents of a repeat are neither stored nor checked, also its recalled messages and
/// its provenance.
pub async fn a_repeat_does_not_change_what_is_recorded(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let recalled = super::recalled::recalling("x", &[0]).recalled;
    let provenance = super::provenance::made_after("x").provenance;
    let derived = with!(turn_of("x"), recalled: recalled.clone(), provenance: provenance.clone());
    let log = chat.add_all([turn_of("x"), turn_of("y"), derived]).await;
    for (recorded, recalled, provenance) in [(&log[1], recalled, provenance), (&log[2], None, None)] {
        let mut other = Exchange::new(recorded.exchange.id.clone(), [Message::user("other")]).continuing(Seq::new(99));
        other.model = Some("other".into());
        other.recalled = recalled;
        other.provenance = provenance;
        for start in [1, 99] {
            let appended = chat.append_with(other.clone(), NONE, window_from(start)).await.unwrap();
            assert_eq!(appended, Appended::duplicate(chat.revision().await, recorded.seq));
        }
    }
    chat.assert_log(&log).await;
    assert_eq!(chat.compaction().await, None);
}

/// Racing repeats store the exchange once, and all return the same position.
pub async fn racing_repeats_store_once(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 4).await;
    for round in 0..4 {
        // The first round also creates the conversation.
        let exchange = turn_of(&format!("round {round}"));
        let repeats = handles.iter().cycle().take(12).map(|chat| chat.append(Expect::AnyOrCreate, exchange.clone()));
        let mut stored = 0;
        for appended in join_all(repeats).await {
            let appended = appended.unwrap();
            assert_eq!(appended.seq, Seq::new(round));
            stored += u64::from(!appended.duplicate);
        }
        assert_eq!(stored, 1);
        assert_eq!(chat.log().await.len() as u64, round + 1);
    }
}

/// An exchange id belongs to its conversation: another conversation may use the same one.
pub async fn ids_belong_to_their_conversation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.other();
    let exchange = turn_of("the same");
    other.add(turn_of("before")).await;
    let first = chat.add(exchange.clone()).await;
    let second = other.add(exchange).await;
    assert_eq!((first.seq, second.seq), (Seq::FIRST, Seq::new(1)));

    other.assert_repeat(Expect::Absent, &second).await;
    chat.assert_repeat(Expect::Absent, &first).await;
}

/// Exchange ids are compared byte by byte: case, prefixes and wildcards make different ids.
pub async fn similar_ids_are_different(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let long = "x".repeat(ExchangeId::MAX_LEN - 1);
    let ids =
        ["a", "A", "ab", "a%", "a_", "a*", "a?", "a'", "a\"", "a\\", "a/b", "a:b", "1", "01", "1.0", "{}", "null"];
    for id in ids.into_iter().chain([&*long, &format!("{long}x"), &format!("{long}y")]) {
        let id = ExchangeId::new(id).unwrap();
        let recorded = chat.add(Exchange::new(id.clone(), [Message::user(id.as_str())])).await;
        chat.assert_repeat(Expect::Absent, &recorded).await;
        chat.assert_recorded(&recorded).await;
    }
}

/// Hundreds of single appends are in order. An append and a load recognize an exchange id, however many exchanges came
/// after it.
pub async fn a_repeat_is_recognized_in_a_long_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(LONG_LOG).await;
    assert_eq!(log[LONG_LOG - 1].seq, Seq::new(LONG_LOG as u64 - 1));
    for recorded in [&log[0], &log[1], &log[LONG_LOG / 2]] {
        chat.assert_repeat(Expect::AnyOrCreate, recorded).await;
        chat.assert_recorded(recorded).await;
    }
    assert_eq!(chat.log().await, log);
}
