//! Conversations go on after replies and results that strict readers refuse.

use std::sync::Arc;

use serde_json::Value;
use tower_chat_history::{
    Engine, MemoryStore, Message, Reply, Role, TurnInput,
    dialect::{AnthropicMessages, ChatCompletions, Dialect, OpenAiResponses},
    engine::ToolResults,
};
use tower_chat_history_test::{ChatProvider, messages::MessagesProvider, responses::ResponsesProvider};

use crate::support::id;

/// Stores a reply, and returns the messages of the next prompt.
async fn prompt_after(dialect: &'static dyn Dialect, reply: &str, results: &[&str]) -> String {
    let engine = Engine::new(Arc::new(MemoryStore::new()));
    let ask = |text| TurnInput::new(id(), [Message::compose(dialect, &Role::User, text).unwrap()]).dialect(dialect);
    let turn = engine.begin(ask("q")).await.unwrap();
    turn.commit(Reply::of(vec![Message::in_dialect(dialect, reply).unwrap()])).await.unwrap();
    for result in results {
        let result = Message::in_dialect(dialect, *result).unwrap();
        engine.store_results(ToolResults::new(id(), [result])).await.unwrap();
    }

    let next = engine.begin(ask("next")).await.unwrap();
    let messages: Vec<&str> = next.context().iter().map(Message::json).collect();
    format!("[{}]", messages.join(","))
}

/// Asserts that the provider of the dialect accepts the next prompt.
async fn assert_goes_on(dialect: &'static dyn Dialect, reply: &str, results: &[&str]) {
    let prompt = prompt_after(dialect, reply, results).await;
    assert!(serde_json::from_str::<Value>(&prompt).is_ok(), "{prompt}");
    match dialect.name() {
        ChatCompletions::NAME => {
            let body = format!(r#"{{"model":"m","messages":{prompt}}}"#);
            assert_eq!(ChatProvider::OpenAi.check(&body), Ok(()), "{prompt}");
        }
        AnthropicMessages::NAME => {
            let body = format!(r#"{{"model":"claude-opus-5-5","max_tokens":9,"messages":{prompt}}}"#);
            assert_eq!(MessagesProvider::new("p").check(&body), Ok(()), "{prompt}");
        }
        _ => {
            let body = format!(r#"{{"model":"gpt-5.5","store":false,"input":{prompt}}}"#);
            assert_eq!(ResponsesProvider::new("p").check(&body), Ok(()), "{prompt}");
        }
    }
}

#[tokio::test]
async fn after_a_lone_surrogate() {
    assert_goes_on(&ChatCompletions, r#"{"role":"assistant","content":"ab\ud83d"}"#, &[]).await;
    let reply = r#"{"role":"assistant","content":[{"type":"text","text":"ab\ud83d"}]}"#;
    assert_goes_on(&AnthropicMessages, reply, &[]).await;
    let reply = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ab\ud83d"}]}"#;
    assert_goes_on(&OpenAiResponses, reply, &[]).await;

    let call = r#"{"id":"a\ude00","type":"function","function":{"name":"f","arguments":"{}"}}"#;
    let reply = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
    assert_goes_on(&ChatCompletions, &reply, &[]).await;
    let result = r#"{"role":"tool","tool_call_id":"a\ude00","content":"cut \uD83D"}"#;
    assert_goes_on(&ChatCompletions, &reply, &[result]).await;
}

#[tokio::test]
async fn after_a_content_that_is_none() {
    for content in ["5", "[null]", r#"{"a":1}"#] {
        let reply = format!(r#"{{"role":"assistant","content":{content}}}"#);
        let prompt = prompt_after(&ChatCompletions, &reply, &[]).await;
        let expected = r#"[{"role":"user","content":"q"},{"role":"assistant","content":"[no reply]"},{"role":"user","content":"next"}]"#;
        assert_eq!(prompt, expected);
    }
}

#[tokio::test]
async fn after_blocks_without_a_required_field() {
    for block in [r#"{"text":"x"}"#, r#"{"type":"text"}"#, "null"] {
        assert_goes_on(&AnthropicMessages, &format!(r#"{{"role":"assistant","content":[{block}]}}"#), &[]).await;
    }
}

#[tokio::test]
async fn after_items_without_a_required_field() {
    for reply in [
        r#"{"type":"function_call","call_id":"a","arguments":"{}"}"#,
        r#"{"type":"message","id":"msg_1","role":"assistant","status":"completed"}"#,
        r#"{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":null}"#,
    ] {
        assert_goes_on(&OpenAiResponses, reply, &[]).await;
    }
}
