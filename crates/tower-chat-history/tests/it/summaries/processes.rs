//! Two processes in one conversation: two engines over one store.

use std::time::Duration;

use tower_chat_history::{
    Engine, HistoryStore as _, MemoryStore,
    store::{Cuts, Load, Loaded},
    summary::{Summaries, SummaryOutcome},
};

use super::support::{CollectedReports, Facts, id, mentions, options, turn};

#[tokio::test(start_paused = true)]
async fn coverage_is_contiguous_and_never_shrinks() {
    let (store, collected) = (MemoryStore::new(), CollectedReports::default());
    let engines: Vec<Engine> = (1..=2)
        .map(|seconds| {
            let facts = Facts::new().taking(Duration::from_secs(seconds));
            Engine::with_options(store.clone(), options(Summaries::new(facts).on_summary(collected.hook())))
        })
        .collect();
    turn(&engines[0], "fact-nemo").await;
    let mut covered = 0;
    for number in 0..300 {
        turn(&engines[number % 2], &format!("question {number}")).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let Loaded::Window(window) = store.load(&id(), Load::new()).await.unwrap() else { unreachable!() };
        let Some(compaction) = window.compaction else { continue };
        let covers = Cuts::read(&compaction).unwrap().cut.covers_to.get();
        assert!(covers >= covered, "it went back from {covered} to {covers}");
        assert!(covers <= compaction.window_start.get());
        covered = covers;
    }
    for engine in &engines {
        engine.drain(Duration::from_secs(60)).await.unwrap();
    }
    assert!(mentions(&turn(&engines[0], "and now?").await.0, "fact-nemo"));
    assert!(covered > 200, "{covered}");
    // Every stored summary begins where a stored one ended. A summary based on an older one is not stored.
    let stored: Vec<_> =
        collected.all().into_iter().filter(|report| matches!(report.outcome, SummaryOutcome::Stored)).collect();
    assert!(stored.len() > 20, "{}", stored.len());
    let mut ends = vec![0];
    for report in &stored {
        assert!(ends.contains(&report.from.get()), "{report:?}");
        ends.push(report.to.get());
    }
}
