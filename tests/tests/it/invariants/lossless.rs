//! Invariant 1: the log is lossless.

use proptest::prelude::*;
use tests::{BOTH_KINDS, CallKind, Chat, Storage, check, exchanges, over_every_store, request};
use tower_chat_history::{HistoryStoreExt as _, InConversation, Message};
use tower_chat_history_test::Reply;

over_every_store! {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    invariant_1_the_log_is_lossless_for_imported_messages,
    invariant_1_the_log_is_lossless_for_calls_and_replies,
}

/// Text as people, models and broken clients write it.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,30}",
        any::<String>(),
        Just(String::new()),
        Just("\0\u{1}\u{7f}\u{2028}\u{feff}".into()),
        Just("{\"not\": closed".into()),
        Just("e\u{301} é 👩‍👩‍👧 \\ud83d".into()),
    ]
}

/// A message with details that a log must not change: white space, key order, spellings of numbers and
/// escapes, unknown fields.
fn any_json() -> impl Strategy<Value = String> {
    let quoted = || any_text().prop_map(|text| serde_json::Value::from(text).to_string());
    prop_oneof![
        (quoted(), quoted()).prop_map(|(a, b)| format!(r#"{{ "content" : {a},"x_{{}}":{b},"role":"user" }}"#)),
        (quoted(), quoted()).prop_map(|(a, b)| format!(
            "{{\"role\":\"assistant\",\n\t\"reasoning_content\":{a},\"content\":null,\"tool_calls\":[{{\"id\":\"x\",\
             \"type\":\"function\",\"function\":{{\"name\":\"f\",\"arguments\":{b}}},\"index\":0}}]}}"
        )),
        quoted().prop_map(|a| format!(r#"{{"role":"tool","tool_call_id":"x","content":{a},"is_error":true}}"#)),
        quoted().prop_map(|a| format!(
            r#"{{"role":"user","content":[{{"type":"text","text":{a},"cache_control":{{"type":"ephemeral"}}}},{{"type":"video_url","video_url":{{}}}}]}}"#
        )),
        Just(r#"{"role":"user","content":"\ud83d \u00e9 \/ é","n":[1.0,1e400,0.10,-0,12345678901234567890]}"#.into()),
        Just(r#"{"role":"user","role":"assistant","content":"twice","content":"twice"}"#.into()),
        Just(r#"{"role":"narrator","content":{"odd":true}}"#.into()),
        Just(r#"{"role":"assistant","content":"","tool_calls":[]}"#.into()),
    ]
}

async fn invariant_1_the_log_is_lossless_for_imported_messages(storage: Storage) {
    check(48, prop::collection::vec(any_json(), 1..12), async |json: Vec<String>| {
        let id = storage.conversation();
        let messages: Vec<_> = json.iter().map(|json| Message::from_json(json).unwrap()).collect();
        storage.store.conversation(&id).import(messages).await.unwrap();
        // Messages stay the same after they were sent, and after more messages were added.
        let chat = Chat::new(&storage, [Reply::text("a")]).clone();
        chat.ask(CallKind::Unary, &id, "u").await.unwrap();
        let stored = storage.store.conversation(&id).messages().await.unwrap();
        let stored: Vec<_> = stored[..json.len()].iter().map(Message::json).collect();
        assert_eq!(stored, json);
    });
}

async fn invariant_1_the_log_is_lossless_for_calls_and_replies(storage: Storage) {
    let texts = (any_text(), any_text(), any_text(), any_text());
    check(48, (texts, 1..9_usize), async |((question, arguments, result, answer), chunk_chars): (_, usize)| {
        for kind in BOTH_KINDS {
            let calls = Reply::text(answer.clone()).with_calls([("x", "f", arguments.clone())]);
            let replies = [calls.chunk_chars(chunk_chars), Reply::text(answer.clone()).chunk_chars(chunk_chars)];
            let (chat, id) = (Chat::new(&storage, replies), storage.conversation());

            let mut inputs = Vec::new();
            let mut replies = Vec::new();
            for input in [Message::user(&question), Message::tool("x", &result)] {
                let asked = request([input]);
                // The bytes that async-openai itself would send.
                inputs.push(serde_json::to_string(&asked.messages[0]).unwrap());
                let call = InConversation::new(id.clone(), asked);
                match kind {
                    CallKind::Unary => {
                        let response = chat.unary(call).await.unwrap();
                        replies.push(serde_json::to_string(&response.choices[0].message).unwrap());
                    }
                    CallKind::Stream => drop(chat.call(kind, call).await.unwrap()),
                }
            }

            let stored = exchanges(&storage.store, &id).await;
            for (at, recorded) in stored.iter().enumerate() {
                let [input, reply] = &*recorded.exchange.messages else { panic!("{recorded:?}") };
                assert_eq!(input.json(), inputs[at]);
                assert_eq!(reply.text(), answer);
                if kind == CallKind::Unary {
                    assert_eq!(reply.json(), replies[at]);
                }
            }
            let called = &stored[0].exchange.messages[1].tool_calls()[0];
            assert_eq!((called.id(), called.name(), called.arguments()), ("x", "f", arguments.as_str()));
        }
    });
}
