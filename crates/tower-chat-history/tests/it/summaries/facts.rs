//! Facts stay in the context.

use std::time::Duration;

use tower_chat_history::{
    Engine, MemoryStore,
    summary::{Summaries, SummarizeWhen},
};

use super::support::{CollectedReports, Facts, log_len, mentions, options, turn};

/// In 500 turns, the context contains a fact of the first turn after every compaction.
#[tokio::test(start_paused = true)]
async fn a_fact_of_the_first_turn_survives_five_hundred_turns() {
    for when in [SummarizeWhen::AfterReply { percent: 90 }, SummarizeWhen::BeforeCall] {
        let (store, facts, collected) = (MemoryStore::new(), Facts::new(), CollectedReports::default());
        let summaries = Summaries::new(facts.clone()).when(when).on_summary(collected.hook());
        let engine = Engine::with_options(store.clone(), options(summaries));
        turn(&engine, "fact-nemo").await;
        for number in 1..500 {
            let (context, report) = turn(&engine, &format!("question {number}")).await;
            assert!(mentions(&context, "fact-nemo"), "turn {number}, {when:?}");
            let tokens = report.tokens.unwrap();
            assert!(tokens.prompt.total() <= tokens.limit, "turn {number}");
            engine.drain(Duration::from_secs(10)).await.unwrap();
        }
        assert_eq!(log_len(&store).await, 500);
        let collected = collected.all();
        assert!(collected.len() > 50, "{}", collected.len());
        // Coverage is contiguous: each summary begins where the previous one ends.
        assert!(collected.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert!(collected.iter().all(|report| report.is_summarized() && report.cost.calls > 0));
    }
}
