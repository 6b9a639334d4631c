//! OpenRouter: `reasoning_details`, whole and in fragments.

use serde_json::{Value, json};
use tower_chat_history_test::{ChatProvider::OpenRouter, RefusalReason, Reply};

use super::{Chat, check, fold, user};

fn replies() -> [Reply; 2] {
    let reply = || Reply::text("Hello.").thinking("a greeting").redacted_thinking().thinking("b").chunk_chars(4);
    [reply(), reply()]
}

#[tokio::test]
async fn each_piece_of_thinking_is_an_element() {
    let chat = Chat::start(OpenRouter, replies()).await;
    let reply = chat.send(&[user("Hi!")]).await.unwrap();
    assert_eq!((&reply["content"], &reply["reasoning"]), (&json!("Hello."), &json!("a greetingb")));
    let details = reply["reasoning_details"].as_array().unwrap();
    let kinds: Vec<&Value> = details.iter().map(|detail| &detail["type"]).collect();
    assert_eq!(kinds, ["reasoning.text", "reasoning.encrypted", "reasoning.text"]);
    let (first, second) = (&details[0], &details[1]);
    assert_eq!((&first["text"], &first["format"]), (&json!("a greeting"), &json!("anthropic-claude-v1")));
    assert!(first["signature"].is_string() && second["data"].is_string() && second["text"].is_null());
    assert_eq!(details.iter().map(|detail| detail["index"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
}

#[tokio::test]
async fn fragments_share_an_index_and_the_last_one_has_only_the_signature() {
    let chat = Chat::start(OpenRouter, replies()).await;
    let whole = chat.send(&[user("Hi!")]).await.unwrap();
    let events = chat.stream(&[user("Hi!")]).await;
    let details: Vec<&Value> = events.iter().filter_map(|event| event["delta"]["reasoning_details"].get(0)).collect();
    let seen: Vec<_> =
        details.iter().map(|d| (d["index"].as_u64().unwrap(), d["text"].as_str(), !d["signature"].is_null())).collect();
    let first = [(0, Some("a gr"), false), (0, Some("eeti"), false), (0, Some("ng"), false), (0, None, true)];
    assert_eq!(seen[..4], first);
    assert_eq!(seen[4..], [(1, None, false), (2, Some("b"), false), (2, None, true)]);
    let mut folded = fold::message(&events);
    folded["refusal"] = Value::Null;
    assert_eq!(folded, whole);
    assert_eq!(check(OpenRouter, &[user("Hi!"), folded, user("Bye.")]), Ok(()));
}

#[tokio::test]
async fn fragments_that_are_not_joined_are_refused() {
    let chat = Chat::start(OpenRouter, replies()).await;
    let events = chat.stream(&[user("Hi!")]).await;
    let details: Value =
        events.iter().filter_map(|event| event["delta"]["reasoning_details"].get(0)).cloned().collect();
    let reply = json!({ "role": "assistant", "content": "Hello.", "reasoning_details": details });
    let refused = RefusalReason::InvalidThinking { position: 1, block: 0 };
    assert_eq!(check(OpenRouter, &[user("Hi!"), reply, user("Bye.")]), Err(refused));
}

#[test]
fn summaries_are_not_checked() {
    let detail = json!({ "type": "reasoning.summary", "summary": "s" });
    let reply = json!({ "role": "assistant", "content": "a", "reasoning_details": [detail] });
    assert_eq!(check(OpenRouter, &[user("u"), reply, user("v")]), Ok(()));
}
