//! Changes of a conversation between two turns, as reported by the second turn.

use std::time::Duration;

use tower_chat_history::{
    ContextBudget, Engine, HistoryOptions, HistoryStore as _, MemoryStore, Retention,
    store::{CompactionVersion, Cut, Cuts, Prefix, Profile, Seq},
    summary::{Summaries, SummarizeWhen},
};

use super::{FixedSummarizer, conversation, summarizing_options, turn, window};

#[tokio::test(start_paused = true)]
async fn summaries_between_turns_are_reported_once_and_completely() {
    let store = MemoryStore::new();
    let engine = Engine::with_options(store.clone(), summarizing_options());
    let (mut evicted, mut summarized, mut reported) = (0, 0, 0);
    for _ in 0..40 {
        let report = turn(&engine, "c").await;
        assert!(
            report.summary.is_none() && report.tokens.is_none_or(|tokens| !tokens.compacted),
            "the summary was made in the background"
        );
        if let Some(since) = report.since_last {
            evicted += since.evicted_exchanges;
            summarized += since.summarized_exchanges;
            reported += 1;
        }
        let _ = turn(&engine, "another").await;
        engine.drain(Duration::from_secs(10)).await.unwrap();
    }
    let last = turn(&engine, "c").await.since_last.unwrap_or_default();
    let cut = Cuts::read(&window(&store, "c").await.compaction.unwrap()).unwrap().cut;
    assert!(reported > 3);
    assert_eq!(evicted + last.evicted_exchanges, cut.window_start.get());
    assert_eq!(summarized + last.summarized_exchanges, cut.covers_to.get());
}

/// Each of these changes is in the report of the turn that made it.
#[tokio::test(start_paused = true)]
async fn changes_made_by_a_turn_are_not_reported_by_the_next_one() {
    let budget = || HistoryOptions::new().context(ContextBudget::tokens(400).reply_reserve(10));
    let summaries =
        |when| budget().summaries(Summaries::new(FixedSummarizer::default()).max_tokens(20).least_room(1).when(when));
    for options in [budget(), summaries(SummarizeWhen::BeforeCall), summaries(SummarizeWhen::BeforeEveryCall)] {
        let store = MemoryStore::new();
        let retaining = Engine::with_retention(store.clone(), options.clone(), Retention::LastTurns(8));
        for engine in [Engine::with_options(store.clone(), options), retaining] {
            store.delete(&conversation("c")).await.unwrap();
            for number in 0..20 {
                assert_eq!(turn(&engine, "c").await.since_last, None, "turn {number}");
            }
            assert!(window(&store, "c").await.compaction.is_some());
        }
        assert!(window(&store, "c").await.revision.first() > Seq::FIRST, "the log was pruned");
    }
}

#[tokio::test(start_paused = true)]
async fn another_processes_compaction_is_reported_and_a_new_incarnation_is_not() {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
    for _ in 0..4 {
        turn(&engine, "c").await;
    }
    let incarnation = window(&store, "c").await.revision.incarnation();
    let cuts = Cuts::new(Cut::window_from(Seq::new(3)));
    let compact = cuts.compact(Profile::default(), CompactionVersion::NONE).unwrap();
    store.compact(&conversation("c"), incarnation, compact).await.unwrap();
    let unaware = Engine::new(store.clone());
    assert_eq!(turn(&unaware, "c").await.since_last, None, "the engine's first turn in the conversation");
    let since = turn(&engine, "c").await.since_last.unwrap();
    assert_eq!((since.evicted_exchanges, since.summarized_exchanges), (3, 0));
    assert_eq!(turn(&engine, "c").await.since_last, None, "once");

    store.delete(&conversation("c")).await.unwrap();
    assert_eq!(turn(&engine, "c").await.since_last, None);
    assert_eq!(turn(&engine, "c").await.since_last, None);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_conversation_reports_no_changes() {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
    for _ in 0..4 {
        turn(&engine, "c").await;
    }
    let incarnation = window(&store, "c").await.revision.incarnation();
    let cuts = Cuts::new(Cut::window_from(Seq::new(3)));
    let compact = cuts.compact(Profile::default(), CompactionVersion::NONE).unwrap();
    store.compact(&conversation("c"), incarnation, compact).await.unwrap();
    engine.forget(&Prefix::from(&conversation("c")));
    assert_eq!(turn(&engine, "c").await.since_last, None);
}
