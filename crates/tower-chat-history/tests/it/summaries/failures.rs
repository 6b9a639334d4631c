//! A failed summary fails no turn.

use std::time::Duration;

use tower_chat_history::{
    Engine, MemoryStore,
    summary::{Summaries, SummarizeWhen, SummaryError, SummaryOutcome},
};

use super::support::{CollectedReports, Facts, Fault, log_len, mentions, options, turn};

/// With 30% errors, 10% timeouts, 10% empty and 10% oversized answers, no turn fails, and the fact returns with
/// the next summary.
#[tokio::test(start_paused = true)]
async fn no_turn_fails_and_the_fact_returns() {
    let faults = |call: usize| match call * 7 % 10 {
        0..3 => Fault::Error,
        3 => Fault::Hang,
        4 => Fault::Empty,
        5 => Fault::Longer,
        _ => Fault::None,
    };
    for when in [SummarizeWhen::AfterReply { percent: 90 }, SummarizeWhen::BeforeCall] {
        let (store, facts, collected) = (MemoryStore::new(), Facts::new().failing(faults), CollectedReports::default());
        let summaries = Summaries::new(facts).when(when).timeout(Duration::from_secs(20)).on_summary(collected.hook());
        let engine = Engine::with_options(store.clone(), options(summaries));
        turn(&engine, "fact-nemo").await;
        let (mut present, mut summarized) = (0, 0);
        for number in 1..500 {
            let (context, report) = turn(&engine, &format!("question {number}")).await;
            let tokens = report.tokens.unwrap();
            assert!(tokens.prompt.total() <= tokens.limit, "turn {number}");
            present += usize::from(mentions(&context, "fact-nemo"));
            engine.drain(Duration::from_secs(100)).await.unwrap();
            // If the last report is a summary, the next context contains it.
            if collected.all().len() > summarized && collected.all().last().unwrap().is_summarized() {
                let (context, _) = turn(&engine, "and now?").await;
                assert!(mentions(&context, "fact-nemo"), "turn {number}");
            }
            summarized = collected.all().len();
            tokio::time::advance(Duration::from_secs(30)).await;
        }
        assert!(log_len(&store).await >= 500);
        assert!(present > 250, "{present} of 499");
        let collected = collected.all();
        let rejected = collected.iter().filter(|report| matches!(report.outcome, SummaryOutcome::Rejected(_))).count();
        assert!(rejected > 10 && collected.len() - rejected > 10, "{rejected} of {}", collected.len());
    }
}

/// A summary that fails a check is not accepted, and the reason is reported.
#[tokio::test(start_paused = true)]
async fn the_reason_of_a_refusal_is_reported() {
    for (fault, kind) in [
        (Fault::Error, "failed"),
        (Fault::Hang, "timed_out"),
        (Fault::Empty, "empty"),
        (Fault::Longer, "too_long"),
        (Fault::CutOff, "cut_off"),
    ] {
        let facts = Facts::new().failing(move |_| fault);
        let summaries = Summaries::new(facts.clone()).when(SummarizeWhen::BeforeCall);
        let engine = Engine::with_options(MemoryStore::new(), options(summaries));
        let mut reports = Vec::new();
        for number in 0..12 {
            reports.push(turn(&engine, &format!("question {number}")).await.1);
        }
        let report = reports.iter().find_map(|report| report.summary.clone()).expect("a summary was tried");
        let SummaryOutcome::Rejected(error) = &report.outcome else { unreachable!("{report:?}") };
        assert_eq!(error.kind(), kind);
        assert!(report.waited_for && report.cost.calls > 0 || matches!(**error, SummaryError::TimedOut(_)));
        // The shorter summary is cut off as well.
        assert_eq!(facts.calls(), if fault == Fault::CutOff { 2 } else { 1 }, "{fault:?}");
        assert!(reports.iter().any(|report| report.tokens.unwrap().compacted), "the window is trimmed without it");
    }
}

/// After failures, a summarizer is not called for a while, which gets longer each time.
#[tokio::test(start_paused = true)]
async fn a_failing_summarizer_is_not_called_in_every_turn() {
    let facts = Facts::new().failing(|_| Fault::Error);
    let summaries = Summaries::new(facts.clone());
    let engine = Engine::with_options(MemoryStore::new(), options(summaries));
    for number in 0..200 {
        turn(&engine, &format!("question {number}")).await;
        engine.drain(Duration::from_secs(10)).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!((4..10).contains(&facts.calls()), "{}", facts.calls());
}
