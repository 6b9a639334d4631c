//! Facts stay in the context.

use std::time::Duration;

use tower_chat_history::{
    Engine, MemoryStore,
    summary::{Summaries, SummarizeWhen},
};

use super::support::{Facts, Told, log_len, options, says, turn};

/// In 500 turns, the context contains a fact of the first turn after every compaction.
#[tokio::test(start_paused = true)]
async fn a_fact_of_the_first_turn_is_there_after_five_hundred() {
    for when in [SummarizeWhen::AfterReply { percent: 90 }, SummarizeWhen::BeforeCall] {
        let (store, facts, told) = (MemoryStore::new(), Facts::new(), Told::default());
        let summaries = Summaries::new(facts.clone()).when(when).on_summary(told.hook());
        let engine = Engine::with_options(store.clone(), options(summaries));
        turn(&engine, "fact-nemo").await;
        for number in 1..500 {
            let (context, report) = turn(&engine, &format!("question {number}")).await;
            assert!(says(&context, "fact-nemo"), "turn {number}, {when:?}");
            let tokens = report.tokens.unwrap();
            assert!(tokens.prompt.total() <= tokens.limit, "turn {number}");
            engine.drain(Duration::from_secs(10)).await.unwrap();
        }
        assert_eq!(log_len(&store).await, 500);
        let told = told.all();
        assert!(told.len() > 50, "{}", told.len());
        // Coverage is contiguous: each summary begins where the previous one ends.
        assert!(told.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert!(told.iter().all(|report| report.is_summarized() && report.cost.calls > 0));
    }
}
