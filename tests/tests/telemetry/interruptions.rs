//! Replies that are interrupted, and callers that leave.

use serde_json::{Value, json};
use tests::{BOTH_KINDS, Chat, Storage, log, over_every_store, read_to_finish};
use tower_chat_history::{HistoryOptions, Policies, policy::OnInterruption};
use tower_chat_history_test::{ApiFailure, Op, Reply};

use crate::{
    chats::{ask, call_with_usage, drain, read},
    trace::{Trace, traced},
};
use tests::CallKind;

over_every_store! {
    #[tokio::test(start_paused = true)]
    the_provider_interrupts_the_reply,
    the_caller_leaves_a_stream,
    the_caller_leaves_a_stream_whose_text_is_kept,
    the_caller_leaves_a_stream_that_is_read_to_its_end,
    the_caller_leaves_before_the_model_answers,
    the_caller_leaves_during_the_save,
    the_caller_leaves_after_the_last_item,
}

const TURN: [&str; 5] = ["chat_history", "  load", "  trim", "  chat mock", "  save"];
/// A turn without anything to store.
const UNSTORED: [&str; 4] = ["chat_history", "  load", "  trim", "  chat mock"];

fn pieces() -> Reply {
    Reply::text("a reply of many pieces").chunk_chars(2)
}

async fn the_provider_interrupts_the_reply(storage: Storage) {
    let failure = || ApiFailure::new(500, "out of order");
    for (reply, kind) in [
        (pieces().error_after(3, failure()), "stream"),
        (pieces().abort_after(3), "stream"),
        (pieces().end_after(3), "incomplete_stream"),
    ] {
        let (chat, id) = (Chat::new(&storage, [reply]), storage.conversation());
        let (_, trace) = traced(ask(&chat, CallKind::Stream, &id, "u")).await;
        let (turn, call) = (format!("chat_history !{kind}"), format!("  chat mock !{kind}"));
        assert_eq!(trace.tree(), [&turn, "  load", "  trim", &call]);
        trace.one("chat mock").assert_attributes([
            ("chat_history.call.outcome", json!("interrupted")),
            ("gen_ai.request.stream", json!(true)),
            ("gen_ai.response.finish_reasons", Value::Null),
        ]);
        trace.turn().assert_attributes([
            ("chat_history.outcome", json!("interrupted")),
            ("chat_history.streamed", json!(true)),
        ]);
        assert!(log(&storage.store, &id).await.is_empty());
    }
}

/// Reads three items of a stream, then drops it. Returns the trace after everything has ended.
async fn left_stream(storage: &Storage, policy: OnInterruption) -> Trace {
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(policy));
    let (chat, id) = (Chat::with_options(storage, [pieces()], options), storage.conversation());
    let (_, trace) = traced(async {
        read(&chat, call_with_usage(&id, "u"), 3).await;
        drain(&chat).await;
    })
    .await;
    trace
}

async fn the_caller_leaves_a_stream(storage: Storage) {
    let trace = left_stream(&storage, OnInterruption::Discard).await;
    assert_eq!(trace.tree(), UNSTORED, "leaving is not a failure");
    trace.one("chat mock").assert_attributes([("chat_history.call.outcome", json!("cancelled"))]);
    assert!(trace.one("chat mock")["gen_ai.response.time_to_first_chunk"].is_f64());
    trace.turn().assert_attributes([("chat_history.outcome", json!("interrupted"))]);
    assert!(trace.one("chat mock").end <= trace.turn().end);
}

async fn the_caller_leaves_a_stream_whose_text_is_kept(storage: Storage) {
    let trace = left_stream(&storage, OnInterruption::KeepText).await;
    assert_eq!(trace.tree(), TURN);
    trace.one("chat mock").assert_attributes([("chat_history.call.outcome", json!("cancelled"))]);
    trace.turn().assert_attributes([("chat_history.outcome", json!("stored_incomplete"))]);
    assert!(trace.one("chat mock").end <= trace.one("save").start);
}

async fn the_caller_leaves_a_stream_that_is_read_to_its_end(storage: Storage) {
    let trace = left_stream(&storage, OnInterruption::Detach).await;
    assert_eq!(trace.tree(), TURN);
    trace.assert_sequential();
    let call = trace.one("chat mock");
    call.assert_attributes([
        ("chat_history.call.outcome", json!("complete")),
        ("gen_ai.response.finish_reasons", json!(["stop"])),
    ]);
    trace.turn().assert_attributes([("chat_history.outcome", json!("stored"))]);
}

async fn the_caller_leaves_before_the_model_answers(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [pieces()]), storage.conversation());
        let (_, trace) = traced(async {
            let _held = chat.hold_reply();
            tokio::select! {
                biased;
                _ = chat.ask(kind, &id, "u") => panic!("the answer is held"),
                () = chat.reached(1) => {}
            }
        })
        .await;
        assert_eq!(trace.tree(), UNSTORED);
        trace.one("chat mock").assert_attributes([("chat_history.call.outcome", json!("cancelled"))]);
        trace.turn().assert_attributes([("chat_history.outcome", json!("abandoned"))]);
    }
}

async fn the_caller_leaves_during_the_save(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        let (_, trace) = traced(async {
            let held = storage.store.hold(Op::Append);
            tokio::select! {
                biased;
                _ = chat.ask(kind, &id, "u") => panic!("the save is held"),
                () = held.reached(1) => {}
            }
            held.release();
            drain(&chat).await;
        })
        .await;
        assert_eq!(trace.tree(), TURN, "it is stored nevertheless, with its span within the turn");
        trace.assert_sequential();
        trace.turn().assert_attributes([("chat_history.outcome", json!("stored"))]);
        assert_eq!(log(&storage.store, &id).await, ["user: u", "assistant: a"]);
    }
}

async fn the_caller_leaves_after_the_last_item(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [pieces()]), storage.conversation());
    let (_, trace) = traced(async {
        let mut stream = chat.stream(call_with_usage(&id, "u")).await.unwrap();
        read_to_finish(&mut stream).await;
        drop(stream);
        drain(&chat).await;
    })
    .await;
    assert_eq!(trace.tree(), TURN);
    assert!(!trace.one("save").is_error && trace.one("save").parent == trace.turn().id);
    trace.turn().assert_attributes([("chat_history.outcome", json!("stored")), ("chat_history.streamed", json!(true))]);
    let call = trace.one("chat mock");
    // The rest of the stream, with the usage, is never read.
    call.assert_attributes([
        ("chat_history.call.outcome", json!("complete")),
        ("gen_ai.response.finish_reasons", json!(["stop"])),
    ]);
    assert!(call.end <= trace.one("save").end);
}
