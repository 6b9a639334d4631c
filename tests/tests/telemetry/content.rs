//! No content, id or key is exported, on any path. Each of them has a mark, and the tests search everything
//! that was exported for marks. Options that export some of them show that the search finds them.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use serde_json::{Value, json};
use tests::{CallKind, Storage, TypedCall, over_every_store};
use tower_chat_history::{
    ConversationId, ExchangeId, HistoryStore as _, InConversation,
    telemetry::{CaptureContent, Telemetry, names},
};

use crate::{
    paths::Paths,
    trace::{Trace, traced},
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    nothing_marked_is_exported,
}

/// The marks: of texts by their place, of parts of ids, and of keys.
const MARKS: [&str; 16] = [
    "mark-arguments",
    "mark-call-id",
    "mark-exchange",
    "mark-field",
    "mark-hmac",
    "mark-key",
    "mark-part",
    "mark-provider-error",
    "mark-reasoning",
    "mark-reply",
    "mark-result",
    "mark-schema",
    "mark-summary",
    "mark-system",
    "mark-user",
    "mark-panic",
];

/// Returns the marks that were exported.
pub(crate) fn found(trace: &Trace) -> BTreeSet<&'static str> {
    let all = format!("{trace:?}");
    MARKS.into_iter().filter(|mark| all.contains(mark)).collect()
}

/// Returns a marked conversation that no other call uses.
pub(crate) fn conversation() -> ConversationId {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    ConversationId::new(["mark-part", &NUMBER.fetch_add(1, Relaxed).to_string()]).unwrap()
}

/// Returns a marked exchange.
pub(crate) fn exchange(name: &str) -> ExchangeId {
    ExchangeId::new(format!("mark-exchange-{name}")).unwrap()
}

/// Returns a call with a mark in every field that can have text.
pub(crate) fn marked_call(id: &ConversationId, input: &Value) -> TypedCall {
    let schema = json!({"type": "object", "description": "mark-schema", "properties": {}});
    let request = json!({
        "model": "mock",
        "messages": [{"role": "system", "content": "mark-system", "name": "mark-system"}, input],
        "user": "mark-field", "metadata": {"m": "mark-field"}, "prompt_cache_key": "mark-field", "safety_identifier": "mark-field",
        "tools": [{"type": "function", "function": {"name": "f", "description": "mark-schema", "parameters": schema}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "r", "description": "mark-schema", "schema": schema}},
        "stop": ["mark-field"], "logit_bias": {},
    });
    InConversation::new(id.clone(), serde_json::from_value(request).unwrap())
}

/// Returns a marked question with this many words.
pub(crate) fn question(words: usize) -> Value {
    let text = format!("mark-user {}", "word ".repeat(words));
    json!({"role": "user", "name": "mark-user", "content": [{"type": "text", "text": text}]})
}

async fn on_all_paths(storage: &Storage, telemetry: Telemetry) -> Trace {
    let ((), trace) = traced(async {
        for kind in [CallKind::Unary, CallKind::Stream] {
            Paths::new(storage, kind, &telemetry).all().await;
        }
    })
    .await;
    let events = trace.spans.iter().map(|span| span.events.len()).sum::<usize>();
    let red = trace.spans.iter().filter(|span| span.is_error).count();
    assert!(trace.spans.len() > 100 && red > 30 && events > 20, "{}, {red}, {events}", trace.spans.len());
    for name in ["wait", "load", "trim", "recall", "prepare", "chat mock", "summarize", "chat small", "save"] {
        assert!(trace.all(name).len() > 1, "{name}");
    }
    trace
}

async fn nothing_marked_is_exported(storage: Storage) {
    assert_eq!(found(&on_all_paths(&storage, Telemetry::new()).await), BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn nothing_marked_is_exported_with_hashed_ids() {
    let storage = Storage::memory().await.unwrap();
    let telemetry = Telemetry::new().hashed_conversation_ids("mark-hmac");
    assert_eq!(found(&on_all_paths(&storage, telemetry).await), BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn content_is_exported_by_option() {
    let storage = Storage::memory().await.unwrap();
    let reply = ["arguments", "call-id", "reply", "result", "schema", "summary", "system", "user"];
    let reply: BTreeSet<String> = reply.iter().map(|mark| format!("mark-{mark}")).collect();
    for capture in [CaptureContent::SpanOnly, CaptureContent::EventOnly] {
        let telemetry = Telemetry::new().content(capture);
        let ((), trace) = traced(Paths::new(&storage, CallKind::Stream, &telemetry).a_conversation()).await;
        let found: BTreeSet<String> = found(&trace).into_iter().map(str::to_owned).collect();
        assert_eq!(found, reply, "{capture:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ids_are_exported_by_option() {
    let storage = Storage::memory().await.unwrap();
    let telemetry = Telemetry::new().raw_conversation_ids();
    assert_eq!(found(&on_all_paths(&storage, telemetry).await), BTreeSet::from(["mark-part"]));
}

/// Every declared name is used by some export.
#[tokio::test(start_paused = true)]
async fn every_name_is_used() {
    let storage = Storage::memory().await.unwrap();
    let telemetry = Telemetry::new().raw_conversation_ids().content(CaptureContent::SpanAndEvent);
    let trace = on_all_paths(&storage, telemetry).await;
    let (mut spans, mut events, mut attributes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for span in &trace.spans {
        spans.insert(span.name.split(' ').next().unwrap());
        attributes.extend(span.attributes.keys().map(String::as_str));
        events.extend(span.events.iter().map(|event| &*event.name));
    }
    let unused = |all: &[&'static str], used: &BTreeSet<&str>| -> Vec<&str> {
        all.iter().copied().filter(|name| !used.contains(name)).collect()
    };
    assert!(unused(names::spans::ALL, &spans).is_empty() && unused(names::events::ALL, &events).is_empty());
    // No call of this test is one of the Responses API, whose compactions stand for everything before them.
    let compaction = names::attributes::BEGINS_WITH_COMPACTION;
    let in_process = storage.store.system() == "memory";
    let expected: &[&str] = if in_process { &["db.system.name", compaction] } else { &[compaction] };
    assert_eq!(unused(names::attributes::ALL, &attributes), expected);
}
