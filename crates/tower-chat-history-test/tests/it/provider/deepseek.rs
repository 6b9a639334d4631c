//! DeepSeek: `reasoning_content` of tool calls.

use serde_json::{Value, json};
use tower_chat_history_test::{ChatProvider::DeepSeek, RefusalReason, Reply};

use super::{Chat, check, error, fold, foreign, result, user};

const WORDING: &str = "The `reasoning_content` in the thinking mode must be passed back to the API.";

fn replies() -> [Reply; 4] {
    [
        Reply::calls([("a", "look", "{}")]).thinking("first ").thinking("look"),
        Reply::calls([("b", "look", "{}")]),
        Reply::text("There.").thinking("done"),
        Reply::text("Bye."),
    ]
}

/// Returns a conversation of two rounds and a further question, without its answer.
async fn conversation() -> Chat {
    let mut chat = Chat::start(DeepSeek, replies()).await;
    chat.say(user("Where?")).await;
    chat.say(result("a")).await;
    chat.say(result("b")).await;
    chat.messages.push(user("Thanks."));
    chat
}

#[tokio::test]
async fn replies_have_reasoning_which_can_be_empty() {
    let chat = conversation().await;
    let reasoning: Vec<&Value> = [1, 3, 5].map(|at: usize| &chat.messages[at]["reasoning_content"]).into();
    assert_eq!(reasoning, ["first look", "", "done"]);
    assert_eq!(chat.send(&chat.messages).await.unwrap()["content"], "Bye.");
}

#[tokio::test]
async fn calls_without_reasoning_are_refused_in_all_later_requests() {
    let chat = conversation().await;
    for (position, message) in [(1, "first look"), (3, "")] {
        let mut changed = chat.messages.clone();
        let removed = changed[position].as_object_mut().unwrap().remove("reasoning_content");
        assert_eq!(removed, Some(message.into()));
        let code = "invalid_request_error";
        let error = json!({ "message": WORDING, "type": code, "param": null, "code": code });
        let refused = (400, json!({ "error": error }));
        assert_eq!(chat.send(&changed).await, Err(refused.clone()));
        assert_eq!(super::error(DeepSeek, &changed), refused);
        assert_eq!(check(DeepSeek, &changed), Err(RefusalReason::MissingReasoning { position }));
        changed[position]["reasoning_content"] = Value::Null;
        assert!(chat.send(&changed).await.is_err(), "null is not a text");
        changed[position]["reasoning_content"] = "".into();
        assert_eq!(check(DeepSeek, &changed), Ok(()), "an empty text counts");
    }
}

#[tokio::test]
async fn reasoning_of_replies_without_calls_may_be_left_out() {
    let mut chat = conversation().await;
    chat.messages[5].as_object_mut().unwrap().remove("reasoning_content");
    assert_eq!(check(DeepSeek, &chat.messages), Ok(()));
    assert!(chat.send(&chat.messages).await.is_ok());
}

#[tokio::test]
async fn a_mock_accepts_calls_that_it_did_not_make() {
    let chat = Chat::start(DeepSeek, [Reply::text("a")]).await;
    let messages = [user("u"), foreign(&["x"]), result("x")];
    assert_eq!(check(DeepSeek, &messages), Err(RefusalReason::MissingReasoning { position: 1 }));
    assert!(chat.send(&messages).await.is_ok());
}

#[tokio::test]
async fn without_thinking_nothing_is_added_or_required() {
    let mut chat = Chat::start(DeepSeek, replies()).await;
    chat.fields["thinking"] = json!({ "type": "disabled" });
    let reply = chat.say(user("Where?")).await;
    assert_eq!(reply.get("reasoning_content"), None);
    chat.say(result("a")).await;
    assert_eq!(DeepSeek.check(&chat.body(&chat.messages[..3])), Ok(()));
    // The mock knows that these replies were made without thinking.
    chat.fields["thinking"] = json!({ "type": "enabled" });
    assert_eq!(chat.say(result("b")).await["reasoning_content"], "done");
}

#[tokio::test]
async fn streams_have_the_reasoning_before_the_calls() {
    let chat = Chat::start(DeepSeek, replies().map(|reply| reply.chunk_chars(3))).await;
    let events = chat.stream(&[user("Where?")]).await;
    let pieces: Vec<&Value> = events.iter().filter_map(|event| event["delta"].get("reasoning_content")).collect();
    assert_eq!(pieces, ["fir", "st ", "loo", "k"]);
    let folded = fold::without_call_index(fold::message(&events));
    let messages = [user("Where?"), folded, result("a")];
    let events = chat.stream(&messages).await;
    assert!(events.iter().any(|event| event["delta"]["reasoning_content"] == ""));
    assert_eq!(error(DeepSeek, &[user("u"), foreign(&["x"]), result("x")]).0, 400);
}
