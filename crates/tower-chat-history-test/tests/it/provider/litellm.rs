//! LiteLLM: `thinking_blocks`, whole and in fragments.

use serde_json::{Value, json};
use tower_chat_history_test::{ChatProvider::LiteLlm, RefusalReason, Reply};

use super::{Chat, check, fold, user};

fn replies() -> [Reply; 2] {
    let reply = || Reply::text("Hello.").thinking("a greeting").redacted_thinking().thinking("b").chunk_chars(4);
    [reply(), reply()]
}

#[tokio::test]
async fn each_piece_of_thinking_is_a_block_of_anthropic() {
    let chat = Chat::start(LiteLlm, replies()).await;
    let reply = chat.send(&[user("Hi!")]).await.unwrap();
    assert_eq!((&reply["content"], &reply["reasoning_content"]), (&json!("Hello."), &json!("a greetingb")));
    let blocks = reply["thinking_blocks"].as_array().unwrap();
    let kinds: Vec<&Value> = blocks.iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["thinking", "redacted_thinking", "thinking"]);
    assert_eq!(blocks[0]["thinking"], "a greeting");
    assert!(blocks[0]["signature"].is_string() && blocks[1]["data"].is_string());
}

#[tokio::test]
async fn fragments_have_no_index_and_the_last_one_has_only_the_signature() {
    let chat = Chat::start(LiteLlm, replies()).await;
    let whole = chat.send(&[user("Hi!")]).await.unwrap();
    let events = chat.stream(&[user("Hi!")]).await;
    let blocks: Vec<&Value> = events.iter().filter_map(|event| event["delta"]["thinking_blocks"].get(0)).collect();
    assert!(blocks.iter().all(|block| block.get("index").is_none()));
    let seen: Vec<_> = blocks.iter().map(|b| (b["thinking"].as_str(), b["signature"] == "")).collect();
    let first = [(Some("a gr"), true), (Some("eeti"), true), (Some("ng"), true), (Some(""), false)];
    assert_eq!(seen[..4], first);
    assert_eq!(seen[4..], [(None, false), (Some("b"), true), (Some(""), false)]);
    let mut folded = fold::message(&events);
    folded["refusal"] = Value::Null;
    assert_eq!(folded, whole);
    assert_eq!(check(LiteLlm, &[user("Hi!"), folded, user("Bye.")]), Ok(()));
}

#[tokio::test]
async fn fragments_that_are_not_joined_are_refused() {
    let chat = Chat::start(LiteLlm, replies()).await;
    let events = chat.stream(&[user("Hi!")]).await;
    let blocks: Value = events.iter().filter_map(|event| event["delta"]["thinking_blocks"].get(0)).cloned().collect();
    let reply = json!({ "role": "assistant", "content": "Hello.", "thinking_blocks": blocks });
    let refused = RefusalReason::InvalidThinking { position: 1, block: 0 };
    assert_eq!(check(LiteLlm, &[user("Hi!"), reply, user("Bye.")]), Err(refused));
}

#[tokio::test]
async fn redacted_blocks_are_checked_too() {
    let chat = Chat::start(LiteLlm, replies()).await;
    let mut reply = chat.send(&[user("Hi!")]).await.unwrap();
    reply["thinking_blocks"][1]["data"] = "x".into();
    let refused = RefusalReason::InvalidThinking { position: 1, block: 1 };
    assert_eq!(check(LiteLlm, &[user("Hi!"), reply, user("Bye.")]), Err(refused));
}
