//! Compactions stored in the same write as an exchange, and equal compactions of several calls.

use super::support::*;

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
    assert_eq!(window.compaction, Some(cut.stored_as(stored(appended.compaction))));
    assert_eq!(window.exchanges, log[2..]);
    assert_eq!(chat.log().await, log);
}

/// The window may start at the appended exchange.
pub async fn the_exchange_may_start_the_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let exchange = turn_of("new");
    let appended = chat.append_with(exchange.clone(), NONE, summary_to(2, "all before")).await.unwrap();
    stored(appended.compaction);
    assert_eq!(chat.now().await.exchanges, [Recorded::new(Seq::new(2), exchange)]);
}

/// A first append may carry a compaction.
pub async fn a_first_append_may_compact(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let compact = compact(NONE, window_from(0));
    let append = Append::new(Expect::Absent, turn_of("first")).compact(compact);
    let appended = chat.submit(append).await.unwrap();
    let version = stored(appended.compaction);
    assert_eq!(chat.now().await.compaction_version(), version);
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
        let appended = chat.append_with(turn_of("x"), CompactionVersion::new(3), window_from(0)).await;
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
    let compact = compact(NONE, window_from(1));
    let conflicting = Append::new(Expect::Absent, turn_of("x")).compact(compact.clone());
    assert_conflict(chat.submit(conflicting).await, before.revision);
    let unknown = Append::new(Expect::AnyOrCreate, result_for(Seq::new(9))).compact(compact);
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

// Equal compactions: only the call that stored one reports `Stored`.

/// A call whose equal compaction another call stored reports `Kept`.
pub async fn an_equal_compaction_of_another_call_is_kept(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let cut = summary_to(1, "the same");
    let first = chat.cut(NONE, cut.clone()).await;
    let kept = CompactOutcome::Kept(Some(first.clone()));
    for other in chat.handles(fixture, 2).await {
        assert_eq!(other.compact(NONE, cut.clone()).await.unwrap(), kept);
        let appended = other.append_with(turn_of("next"), NONE, cut.clone()).await.unwrap();
        assert_eq!(appended.compaction, Some(kept.clone()));
    }
    assert_eq!(chat.compaction().await, Some(first));
}

/// The same holds if the first call was an append.
pub async fn an_equal_compaction_of_another_append_is_kept(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let cut = summary_to(1, "the same");
    let appended = chat.append_with(turn_of("first"), NONE, cut.clone()).await.unwrap();
    let first = cut.stored_as(stored(appended.compaction));
    let kept = CompactOutcome::Kept(Some(first));
    assert_eq!(chat.compact(NONE, cut.clone()).await.unwrap(), kept);
    let appended = chat.append_with(turn_of("second"), NONE, cut).await.unwrap();
    assert_eq!(appended.compaction, Some(kept));
}

/// If several calls store equal compactions at the same time, exactly one reports `Stored`.
pub async fn one_of_equal_racing_compactions_is_stored(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let handles = chat.handles(fixture, 6).await;
    let mut replaces = NONE;
    for round in 1..4 {
        let cut = summary_to(round, "the same");
        let racing = handles.iter().enumerate().map(|(number, chat)| {
            let cut = cut.clone();
            async move {
                if number % 2 == 0 {
                    Some(chat.compact(replaces, cut).await.unwrap())
                } else {
                    chat.append_with(turn_of("racing"), replaces, cut).await.unwrap().compaction
                }
            }
        });
        let mut won = Vec::new();
        let mut lost = Vec::new();
        for outcome in join_all(racing).await {
            match outcome {
                Some(CompactOutcome::Stored(version)) => won.push(version),
                other => lost.push(other),
            }
        }
        assert_eq!(won.len(), 1, "calls that returned `Stored`, in round {round}");
        let compaction = cut.stored_as(won[0]);
        assert_eq!(lost, vec![Some(CompactOutcome::Kept(Some(compaction.clone()))); 5], "round {round}");
        assert_eq!(chat.compaction().await, Some(compaction));
        replaces = won[0];
    }
}
