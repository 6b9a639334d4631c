//! Gemini: signatures of calls.

use serde_json::{Value, json};
use tower_chat_history_test::{ChatProvider::Gemini, RefusalReason, Reply};

use super::{Chat, check, error, fold, foreign, result, user};

fn replies() -> [Reply; 4] {
    [
        Reply::calls([("a", "look", "{\"at\":1}"), ("b", "look", "{\"at\":2}")]).thinking("both"),
        Reply::calls([("c", "look", "{}")]),
        Reply::text("There."),
        Reply::text("Bye."),
    ]
}

/// Returns a conversation with two open steps in the current turn.
async fn conversation() -> Chat {
    let mut chat = Chat::start(Gemini, replies()).await;
    chat.messages.push(json!({ "role": "system", "content": "Be brief." }));
    chat.say(user("Where?")).await;
    chat.messages.push(result("a"));
    chat.say(result("b")).await;
    chat.messages.push(result("c"));
    chat
}

fn call(messages: &mut [Value], position: usize, call: usize) -> &mut Value {
    &mut messages[position]["tool_calls"][call]
}

fn refused(message: &str) -> (u16, Value) {
    (400, json!([{ "error": { "code": 400, "message": message, "status": "INVALID_ARGUMENT" } }]))
}

fn missing(name: &str, content: usize) -> (u16, Value) {
    refused(&format!(
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
         correctly, and missing thought_signature may lead to degraded model performance. Additional data, function \
         call `default_api:{name}` , position {content}. Please refer to \
         https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
    ))
}

#[tokio::test]
async fn the_first_call_of_each_step_is_signed() {
    let mut chat = conversation().await;
    let signature = |call: &Value| call["extra_content"]["google"]["thought_signature"].is_string();
    let signed: Vec<bool> =
        [(2, 0), (2, 1), (5, 0)].map(|(at, index)| signature(call(&mut chat.messages, at, index))).into();
    assert_eq!(signed, [true, false, true]);
    assert_eq!(chat.send(&chat.messages).await.unwrap()["content"], "There.");
}

#[tokio::test]
async fn calls_of_the_current_turn_without_signature_are_refused() {
    let chat = conversation().await;
    // The system message has no position in Gemini's format, and the results of one step are one content.
    for (position, content) in [(2, 2), (5, 4)] {
        let mut changed = chat.messages.clone();
        call(&mut changed, position, 0).as_object_mut().unwrap().remove("extra_content");
        assert_eq!(chat.send(&changed).await, Err(missing("look", content)));
        assert_eq!(check(Gemini, &changed), Err(RefusalReason::MissingSignature { position }));
        changed.extend([json!({ "role": "assistant", "content": "There." }), user("And now?")]);
        assert_eq!(check(Gemini, &changed), Ok(()), "in an earlier turn, it may be missing");
        assert!(chat.send(&changed).await.is_ok());
    }
}

#[tokio::test]
async fn changed_signatures_are_refused() {
    let mut chat = conversation().await;
    call(&mut chat.messages, 5, 0)["extra_content"]["google"]["thought_signature"] = "x".into();
    assert_eq!(chat.send(&chat.messages).await, Err(refused("Corrupted thought signature.")));
    assert_eq!(check(Gemini, &chat.messages), Err(RefusalReason::InvalidSignature { position: 5, call: 0 }));
}

#[tokio::test]
async fn moved_signatures_are_refused() {
    let mut chat = conversation().await;
    let of_first = call(&mut chat.messages, 2, 0)["extra_content"].take();
    let of_second_step = call(&mut chat.messages, 5, 0)["extra_content"].clone();
    let mut to_parallel = chat.messages.clone();
    call(&mut to_parallel, 2, 1)["extra_content"] = of_first.clone();
    assert_eq!(chat.send(&to_parallel).await, Err(missing("look", 2)));
    let mut swapped = chat.messages.clone();
    call(&mut swapped, 2, 0)["extra_content"] = of_second_step;
    call(&mut swapped, 5, 0)["extra_content"] = of_first.clone();
    assert_eq!(check(Gemini, &swapped), Err(RefusalReason::InvalidSignature { position: 2, call: 0 }));
    let mut copied = chat.messages.clone();
    call(&mut copied, 2, 0)["extra_content"] = of_first.clone();
    call(&mut copied, 2, 1)["extra_content"] = of_first;
    assert_eq!(check(Gemini, &copied), Err(RefusalReason::InvalidSignature { position: 2, call: 1 }));
}

#[tokio::test]
async fn calls_of_other_models_need_a_placeholder() {
    let chat = Chat::start(Gemini, [Reply::text("a")]).await;
    let mut messages = vec![user("u"), foreign(&["x"]), result("x")];
    assert_eq!(chat.send(&messages).await, Err(missing("look", 2)));
    let placeholder = json!({ "google": { "thought_signature": "skip_thought_signature_validator" } });
    call(&mut messages, 1, 0)["extra_content"] = placeholder;
    assert!(chat.send(&messages).await.is_ok());
}

#[test]
fn results_are_as_many_as_calls() {
    let wording = "Please ensure that the number of function response parts is equal to the number of function call \
                   parts of the function call turn.";
    assert_eq!(error(Gemini, &[user("u"), foreign(&["x", "y"]), result("x")]), refused(wording));
    let wording = "Please ensure that function response turn comes immediately after a function call turn.";
    assert_eq!(error(Gemini, &[user("u"), result("x")]), refused(wording));
}

#[tokio::test]
async fn streams_have_whole_calls_without_index_and_end_with_stop() {
    let chat = Chat::start(Gemini, replies()).await;
    let events = chat.stream(&[user("Where?")]).await;
    let calls: Vec<&Value> = events.iter().filter_map(|event| event["delta"]["tool_calls"].get(0)).collect();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.get("index").is_none() && call["id"].is_string()));
    assert_eq!(calls[1]["function"]["arguments"], "{\"at\":2}");
    assert_eq!(events.last().unwrap()["finish_reason"], "stop");
    let messages = [user("Where?"), fold::message(&events), result("a"), result("b")];
    assert_eq!(check(Gemini, &messages), Ok(()));
    assert_eq!(chat.send(&messages).await.unwrap()["tool_calls"][0]["id"], "c");
}
