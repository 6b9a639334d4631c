//! Durable stores: all handles are dropped and the storage is opened again.

use super::{
    epochs::{assert_later, assert_refused},
    support::*,
};

/// The log, the revision and the compactions of all profiles are the same, and recorded exchange ids are recognized.
/// Messages that are difficult to store are there, too.
pub async fn all_data_is_still_there(fixture: &dyn Fixture) {
    let chat = Chat::durable(fixture).await;
    let odd = "{ \"z\":1.50, \"role\" : \"user\",\"content\":\"\\u0000 \\ud83d \u{2028} é e\u{301}\",\n\"x\":1e400 }";
    let mut log = chat.add_turns(4).await;
    log.push(chat.add(exchange_of([message(odd)])).await);
    let first = chat.cut(NONE, summary_to(1, "first")).await;
    chat.cut(first.version, summary_to(2, "second")).await;
    let small = profile("small");
    chat.compact_as(&small, NONE, summary_to(3, "small")).await.unwrap();
    let before = chat.now().await;
    let before_small = chat.compaction_of(&small).await;

    let chat = chat.after_restart(fixture).await;
    chat.assert_unchanged(&before).await;
    assert_eq!(chat.now().await, before);
    assert_eq!(chat.compaction_of(&small).await, before_small);
    for recorded in &log {
        chat.assert_repeat(Expect::Absent, recorded).await;
        chat.assert_recorded(recorded).await;
    }
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.log().await[4].exchange.messages[0].json(), odd);
}

/// Appends, compactions and conditions continue from the same state.
pub async fn writing_continues(fixture: &dyn Fixture) {
    let mut chat = Chat::durable(fixture).await;
    let mut log = chat.add_turns(1).await;
    let mut replaces = NONE;
    for n in 1..4 {
        let stale = chat.revision().await;
        log.push(chat.add(turn_of("x")).await);
        let revision = chat.revision().await;

        chat = chat.after_restart(fixture).await;
        assert_conflict(chat.append(Expect::Exactly(stale), turn_of("stale")).await, revision);
        let exchange = turn_of("after");
        let appended = chat.append(Expect::Exactly(revision), exchange.clone()).await.unwrap();
        assert_eq!(appended.seq, Seq::new(2 * n));
        log.push(Recorded::new(appended.seq, exchange));
        replaces = chat.cut(replaces, summary_to(n, "more")).await.version;
    }
    assert_eq!(chat.log().await, log);
}

/// A deleted conversation stays deleted, its incarnation stays ended, and first turns from before stay refused.
pub async fn deletions_persist(fixture: &dyn Fixture) {
    let chat = Chat::durable(fixture).await;
    let epoch = chat.epoch().await;
    chat.add_turns(2).await;
    let ended = chat.incarnation().await;
    chat.delete().await;
    let chat = chat.after_restart(fixture).await;
    chat.assert_absent().await;
    assert_gone(chat.append(Expect::AnyIn(ended), turn_of("late")).await);
    assert_refused(&chat, epoch).await;
    assert_later(&chat, epoch).await;
    assert_ne!(chat.incarnation().await, ended);
}
