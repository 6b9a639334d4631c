//! Summaries: with a waiting call, in the background, and failed.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future;
use serde_json::{Value, json};
use tests::{CallKind, Chat, Storage, over_every_store};
use tokio::sync::Semaphore;
use tower_chat_history::{
    BoxError, HistoryOptions,
    summary::{Summaries, SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};
use tower_chat_history_openai::summarizer;
use tower_chat_history_test::{ApiFailure, MockLlm, Replies, Reply};

use crate::{
    chats::{ask, call_with_usage, drain, long, small},
    seen::ReceivedSpan,
    trace::{Trace, traced},
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_summary_with_a_waiting_call,
    a_summary_before_every_call,
    a_summary_in_the_background,
    a_wait_for_the_summary_of_another_turn,
    a_failed_summary,
    model_calls_have_no_span_by_option,
}

/// Enough turns to need a summary.
const TURNS: usize = 12;

fn answers() -> Replies {
    Replies::rules(|_| Reply::text(long("answer")))
}

fn options(summarizer: impl Summarizer, when: SummarizeWhen) -> HistoryOptions {
    small().summaries(Summaries::new(summarizer).when(when).max_tokens(60).chunk_tokens(400))
}

/// Returns a small model with this reply.
fn model(reply: Reply) -> MockLlm {
    MockLlm::rules(move |_| reply.clone())
}

/// Makes turns until the trace of one has a summary.
async fn until_summarized(chat: &Chat, storage: &Storage) -> Trace {
    let id = storage.conversation();
    for _ in 0..TURNS {
        let (answered, trace) = traced(ask(chat, CallKind::Unary, &id, &long("question"))).await;
        assert!(answered);
        if !trace.all("summarize").is_empty() {
            return trace;
        }
    }
    panic!("no summary in {TURNS} turns");
}

/// The spans of a turn that waits for its summary.
const WAITING: [&str; 9] =
    ["chat_history", "  load", "  trim", "  summarize", "    chat small", "  load", "  trim", "  chat mock", "  save"];

async fn a_summary_with_a_waiting_call(storage: Storage) {
    let small = model(Reply::text("What was said before."));
    let options = options(summarizer(small.unary(), "small"), SummarizeWhen::BeforeCall);
    let trace = until_summarized(&Chat::with_options(&storage, answers(), options), &storage).await;
    assert_eq!(trace.tree(), WAITING);
    trace.assert_sequential();

    let (summarize, call) = (trace.one("summarize"), trace.one("chat small"));
    summarize.assert_attributes([
        ("chat_history.summary.outcome", json!("stored")),
        ("chat_history.summary.waited_for", json!(true)),
        ("chat_history.summary.from", json!(0)),
        ("chat_history.summary.calls", json!(1)),
        ("chat_history.summary.input_tokens", call["gen_ai.usage.input_tokens"].clone()),
        ("chat_history.summary.output_tokens", call["gen_ai.usage.output_tokens"].clone()),
    ]);
    let of = |attribute: &str| summarize[attribute].as_i64().unwrap();
    assert_eq!(of("chat_history.summary.messages"), 2 * of("chat_history.summary.to"));
    assert!(0 < of("chat_history.tokens.after") && of("chat_history.tokens.after") < of("chat_history.tokens.before"));
    call.assert_attributes([
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.request.model", json!("small")),
        ("gen_ai.request.max_tokens", json!(60)),
        ("chat_history.call.outcome", json!("complete")),
        ("gen_ai.response.finish_reasons", Value::Null),
    ]);
    assert!(call.start >= summarize.start && call.end <= summarize.end);
    trace.one("chat mock").assert_attributes([("gen_ai.conversation.compacted", json!(true))]);
    let last = trace.all("trim")[1];
    assert!(last["chat_history.tokens.summary"].as_i64() > Some(0), "the summary is in the prompt");
}

async fn a_summary_before_every_call(storage: Storage) {
    let small = model(Reply::text("What was said before."));
    let options = options(summarizer(small.unary(), "small"), SummarizeWhen::BeforeEveryCall);
    let trace = until_summarized(&Chat::with_options(&storage, answers(), options), &storage).await;
    // The summary is stored with the exchange, so nothing is loaded again.
    let tree = WAITING.iter().enumerate().filter(|(at, _)| *at != 5);
    assert_eq!(trace.tree(), tree.map(|(_, line)| *line).collect::<Vec<_>>());
    trace.one("summarize").assert_attributes([("chat_history.summary.outcome", json!("made"))]);
    trace.one("save").assert_attributes([("chat_history.save.compaction", json!("stored"))]);
}

/// A summarizer that waits for a permit.
#[derive(Debug)]
struct HeldSummarizer(Arc<Semaphore>);

#[async_trait]
impl Summarizer for HeldSummarizer {
    fn model(&self) -> Option<&str> {
        Some("small")
    }

    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        self.0.acquire().await?.forget();
        Ok(SummaryResponse::new("What was said before."))
    }
}

/// The second load reads the exchanges to summarize.
const BACKGROUND: [&str; 8] =
    ["chat_history", "  load", "  trim", "  chat mock", "  save", "  load", "  summarize", "    chat small"];

async fn a_summary_in_the_background(storage: Storage) {
    let gate = Arc::new(Semaphore::new(0));
    let options = options(HeldSummarizer(Arc::clone(&gate)), SummarizeWhen::AfterReply { percent: 60 });
    let (chat, id) = (Chat::with_options(&storage, answers(), options), storage.conversation());
    for _ in 0..TURNS {
        let (_, trace) = traced(async {
            chat.call(CallKind::Unary, call_with_usage(&id, &long("question"))).await.unwrap();
            // The turn has ended: let the summary continue.
            gate.add_permits(1);
            drain(&chat).await;
            let _ = gate.forget_permits(1);
        })
        .await;
        if trace.all("summarize").is_empty() {
            continue;
        }
        assert_eq!(trace.tree(), BACKGROUND);
        let summarize = trace.one("summarize");
        assert!(trace.turn().end < summarize.end, "the turn does not wait for it");
        assert!(trace.one("save").end <= trace.turn().end);
        summarize.assert_attributes([
            ("chat_history.summary.outcome", json!("stored")),
            ("chat_history.summary.waited_for", json!(false)),
        ]);
        trace
            .turn()
            .assert_attributes([("chat_history.outcome", json!("stored")), ("chat_history.fallback", Value::Null)]);
        return;
    }
    panic!("no summary in {TURNS} turns");
}

async fn a_wait_for_the_summary_of_another_turn(storage: Storage) {
    let gate = Arc::new(Semaphore::new(0));
    let options = options(HeldSummarizer(Arc::clone(&gate)), SummarizeWhen::AfterReply { percent: 100 });
    let (chat, id) = (Chat::with_options(&storage, answers(), options), storage.conversation());
    let (_, trace) = traced(async {
        for turn in 1..=TURNS {
            let release = async {
                // The paused clock advances only when nothing else can: the call has ended, or waits for the summary.
                tokio::time::sleep(Duration::from_millis(1)).await;
                if chat.llm.requests().len() < turn {
                    gate.add_permits(1);
                }
            };
            let question = chat.call(CallKind::Unary, call_with_usage(&id, &long("question")));
            future::join(question, release).await.0.unwrap();
        }
        gate.add_permits(TURNS);
        drain(&chat).await;
    })
    .await;
    let wait = trace.all("wait")[0];
    wait.assert_attributes([("chat_history.wait.for", json!("summary"))]);
    let overlap = |span: &&ReceivedSpan| span.start < wait.end && wait.start < span.end;
    let [made] = trace.all("summarize").into_iter().filter(overlap).collect::<Vec<_>>()[..] else { panic!("one") };
    assert_ne!(made.parent, wait.parent, "its span is within the turn for which it is made");
    let waiting = trace.spans.iter().find(|span| span.id == wait.parent).unwrap();
    let within: Vec<_> = trace.within(waiting).map(|span| &*span.name).collect();
    assert_eq!(within[..6], ["load", "trim", "wait", "load", "trim", "chat mock"]);
}

async fn a_failed_summary(storage: Storage) {
    let small = model(Reply::error(ApiFailure::new(500, "out of order")));
    let options = options(summarizer(small.unary(), "small"), SummarizeWhen::BeforeCall);
    let trace = until_summarized(&Chat::with_options(&storage, answers(), options), &storage).await;
    let call = trace.one("chat small");
    let kind = call["error.type"].as_str().unwrap();
    let call = format!("    chat small !{kind}");
    let tree = ["chat_history", "  load", "  trim", "  summarize !failed", &call, "  chat mock", "  save"];
    assert_eq!(trace.tree(), tree, "the turn continues without a summary");
    trace.one("summarize").assert_attributes([
        ("chat_history.summary.outcome", json!("rejected")),
        ("chat_history.tokens.after", Value::Null),
    ]);
    trace.turn().assert_attributes([
        ("chat_history.fallback", json!("without_new_summary")),
        ("chat_history.outcome", json!("stored")),
    ]);
}

async fn model_calls_have_no_span_by_option(storage: Storage) {
    let small = model(Reply::text("What was said before."));
    let options = options(summarizer(small.unary(), "small"), SummarizeWhen::BeforeCall)
        .telemetry(tower_chat_history::telemetry::Telemetry::new().chat_span(false));
    let trace = until_summarized(&Chat::with_options(&storage, answers(), options), &storage).await;
    let tree = WAITING.into_iter().filter(|line| !line.contains("chat "));
    assert_eq!(trace.tree(), tree.collect::<Vec<_>>());
    assert!(trace.one("summarize")["chat_history.summary.input_tokens"].as_i64() > Some(0), "its cost is reported");
}
