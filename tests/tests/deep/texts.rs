//! Texts and values with many levels.

use serde_json::{Value, json};
use tower_chat_history::{ConversationId, Exchange, ExchangeId, HistoryStoreExt as _, MemoryStore, Message};

pub(crate) const LEVELS: usize = 100_000;

/// Returns nested lists, and nested lists and objects in turn.
pub(crate) fn texts() -> [String; 2] {
    [lists(LEVELS), both()]
}

pub(crate) fn both() -> String {
    "[{\"a\":".repeat(LEVELS / 2) + "1" + &"}]".repeat(LEVELS / 2)
}

pub(crate) fn lists(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

/// Returns a nested value. It must be dismantled, because its drop overflows the stack.
pub(crate) fn value(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, level| {
        // Built by hand, because the macro `json!` serializes its argument.
        if level % 2 == 0 {
            Value::Array(vec![inner])
        } else {
            Value::Object([("a".to_owned(), inner)].into_iter().collect())
        }
    })
}

/// Returns the JSON of messages, each with a deep value in another place.
pub(crate) fn message_texts() -> Vec<String> {
    let text = both();
    let escaped = Value::from(text.as_str()).to_string();
    vec![
        format!(r#"{{"role":"user","content":{text}}}"#),
        format!(r#"{{"role":"user","content":{{"a":{text}}}}}"#),
        format!(r#"{{"role":"user","content":{escaped}}}"#),
        format!(r#"{{"role":"user","content":[{{"type":"text","text":"a"}},{{"type":"x","y":{text}}},{text}]}}"#),
        format!(r#"{{"role":"user","content":[{{"type":"image_url","image_url":{text}}}]}}"#),
        format!(r#"{{"role":"user","content":"a","name":{text},"unknown":{text}}}"#),
        format!(r#"{{"role":"assistant","content":null,"refusal":{text},"audio":{text},"function_call":{text}}}"#),
        format!(r#"{{"role":"assistant","content":"a","function_call":{{"name":"f","arguments":{escaped}}}}}"#),
        format!(r#"{{"role":"assistant","content":"a","tool_calls":{text}}}"#),
    ]
}

pub(crate) fn messages() -> Vec<Message> {
    message_texts().into_iter().map(|json| Message::from_json(json).unwrap()).collect()
}

/// Returns calls with deep arguments, as text and as JSON, and their result.
pub(crate) fn tool_round() -> [Message; 2] {
    let text = lists(LEVELS);
    let call = |arguments: &str| {
        format!(r#"{{"id":"x","type":"function","function":{{"name":"f","arguments":{arguments}}},"more":{text}}}"#)
    };
    let calls = [call(&format!("\"{text}\"")), call(&text)].join(",");
    let asks = Message::from_json(format!(r#"{{"role":"assistant","content":null,"tool_calls":[{calls}]}}"#)).unwrap();
    [asks, Message::tool("x", lists(LEVELS))]
}

/// Returns a log with all of the messages above.
pub(crate) fn log() -> Vec<Exchange> {
    let [asks, result] = tool_round();
    let exchange = |messages: Vec<Message>| Exchange::new(ExchangeId::generate(), messages);
    let talk = messages().into_iter().map(|message| exchange(vec![message, Message::assistant("ok")]));
    let last =
        [exchange(vec![Message::user("go"), asks]), exchange(vec![result.clone(), result, Message::assistant("done")])];
    talk.chain(last).collect()
}

/// The conversation of all cases.
pub(crate) fn id() -> ConversationId {
    ConversationId::new(["deep"]).unwrap()
}

/// Returns a store with the [`log`] in that conversation.
pub(crate) async fn deep_store() -> MemoryStore {
    let store = MemoryStore::new();
    store.conversation(&id()).import(log().into_iter().flat_map(|exchange| exchange.messages)).await.unwrap();
    store
}
