//! Equal compactions: only the call that stored one reports `Stored`.

use super::support::*;

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
        let (mut won, mut lost) = (Vec::new(), Vec::new());
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
