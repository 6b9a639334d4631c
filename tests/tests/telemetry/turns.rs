//! A turn as a whole: its spans, their order, and their attributes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tests::{BOTH_KINDS, CallKind, Chat, Storage, log, over_every_store, request};
use tower_chat_history::{ContextBudget, HistoryOptions, InConversation, Message, TurnInput, telemetry::Telemetry};
use tower_chat_history_test::{ApiFailure, Op, Reply};

use crate::{
    chats::{ask, call_with_usage, database, drain},
    trace::traced,
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_unary_turn,
    a_streamed_turn,
    a_streams_call_ends_with_its_last_chunk,
    a_failed_call,
    without_a_span_of_the_call,
    without_spans,
    comparisons_with_the_turn_before,
    options_of_the_request,
    a_turn_of_the_engine_alone,
}

const TURN: [&str; 5] = ["chat_history", "  load", "  trim", "  chat mock", "  save"];

fn two() -> [Reply; 2] {
    ["a0", "a1"].map(Reply::text)
}

async fn a_unary_turn(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, two()), storage.conversation());
    let (_, trace) = traced(async {
        assert!(ask(&chat, CallKind::Unary, &id, "u0").await && ask(&chat, CallKind::Unary, &id, "u1").await);
    })
    .await;
    assert_eq!(trace.tree(), [TURN, TURN].concat());
    trace.assert_sequential();

    let [first, second] = trace.all("chat_history")[..] else { panic!("two turns") };
    let turn = [("chat_history.outcome", json!("stored")), ("chat_history.profile", json!("default"))];
    first.assert_attributes(turn.clone());
    first.assert_attributes([("chat_history.history", json!("absent")), ("chat_history.version", json!(1))]);
    second.assert_attributes(turn);
    second.assert_attributes([("chat_history.history", json!("loaded")), ("chat_history.version", json!(2))]);
    for turn in [first, second] {
        turn.assert_attributes([("chat_history.streamed", json!(false)), ("gen_ai.conversation.id", Value::Null)]);
        turn.assert_attributes([
            ("chat_history.fallback", Value::Null),
            ("chat_history.superseded_calls", Value::Null),
        ]);
    }

    let database = database(&storage);
    for (at, load) in trace.all("load").into_iter().enumerate() {
        load.assert_attributes([
            ("gen_ai.operation.name", json!("search_memory")),
            ("db.system.name", database.clone()),
            ("gen_ai.memory.record.count", json!(at)),
            ("chat_history.messages.loaded", json!(2 * at)),
            ("chat_history.version", if at == 0 { Value::Null } else { json!(at) }),
            ("chat_history.load.truncated", if at == 0 { Value::Null } else { json!(false) }),
        ]);
    }
    for (at, save) in trace.all("save").into_iter().enumerate() {
        save.assert_attributes([
            ("gen_ai.operation.name", json!("create_memory")),
            ("db.system.name", database.clone()),
            ("gen_ai.memory.record.count", json!(1)),
            ("chat_history.messages.saved", json!(2)),
            ("chat_history.save.attempts", json!(1)),
            ("chat_history.version", json!(at + 1)),
            ("chat_history.save.conflict", Value::Null),
            ("chat_history.save.compaction", Value::Null),
        ]);
    }
    let call = trace.all("chat mock")[1];
    call.assert_attributes([
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.provider.name", json!("openai")),
        ("gen_ai.request.model", json!("mock")),
        ("gen_ai.response.model", json!("mock")),
        ("gen_ai.response.finish_reasons", json!(["stop"])),
        ("gen_ai.usage.output_tokens", json!(1)),
        ("chat_history.call.outcome", json!("complete")),
        ("gen_ai.request.stream", Value::Null),
        ("gen_ai.response.time_to_first_chunk", Value::Null),
        ("gen_ai.conversation.compacted", Value::Null),
        ("gen_ai.input.messages", Value::Null),
        ("gen_ai.output.messages", Value::Null),
    ]);
    assert!(call["gen_ai.usage.input_tokens"].as_i64() > Some(0));
}

async fn a_streamed_turn(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [Reply::text("a reply in pieces")]), storage.conversation());
    let (_, trace) = traced(ask(&chat, CallKind::Stream, &id, "u")).await;
    assert_eq!(trace.tree(), TURN);
    trace.assert_sequential();
    trace.turn().assert_attributes([("chat_history.streamed", json!(true)), ("chat_history.outcome", json!("stored"))]);
    let call = trace.one("chat mock");
    call.assert_attributes([
        ("gen_ai.request.stream", json!(true)),
        ("chat_history.call.outcome", json!("complete")),
        ("gen_ai.response.finish_reasons", json!(["stop"])),
        ("gen_ai.response.model", json!("mock")),
    ]);
    let seconds = call["gen_ai.response.time_to_first_chunk"].as_f64().unwrap();
    let all = Duration::from_nanos(call.end - call.start).as_secs_f64();
    assert!((0.0..all).contains(&seconds), "{seconds} of {all}");
    assert!(call["gen_ai.usage.input_tokens"].is_i64(), "the usage comes last, and is recorded");
}

async fn a_streams_call_ends_with_its_last_chunk(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [Reply::text("a reply in pieces")]), storage.conversation());
    let ((begun, last), trace) = traced(async {
        let mut stream = chat.stream(call_with_usage(&id, "u")).await.unwrap();
        let (begun, mut last) = (now(), now());
        while let Some(item) = stream.next().await {
            item.unwrap();
            last = now();
        }
        drain(&chat).await;
        (begun, last)
    })
    .await;
    let call = trace.one("chat mock");
    assert!(call.start < begun && last <= call.end);
    assert!(call.end <= trace.one("save").start);
}

/// Returns the time in nanoseconds, as in spans.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

async fn a_failed_call(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = [Reply::error(ApiFailure::new(500, "out of order"))];
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        let (answered, trace) = traced(ask(&chat, kind, &id, "u")).await;
        assert!(!answered);
        let call = trace.one("chat mock");
        assert_eq!(trace.tree(), ["chat_history !500", "  load", "  trim", "  chat mock !500"]);
        call.assert_attributes([
            ("chat_history.call.outcome", json!("failed")),
            ("gen_ai.usage.input_tokens", Value::Null),
        ]);
        trace
            .turn()
            .assert_attributes([("chat_history.outcome", json!("call_failed")), ("chat_history.version", Value::Null)]);
        assert!(storage.store.calls(Op::Append) == 0 && log(&storage.store, &id).await.is_empty());
    }
}

async fn without_a_span_of_the_call(storage: Storage) {
    for kind in BOTH_KINDS {
        let options = HistoryOptions::new().telemetry(Telemetry::new().chat_span(false));
        let (chat, id) = (Chat::with_options(&storage, two(), options), storage.conversation());
        let (answered, trace) = traced(ask(&chat, kind, &id, "u")).await;
        assert!(answered);
        assert_eq!(trace.tree(), ["chat_history", "  load", "  trim", "  save"]);
    }
}

async fn without_spans(storage: Storage) {
    for kind in BOTH_KINDS {
        let options = HistoryOptions::new().telemetry(Telemetry::new().spans(false));
        let (chat, id) = (Chat::with_options(&storage, two(), options), storage.conversation());
        let (answered, trace) = traced(ask(&chat, kind, &id, "u")).await;
        assert!(answered);
        assert!(trace.spans.is_empty());
        assert_eq!(log(&storage.store, &id).await, ["user: u", "assistant: a0"]);
    }
}

async fn comparisons_with_the_turn_before(storage: Storage) {
    for kind in BOTH_KINDS {
        let options = HistoryOptions::new().context(ContextBudget::tokens(4_000).reply_reserve(100));
        let (chat, id) = (Chat::with_options(&storage, two(), options), storage.conversation());
        let (_, trace) = traced(async {
            assert!(ask(&chat, kind, &id, "u0").await && ask(&chat, kind, &id, "u1").await);
        })
        .await;
        let [first, second] = trace.all("chat_history")[..] else { panic!("two turns") };
        assert!(!first.has("chat_history.prompt.cached_prefix_ratio"), "there was no prompt before");
        let share = second["chat_history.prompt.cached_prefix_ratio"].as_f64().unwrap();
        assert!(0.0 < share && share < 1.0, "{share}");
        for (turn, at) in [(first, 0), (second, 1)] {
            let counted = trace.all("trim")[at]["chat_history.tokens.after"].as_f64().unwrap();
            let reported = trace.all("chat mock")[at]["gen_ai.usage.input_tokens"].as_f64().unwrap();
            let error = turn["chat_history.estimate.error"].as_f64().unwrap();
            assert!((error - (reported / counted - 1.0)).abs() < 1e-9, "{error}: {counted}, {reported}");
        }
    }
}

async fn options_of_the_request(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, two()), storage.conversation());
    let mut typed_request = request([Message::user("u")]);
    (typed_request.temperature, typed_request.top_p, typed_request.max_completion_tokens, typed_request.n) =
        (Some(0.7), Some(1.0), Some(50), Some(2));
    let (answered, trace) = traced(chat.call(CallKind::Unary, InConversation::new(id, typed_request))).await;
    answered.unwrap();
    trace.one("chat mock").assert_attributes([
        ("gen_ai.request.temperature", json!(0.7)),
        ("gen_ai.request.top_p", json!(1.0)),
        ("gen_ai.request.max_tokens", json!(50)),
        ("gen_ai.request.choice.count", json!(2)),
    ]);
}

/// If the engine is used without the layer, the caller creates the span of the model call.
async fn a_turn_of_the_engine_alone(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, two()), storage.conversation());
    let (_, trace) = traced(async {
        let video = json!({"role": "user", "content": [{"type": "video_url", "video_url": {"url": "v"}}]});
        let video = Message::from_serialize(&video).unwrap();
        let turn = chat.engine().begin(TurnInput::new(id.clone(), [video])).await.unwrap();
        turn.commit(tower_chat_history::Reply::new(Message::assistant("a"))).await.unwrap();
        let mut turn = chat.engine().begin(TurnInput::new(id.clone(), [Message::user("u")])).await.unwrap();
        drop(turn.call_span());
        turn.fail("my_model");
        // The types of async-openai have no videos.
        assert!(ask(&chat, CallKind::Unary, &id, "u").await);
    })
    .await;
    let alone = ["chat_history", "  load", "  trim", "  save"];
    let failed = ["chat_history !my_model", "  load", "  trim", "  chat !my_model"];
    assert_eq!(trace.tree(), [&alone[..], &failed[..], &TURN[..]].concat());
    let downgraded = trace.all("chat_history").into_iter().map(|turn| turn["chat_history.messages.downgraded"].clone());
    assert_eq!(downgraded.collect::<Vec<_>>(), [Value::Null, Value::Null, json!(1)]);
}
