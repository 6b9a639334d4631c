//! `trim_messages` and LangChain's estimate of tokens: LangChain's own tests, by their names and numbers, and further
//! tests.

mod counts;
mod estimate;
mod langchain;
mod lists;
mod pairs;
mod partial;
mod properties;
mod reference;

use serde_json::{Value, json};
use tower_chat_history::{
    Message,
    store::Content,
    tokens::{TokenCounter, per_message},
    trim::Trim,
};

fn message(fields: Value) -> Message {
    Message::try_from(fields).unwrap()
}

/// Returns calls of the tool `f` with these ids.
fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    message(json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()}))
}

fn json_of(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.json().to_owned()).collect()
}

/// Returns the result of `act`, and asserts that `act` does not change the list.
fn assert_unchanged<T>(messages: &[Message], act: impl FnOnce(&[Message]) -> T) -> T {
    let before = json_of(messages);
    let result = act(messages);
    assert_eq!(json_of(messages), before, "the list is not changed");
    result
}

/// Trims as LangChain does.
fn as_langchain<S: Clone>(messages: &[Message], trim: &Trim<S>, counter: &dyn TokenCounter) -> Vec<Message> {
    assert_unchanged(messages, |messages| trim.clone().keep_tool_pairs(false).apply(messages, counter))
}

/// Trims as LangChain does, and by default: without tools there is no difference.
fn both_ways<S: Clone>(messages: &[Message], trim: &Trim<S>, counter: &dyn TokenCounter) -> Vec<Message> {
    let kept = as_langchain(messages, trim, counter);
    assert_eq!(assert_unchanged(messages, |messages| trim.apply(messages, counter)), kept);
    kept
}

/// Counts 10 tokens for a text; for parts, 6, and 4 for each of them.
fn dummy_count(message: &Message) -> u32 {
    match message.content() {
        Content::Parts(parts) => 6 + 4 * u32::try_from(parts.len()).unwrap(),
        _ => 10,
    }
}

/// Trims as [`both_ways`] by [`dummy_count`].
fn by_dummy_count<S: Clone>(messages: &[Message], trim: &Trim<S>) -> Vec<Message> {
    both_ways(messages, trim, &per_message(dummy_count))
}
