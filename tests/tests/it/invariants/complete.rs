//! Invariant 7: complete streams are stored.

use async_openai::types::chat::ChatCompletionStreamOptions;
use futures_util::StreamExt as _;
use proptest::prelude::*;
use tests::{
    BOTH_KINDS, CallKind, Chat, Storage, TypedRequest, check, exchanges, log, over_every_store, prompts,
    read_to_finish, request,
};
use tower_chat_history::{
    HistoryOptions, InConversation, Message, Policies,
    policy::{OnConflict, OnInterruption, QueueLimits},
    store::Usage,
};
use tower_chat_history_test::{Choice, Reply};

over_every_store! {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    invariant_7_a_complete_stream_is_stored_whatever_its_reader_does,
    invariant_7_a_stream_is_complete_when_every_choice_has_ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Drop,
    Keep,
    ReadOn,
}

fn with_usage() -> TypedRequest {
    let options = ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None };
    TypedRequest { stream_options: Some(options), ..request([Message::user("u0")]) }
}

async fn invariant_7_a_complete_stream_is_stored_whatever_its_reader_does(storage: Storage) {
    let then = prop::sample::select(vec![Then::Drop, Then::Keep, Then::ReadOn]);
    let on_interruption =
        prop::sample::select(vec![OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach]);
    let on_conflict = prop::sample::select(vec![
        OnConflict::Rebase,
        OnConflict::Reject,
        OnConflict::Serialize(QueueLimits::default()),
    ]);
    let cases = (then, on_interruption, on_conflict, "\\PC{0,20}", 1..5_usize, any::<bool>());
    check(
        64,
        cases,
        async |(then, on_interruption, on_conflict, text, chunk_chars, calls): (_, _, _, String, _, _)| {
            let options = HistoryOptions::new()
                .policies(Policies::new().on_interruption(on_interruption).on_conflict(on_conflict));
            let reply = Reply::text(text.clone()).chunk_chars(chunk_chars).usage(Usage::new(7, 3));
            let reply = if calls { reply.with_calls([("x", "f", "{\"a\":1}"), ("y", "g", "")]) } else { reply };
            for next in BOTH_KINDS {
                let replies = [reply.clone(), Reply::text("a1")];
                let (chat, id) = (Chat::with_options(&storage, replies, options.clone()), storage.conversation());
                let mut stream = chat.stream(InConversation::new(id.clone(), with_usage())).await.unwrap();
                read_to_finish(&mut stream).await;
                let mut kept = None;
                match then {
                    Then::Drop => drop(stream),
                    Then::Keep => kept = Some(stream),
                    Then::ReadOn => {
                        let rest: Vec<_> = stream.by_ref().collect().await;
                        assert_eq!(rest.len(), 1, "the usage");
                        kept = Some(stream);
                    }
                }
                // The next call sees the exchange at once.
                let input = if calls {
                    vec![Message::tool("x", "r"), Message::tool("y", "r")]
                } else {
                    vec![Message::user("u1")]
                };
                chat.call(next, InConversation::new(id.clone(), request(input))).await.unwrap();
                let sent = &prompts(&chat.llm)[1];
                assert_eq!(sent[0], "user: u0");
                if calls {
                    assert!(sent[1].starts_with("assistant calls x,y"), "{sent:?}");
                } else if !text.is_empty() {
                    assert_eq!(sent[1], format!("assistant: {text}"));
                }
                drop(kept);
                let stored = exchanges(&storage.store, &id).await;
                assert_eq!(stored.len(), 2, "each once");
                assert!(!stored[0].exchange.incomplete);
                assert_eq!(stored[0].exchange.messages[1].text(), text);
                let usage = (then == Then::ReadOn).then(|| Usage::new(7, 3));
                assert_eq!(stored[0].exchange.usage, usage, "usage comes after the last finish reason");
            }
        },
    );
}

async fn invariant_7_a_stream_is_complete_when_every_choice_has_ended(storage: Storage) {
    let two = || Reply::choices([Choice::text("a"), Choice::text("a longer one")]).chunk_chars(2);
    for all in [false, true] {
        let (chat, id) = (Chat::new(&storage, [two(), Reply::text("b")]), storage.conversation());
        let asked = TypedRequest { n: Some(2), ..request([Message::user("u0")]) };
        let mut stream = chat.stream(InConversation::new(id.clone(), asked)).await.unwrap();
        read_to_finish(&mut stream).await;
        if all {
            // The second choice ends later.
            read_to_finish(&mut stream).await;
        }
        drop(stream);
        chat.ask(CallKind::Stream, &id, "u1").await.unwrap();
        let expected: &[&str] = if all { &["user: u0", "assistant: a"] } else { &[] };
        assert_eq!(log(&storage.store, &id).await, [expected, &["user: u1", "assistant: b"]].concat());
    }
}
