//! Compactions stored in the same write as an exchange.

use super::support::*;

/// Asserts that an append is refused because of its compaction, stores nothing, and can be repeated without it.
async fn assert_refused(chat: &Chat, exchange: Exchange, cut: Cut, reason: CompactionError) {
    let replaces = chat.compaction().await.map_or(NONE, |stored| stored.version);
    let (before, log) = (chat.now().await, chat.log().await);
    let refused = chat.append_with(exchange.clone(), replaces, cut.clone()).await;
    let right = matches!(refused, Err(StoreError::Compaction(given)) if given == reason);
    assert!(right, "{refused:?}, for {reason:?} of {cut:?}");
    let asked = Load::new().known(before.known()).exchange(exchange.id.clone());
    assert_eq!(chat.load(asked).await, Loaded::Unchanged, "the append was refused");
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.add(exchange).await.seq, Seq::new(log.len() as u64));
}

/// The exchange and the compaction are stored together.
pub async fn both_are_stored(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(3).await;
    let exchange = turn_of("with a cut");
    let cut = summary_to(2, "the first two");
    let appended = chat.append_with(exchange.clone(), NONE, cut.clone()).await.unwrap();
    log.push(Recorded::new(appended.seq, exchange));
    let window = chat.now().await;
    assert_eq!(window.revision, appended.revision);
    assert_eq!(window.compaction, Some(Compaction::new(stored(appended.compaction), cut)));
    assert_eq!(window.exchanges, log[2..]);
    assert_eq!(chat.log().await, log);
}

/// The window may start at the appended exchange, and the other positions may be after it.
pub async fn the_exchange_may_start_the_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let (own, end) = (Seq::new(2), Seq::new(3));
    let cut = with!(summary_to(2, "all before"), rounds_start: end, cleared_before: end);
    let exchange = turn_of("new");
    let appended = chat.append_with(exchange.clone(), NONE, cut).await.unwrap();
    stored(appended.compaction);
    assert_eq!(chat.now().await.exchanges, [Recorded::new(own, exchange)]);
}

/// A first append may carry a compaction.
pub async fn a_first_append_may_compact(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let compact = compact(NONE, Cut::default());
    let append = Append::new(Expect::Absent, turn_of("first")).compact(compact);
    let appended = chat.submit(append).await.unwrap();
    let version = stored(appended.compaction);
    assert_eq!(chat.now().await.compaction_version(), version);
}

/// A continuation cannot start the window, not even if the append itself adds it.
pub async fn a_continuation_does_not_start_the_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let call = chat.add(call_of("what is it?")).await;
    let own = Seq::new(1);
    let reason = CompactionError::NotAnOpening { seq: own };
    assert_refused(&chat, result_for(call.seq), Cut::window_from(own), reason).await;
}

/// If the compaction breaks a rule, neither it nor the exchange is stored.
pub async fn an_illegal_compaction_stores_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    chat.cut(NONE, summary_to(2, "the first two")).await;
    let beyond = with!(Cut::window_from(Seq::new(4)), summary: Some(Summary::new("x", Seq::new(2))));
    assert_refused(&chat, turn_of("a"), beyond, CompactionError::BeyondLog).await;
    assert_refused(&chat, turn_of("b"), summary_to(1, "x"), CompactionError::GoesBack).await;
    let covering = with!(summary_to(3, ""), summary: Some(Summary::new("x", Seq::new(4))));
    assert_refused(&chat, turn_of("c"), covering, CompactionError::CoversWindow).await;
}

/// A compaction that breaks a rule does not create a conversation either.
pub async fn an_illegal_compaction_creates_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let refused = chat.append_with(turn_of("first"), NONE, Cut::window_from(Seq::new(1))).await;
    assert!(matches!(refused, Err(StoreError::Compaction(CompactionError::BeyondLog))), "{refused:?}");
    chat.assert_absent().await;
}

/// A compaction made from another version is skipped: the exchange is stored, and the append reports it.
pub async fn a_stale_compaction_is_left_out(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(4).await;
    let first = chat.cut(NONE, summary_to(1, "first")).await;
    let second = chat.cut(first.version, summary_to(3, "second")).await;
    for (replaces, start) in [(first.version, 4), (first.version, 2), (NONE, 1)] {
        let exchange = turn_of("stored all the same");
        let cut = summary_to(start, "stale");
        let appended = chat.append_with(exchange.clone(), replaces, cut).await.unwrap();
        assert_eq!(appended.compaction, Some(CompactOutcome::Kept(Some(second.clone()))));
        log.push(Recorded::new(appended.seq, exchange));
    }
    let window = chat.now().await;
    assert_eq!((window.compaction, window.exchanges.as_slice()), (Some(second), &log[3..]));
    assert_eq!(chat.log().await, log);
}

/// A compaction that replaces a version is skipped if none is stored, even if the append creates the conversation.
pub async fn a_compaction_of_nothing_is_left_out(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for seq in [0, 1] {
        let appended = chat.append_with(turn_of("x"), CompactionVersion::new(3), Cut::default()).await;
        let appended = appended.unwrap();
        assert_eq!((appended.seq, appended.compaction), (Seq::new(seq), Some(CompactOutcome::Kept(None))));
    }
    assert_eq!(chat.compaction().await, None);
}

/// A refused append does not store its compaction either.
pub async fn a_refused_append_does_not_compact(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let before = chat.now().await;
    let compact = || compact(NONE, Cut::window_from(Seq::new(1)));
    let conflicting = Append::new(Expect::Absent, turn_of("x")).compact(compact());
    assert_conflict(chat.submit(conflicting).await, before.revision);
    let unknown = Append::new(Expect::AnyOrCreate, result_for(Seq::new(9))).compact(compact());
    let refused = chat.submit(unknown).await;
    assert!(matches!(refused, Err(StoreError::ContinuesUnknown { .. })), "{refused:?}");
    assert_eq!(chat.now().await, before);
}

/// A repeated append does not change the compaction that was stored since.
pub async fn a_repeat_does_not_compact_again(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let exchange = turn_of("once");
    let cut = summary_to(1, "first");
    let first = chat.append_with(exchange.clone(), NONE, cut.clone()).await.unwrap();
    let second = chat.cut(stored(first.compaction), summary_to(2, "second")).await;
    for replaces in [NONE, second.version] {
        let again = chat.append_with(exchange.clone(), replaces, summary_to(2, "repeat")).await.unwrap();
        assert_eq!((again.duplicate, again.compaction), (true, None));
    }
    assert_eq!(chat.compaction().await, Some(second));
}
