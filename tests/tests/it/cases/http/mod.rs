//! Chat completions over HTTP, through the typed integration and through the layer over HTTP requests: effects that
//! only a network has, and others that must be the same over it.

mod talk;

use std::time::Duration;

use async_openai::error::OpenAIError;
use tests::{BOTH_KINDS, CallKind, NO_REPLY, Storage, exchanges, log, over_every_store, short};
use tower_chat_history::{
    Message, TurnReport,
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_test::{ApiFailure, Choice, Reply};

use self::talk::{Integration, Talk};

over_every_store! {
    #[tokio::test]
    a_message_of_1_mb,
    a_repeated_attempt_is_stored_once,
    an_error_event_within_the_stream,
    a_stream_that_is_cut_or_aborted,
    an_unknown_finish_reason,
    several_choices,
    a_refusal_and_a_filtered_reply,
    no_choices_and_an_empty_reply,
    parallel_calls_are_streamed_and_continued,
}

fn is_interrupted(report: &TurnReport) -> bool {
    matches!(report.outcome, TurnOutcome::NotStored(NotStored::Interrupted))
}

/// The other integrations are tested over the memory store only, because such messages take long.
async fn a_message_of_1_mb(storage: Storage) {
    send_1_mb(Integration::Typed, &storage).await;
}

#[tokio::test]
async fn a_message_of_1_mb_through_every_integration() {
    let storage = Storage::memory().await.unwrap();
    for integration in Integration::ALL {
        send_1_mb(integration, &storage).await;
    }
}

/// Asks and answers with a large message, and then sends it again.
async fn send_1_mb(integration: Integration, storage: &Storage) {
    let large = "ä\u{1f41f}\"\\\u{0}".repeat(1_000_000 / 9);
    assert!(large.len() >= 999_000);
    let reply = || Reply::text(large.clone()).chunk_chars(100_000);
    let talk = Talk::start(integration, storage, [reply(), reply().wire_bytes(65_537)]).await;
    assert!(talk.ask(CallKind::Unary, &large).await.text == large);
    let streamed = talk.ask(CallKind::Stream, "u").await;
    assert!(streamed.text == large && matches!(streamed.report.outcome, TurnOutcome::Stored { .. }));
    let received = talk.received();
    assert!(received == [format!("user: {large}"), format!("assistant: {large}"), "user: u".into()]);
    assert_eq!(log(&storage.store, &talk.id).await.len(), 4);
}

async fn a_repeated_attempt_is_stored_once(storage: Storage) {
    let busy = || Reply::error(ApiFailure::rate_limited(Duration::ZERO));
    for integration in Integration::ALL {
        let replies = [busy(), Reply::text("a0"), busy(), busy(), Reply::text("a1")];
        let talk = Talk::start(integration, &storage, replies).await;
        assert_eq!(talk.ask(CallKind::Unary, "u0").await.text, "a0");
        assert_eq!(talk.ask(CallKind::Stream, "u1").await.text, "a1");
        let requests = talk.server.requests();
        assert_eq!(requests.len(), 5);
        assert_eq!(requests[0].body(), requests[1].body(), "each attempt is the same request");
        assert_eq!(requests[2].body(), requests[4].body());
        let turns = ["user: u0", "assistant: a0", "user: u1", "assistant: a1"];
        assert_eq!(log(&storage.store, &talk.id).await, turns);
    }
}

async fn an_error_event_within_the_stream(storage: Storage) {
    let failure = || ApiFailure::new(503, "overloaded");
    let reply = || Reply::text("abc").chunk_chars(1);
    for integration in Integration::ALL {
        let replies = [reply().error_after(3, failure()), reply().passing_error_after(3, failure())];
        let talk = Talk::start(integration, &storage, replies).await;
        for expected in ["ab", "abc"] {
            let received = talk.ask(CallKind::Stream, "u").await;
            assert_eq!((received.text.as_str(), received.error_at), (expected, Some(3)), "{integration:?}");
            assert!(is_interrupted(&received.report));
        }
        assert!(log(&storage.store, &talk.id).await.is_empty());
    }
}

async fn a_stream_that_is_cut_or_aborted(storage: Storage) {
    let reply = || Reply::text("abc").chunk_chars(1);
    for integration in Integration::ALL {
        let replies = [reply().end_after(3), reply().abort_after(3), Reply::text("a")];
        let talk = Talk::start(integration, &storage, replies).await;
        let cut = talk.ask(CallKind::Stream, "u").await;
        assert!(cut.text == "ab" && cut.error_at.is_none(), "a clean cut looks like an end");
        assert!(is_interrupted(&cut.report));
        let aborted = talk.ask(CallKind::Stream, "u").await;
        assert!(aborted.text == "ab" && aborted.error_at == Some(3), "{integration:?} {:?}", aborted.error_at);
        assert!(is_interrupted(&aborted.report));
        assert!(log(&storage.store, &talk.id).await.is_empty());
        talk.ask(CallKind::Unary, "u").await;
        assert_eq!(talk.received(), ["user: u"]);
    }
}

/// async-openai's types know some reasons only. The layer over HTTP requests needs no types.
async fn an_unknown_finish_reason(storage: Storage) {
    let odd = || Reply::text("a").finish("end_turn");
    for integration in Integration::ALL {
        let talk = Talk::start(integration, &storage, [odd(), odd()]).await;
        let unary = talk.call(CallKind::Unary, &[Message::user("u")], 1).await;
        let streamed = talk.ask(CallKind::Stream, "u").await;
        let stored = exchanges(&storage.store, &talk.id).await;
        let reasons: Vec<_> = stored.iter().map(|recorded| recorded.exchange.finish_reason.as_deref()).collect();
        match integration {
            Integration::Typed => {
                let error = unary.err().unwrap();
                assert!(matches!(error.downcast_ref(), Some(OpenAIError::JSONDeserialize(..))));
                assert!(streamed.error_at.is_some() && is_interrupted(&streamed.report));
                assert_eq!(reasons, [None; 0]);
            }
            Integration::Http => {
                assert!(unary.is_ok() && streamed.error_at.is_none());
                assert_eq!(reasons, [Some("end_turn"); 2]);
            }
        }
    }
}

async fn several_choices(storage: Storage) {
    let two = || Reply::choices([Choice::text("heads"), Choice::text("tails, and longer").finish("length")]);
    for integration in Integration::ALL {
        let talk = Talk::start(integration, &storage, [two(), two()]).await;
        for kind in BOTH_KINDS {
            assert_eq!(talk.call(kind, &[Message::user("u")], 2).await.unwrap().finished, 2);
        }
        let turn = ["user: u", "assistant: heads"];
        assert_eq!(log(&storage.store, &talk.id).await, [turn, turn].concat());
    }
}

async fn a_refusal_and_a_filtered_reply(storage: Storage) {
    let refusal = || Reply::refusal("I can't.");
    let filtered = || Reply::text("a").finish("content_filter");
    for integration in Integration::ALL {
        let talk = Talk::start(integration, &storage, [refusal(), refusal(), filtered(), filtered()]).await;
        for kind in [BOTH_KINDS, BOTH_KINDS].concat() {
            talk.ask(kind, "u").await;
        }
        let stored = exchanges(&storage.store, &talk.id).await;
        let refused = r#""refusal":"I can't.""#;
        assert!(stored[..2].iter().all(|recorded| recorded.exchange.messages[1].json().contains(refused)));
        for recorded in &stored[2..] {
            assert_eq!(recorded.exchange.finish_reason.as_deref(), Some("content_filter"));
        }
        assert!(talk.server.requests()[3].body().contains(refused), "a refusal is sent as a refusal");
    }
}

async fn no_choices_and_an_empty_reply(storage: Storage) {
    for integration in Integration::ALL {
        let replies = [Reply::no_choices(), Reply::no_choices(), Reply::empty(), Reply::empty(), Reply::text("a")];
        let talk = Talk::start(integration, &storage, replies).await;
        assert_eq!(talk.ask(CallKind::Unary, "u").await.finished, 0);
        assert!(is_interrupted(&talk.ask(CallKind::Stream, "u").await.report));
        assert!(log(&storage.store, &talk.id).await.is_empty());
        for (kind, text) in [(CallKind::Unary, "u0"), (CallKind::Stream, "u1"), (CallKind::Unary, "u2")] {
            talk.ask(kind, text).await;
        }
        assert_eq!(talk.received(), ["user: u0", NO_REPLY, "user: u1", NO_REPLY, "user: u2"]);
        let replies = ["user: u0", "assistant: ", "user: u1", "assistant: ", "user: u2", "assistant: a"];
        assert_eq!(log(&storage.store, &talk.id).await, replies);
    }
}

async fn parallel_calls_are_streamed_and_continued(storage: Storage) {
    for integration in Integration::ALL {
        let calls = [("x", "weather", r#"{"city":"Oslo"}"#), ("y", "time", "not JSON at all")];
        let calls = Reply::calls(calls).chunk_chars(3).wire_bytes(7);
        let talk = Talk::start(integration, &storage, [calls, Reply::text("a")]).await;
        talk.ask(CallKind::Stream, "u").await;
        let results = [Message::tool("y", "ry"), Message::tool("x", "rx")];
        let received = talk.call(CallKind::Stream, &results, 1).await.unwrap();
        assert!(matches!(received.report.outcome, TurnOutcome::Stored { moved: false, .. }));
        assert_eq!(talk.received(), ["user: u", "assistant calls x,y: ", "tool y: ry", "tool x: rx"]);
        let sent = &talk.server.prompts()[1][1];
        let arguments: Vec<_> = sent.tool_calls().iter().map(|call| (call.name(), call.arguments())).collect();
        assert_eq!(arguments, [("weather", r#"{"city":"Oslo"}"#), ("time", r#"{"INVALID_JSON":"not JSON at all"}"#)]);
        let continued = exchanges(&storage.store, &talk.id).await[1].exchange.continues;
        assert_eq!(continued.map(tower_chat_history::store::Seq::get), Some(0));
    }
}
