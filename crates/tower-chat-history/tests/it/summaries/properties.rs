//! Properties of all prompts also hold with summaries.

use std::time::Duration;
use tower_chat_history_conformance::shorthand::cases;

use proptest::prelude::*;
use tower_chat_history::{
    ContextBudget, ContextOptions, Engine, HistoryError, HistoryOptions, HistoryStore as _, HistoryStoreExt as _,
    MemoryStore, Message, Reply, TurnInput,
    budget::Watermarks,
    store::{Cuts, Load, Loaded},
    summary::{Summaries, SummarizeWhen, SummaryFormat},
    tokens::{ByteEstimate, TokenCounter},
};
use tower_chat_history_test::check_chat_rules;

use super::support::{Facts, Fault, id};

#[derive(Clone, Debug)]
struct Turn {
    /// The sizes of the question and of the answer, in words.
    question: usize,
    answer: usize,
    /// For each round, the number of calls and the size of each result.
    rounds: Vec<(usize, usize)>,
    /// The time until the user's next turn.
    pause: u64,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    (0usize..60, 1usize..60, prop::collection::vec((1usize..4, 0usize..60), 0..3), 0u64..8)
        .prop_map(|(question, answer, rounds, pause)| Turn { question, answer, rounds, pause })
}

fn any_when() -> impl Strategy<Value = SummarizeWhen> {
    prop_oneof![
        (50u8..=100).prop_map(|percent| SummarizeWhen::AfterReply { percent }),
        Just(SummarizeWhen::BeforeCall),
        Just(SummarizeWhen::BeforeEveryCall),
    ]
}

fn any_marks() -> impl Strategy<Value = Watermarks> {
    prop_oneof![
        3 => Just(Watermarks::default()),
        1 => (1usize..12).prop_map(Watermarks::keep_recent),
        1 => (1usize..6).prop_map(Watermarks::last_turns),
    ]
}

fn calls(count: usize) -> Message {
    let call = |id| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#);
    let calls: Vec<String> = ["x", "y", "z"].into_iter().take(count).map(call).collect();
    let json = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","));
    Message::from_json(json).unwrap()
}

/// Makes one call. Returns `None` if it cannot fit.
async fn call(engine: &Engine, context: u32, input: Vec<Message>, reply: Message) -> Option<()> {
    let turn = match engine.begin(TurnInput::new(id(), input)).await {
        Ok(turn) => turn,
        Err(HistoryError::DoesNotFit(_)) => return None,
        Err(other) => unreachable!("{other}"),
    };
    check_chat_rules(turn.context()).unwrap();
    let counter = ByteEstimate::new();
    let sent: u32 = turn.context().iter().map(|message| counter.count_message(message)).sum();
    assert!(sent + 3 <= context, "{sent} of {context}");
    let report = turn.commit(Reply::new(reply)).await.unwrap();
    assert!(report.tokens.unwrap().prompt.total() <= u64::from(context));
    Some(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(256)))]

    #[test]
    fn prompts_are_valid_and_fit_and_coverage_only_grows(
        turns in prop::collection::vec(any_turn(), 1..30),
        when in any_when(),
        watermarks in any_marks(),
        context in 150u32..1_500,
        takes in 0u64..6,
        faults in prop::collection::vec(prop::sample::select(vec![
            Fault::None, Fault::None, Fault::None, Fault::Error, Fault::Hang, Fault::Empty, Fault::Longer, Fault::CutOff,
        ]), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::new();
            let facts = Facts::new().taking(Duration::from_secs(takes)).failing(move |call| faults[call % faults.len()]);
            let summaries = Summaries::new(facts).when(when).max_tokens(60).least_room(20).chunk_tokens(200);
            let options = HistoryOptions::new()
                .context(ContextOptions::new().budget(ContextBudget::tokens(context).reply_reserve(0)).watermarks(watermarks).summary_format(SummaryFormat::new("Summary: ", "")))
                .summaries(summaries.timeout(Duration::from_secs(10)));
            let engine = Engine::with_options(store.clone(), options);
            let (mut logged, mut covered) = (0, 0);
            for Turn { question, answer, rounds, pause } in turns {
                let mut input = vec![Message::user("word ".repeat(question))];
                let mut open = true;
                for (count, result) in rounds {
                    if call(&engine, context, input.clone(), calls(count)).await.is_none() {
                        open = false;
                        break;
                    }
                    logged += 1;
                    let results = ["x", "y", "z"].into_iter().take(count);
                    input = results.map(|id| Message::tool(id, "word ".repeat(result))).collect();
                }
                let reply = Message::assistant("word ".repeat(answer));
                logged += usize::from(open && call(&engine, context, input, reply).await.is_some());
                tokio::time::sleep(Duration::from_secs(pause)).await;

                // Invariant 13: coverage and windows only move forward, and the log is complete.
                let Loaded::Window(window) = store.load(&id(), Load::new()).await.unwrap() else { continue };
                if let Some(compaction) = window.compaction {
                    let covers = Cuts::read(&compaction).unwrap().cut.covers_to;
                    assert!(covers.get() >= covered && covers <= compaction.window_start);
                    covered = covers.get();
                }
            }
            engine.drain(Duration::from_secs(100)).await.unwrap();
            assert_eq!(store.conversation(&id()).exchanges().await.unwrap().len(), logged);
        });
    }
}
