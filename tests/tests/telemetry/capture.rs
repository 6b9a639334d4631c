//! Content is exported if an option asks for that, in the JSON of the semantic conventions.

use serde_json::{Value, json};
use tests::{BOTH_KINDS, CallKind, Chat, Storage, over_every_store};
use tower_chat_history::{
    HistoryOptions, InConversation,
    telemetry::{CaptureContent, Telemetry},
};
use tower_chat_history_test::Reply;

use crate::{
    seen::{Attributes, ReceivedSpan},
    trace::{Trace, traced},
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    content_is_on_the_span,
    content_is_in_events,
    content_is_both,
    content_of_a_summary_is_in_its_own_call,
}

const INPUT: &str = "gen_ai.input.messages";
const OUTPUT: &str = "gen_ai.output.messages";
const TOOLS: &str = "gen_ai.tool.definitions";
const DETAILS: &str = "gen_ai.client.inference.operation.details";

/// A turn with a tool call, its result and the reply.
async fn two_calls(storage: &Storage, kind: CallKind, capture: CaptureContent) -> Trace {
    let options = HistoryOptions::new().telemetry(Telemetry::new().content(capture));
    let replies = [Reply::calls([("x", "weather", r#"{"city":"Oslo"}"#)]), Reply::text("It snows.")];
    let (chat, id) = (Chat::with_options(storage, replies, options), storage.conversation());
    let call_with = |input: Value| {
        let tools = json!([{"type": "function", "function": {"name": "weather", "description": "the weather"}}]);
        let request =
            json!({"model": "mock", "messages": [{"role": "system", "content": "Be brief."}, input], "tools": tools});
        InConversation::new(id.clone(), serde_json::from_value(request).unwrap())
    };
    let (_, trace) = traced(async {
        chat.call(kind, call_with(json!({"role": "user", "content": "Oslo?"}))).await.unwrap();
        chat.call(kind, call_with(json!({"role": "tool", "tool_call_id": "x", "content": "snow"}))).await.unwrap();
    })
    .await;
    trace
}

/// Returns the JSON in an attribute.
fn json_in(attributes: &Attributes, name: &str) -> Value {
    serde_json::from_str(attributes[name].as_str().unwrap()).unwrap()
}

/// The input of the second call.
fn sent() -> Value {
    let call = json!({"type": "tool_call", "id": "x", "name": "weather", "arguments": {"city": "Oslo"}});
    json!([
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Oslo?"}]},
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "x", "response": "snow"}]},
    ])
}

fn answered() -> Value {
    json!([{"role": "assistant", "parts": [{"type": "text", "content": "It snows."}], "finish_reason": "stop"}])
}

fn check_span(call: &ReceivedSpan) {
    assert_eq!(json_in(&call.attributes, INPUT), sent());
    assert_eq!(json_in(&call.attributes, OUTPUT), answered());
    assert_eq!(json_in(&call.attributes, TOOLS)[0]["function"]["name"], "weather");
}

fn check_events(call: &ReceivedSpan) {
    let [sent_event, answered_event] = &call.events[..] else { panic!("two events: {call:#?}") };
    assert_eq!([&*sent_event.name, &answered_event.name], [DETAILS; 2]);
    assert_eq!(json_in(&sent_event.attributes, INPUT), sent());
    assert_eq!(json_in(&sent_event.attributes, TOOLS)[0]["function"]["name"], "weather");
    assert_eq!(json_in(&answered_event.attributes, OUTPUT), answered());
    for event in [sent_event, answered_event] {
        assert_eq!(event.attributes["gen_ai.operation.name"], "chat");
    }
}

/// Checks that only model calls have content.
fn check_others(trace: &Trace) {
    for span in trace.spans.iter().filter(|span| span.name != "chat mock") {
        assert!(![INPUT, OUTPUT, TOOLS].into_iter().any(|name| span.has(name)));
        assert!(span.events.iter().all(|event| event.name != DETAILS));
    }
}

async fn content_is_on_the_span(storage: Storage) {
    for kind in BOTH_KINDS {
        let trace = two_calls(&storage, kind, CaptureContent::SpanOnly).await;
        let [first, second] = trace.all("chat mock")[..] else { panic!("two calls") };
        let output = &json_in(&first.attributes, OUTPUT)[0];
        assert_eq!(
            (&output["parts"][0]["type"], &output["finish_reason"]),
            (&json!("tool_call"), &json!("tool_calls"))
        );
        check_span(second);
        assert!(second.events.is_empty());
        check_others(&trace);
    }
}

async fn content_is_in_events(storage: Storage) {
    for kind in BOTH_KINDS {
        let trace = two_calls(&storage, kind, CaptureContent::EventOnly).await;
        let call = trace.all("chat mock")[1];
        check_events(call);
        assert!(![INPUT, OUTPUT, TOOLS].into_iter().any(|name| call.has(name)));
        check_others(&trace);
    }
}

async fn content_is_both(storage: Storage) {
    let trace = two_calls(&storage, CallKind::Stream, CaptureContent::SpanAndEvent).await;
    check_span(trace.all("chat mock")[1]);
    check_events(trace.all("chat mock")[1]);
}

async fn content_of_a_summary_is_in_its_own_call(storage: Storage) {
    use tower_chat_history::summary::{Summaries, SummarizeWhen};
    use tower_chat_history_test::MockLlm;

    let small = MockLlm::rules(|_| Reply::text("What was said before."));
    let summaries = Summaries::new(tower_chat_history_openai::summarizer(small.unary(), "small"));
    let options = HistoryOptions::new()
        .summaries(summaries.when(SummarizeWhen::BeforeEveryCall))
        .telemetry(Telemetry::new().content(CaptureContent::SpanOnly));
    let (chat, id) = (Chat::with_options(&storage, ["a0", "a1"].map(Reply::text), options), storage.conversation());
    let question = "word ".repeat(200);
    let (_, trace) = traced(async {
        chat.ask(CallKind::Unary, &id, &question).await.unwrap();
        chat.ask(CallKind::Unary, &id, "u1").await.unwrap();
    })
    .await;
    let call = trace.one("chat small");
    let input = json_in(&call.attributes, INPUT);
    assert_eq!(input[0]["parts"][0]["content"], question, "the summary is made of the question");
    assert_eq!(json_in(&call.attributes, OUTPUT)[0]["parts"][0]["content"], "What was said before.");
    let input = call_input(trace.all("chat mock")[1]);
    assert!(input.contains("What was said before.") && !input.contains(&question));
}

fn call_input(call: &ReceivedSpan) -> String {
    json_in(&call.attributes, INPUT).to_string()
}
