//! Lists trimmed, filtered and merged by hand, and LangChain's estimate of tokens: what LangChain's own tests ask for, by the
//! names of their subjects, and what they do not ask for.

#![allow(clippy::unwrap_used)] // A test may.

#[path = "trim/counts.rs"]
mod counts;
#[path = "trim/estimate.rs"]
mod estimate;
#[path = "trim/filter.rs"]
mod filter;
#[path = "trim/langchain.rs"]
mod langchain;
#[path = "trim/lists.rs"]
mod lists;
#[path = "trim/merge.rs"]
mod merge;
#[path = "trim/pairs.rs"]
mod pairs;
#[path = "trim/partial.rs"]
mod partial;
#[path = "trim/properties.rs"]
mod properties;
#[path = "trim/reference.rs"]
mod reference;

use serde_json::{Value, json};
use tower_chat_history::{
    Message,
    store::Content,
    tokens::{CountMessages, PerList, PerMessage},
    trim::Trim,
};

fn message(fields: Value) -> Message {
    Message::try_from(fields).unwrap()
}

/// Calls of the tool `f`, with these ids.
fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    message(json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()}))
}

fn json_of(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.json().to_owned()).collect()
}

/// What comes of a list, which must come out of this as it went in.
fn unmutated<T>(messages: &[Message], act: impl FnOnce(&[Message]) -> T) -> T {
    let before = json_of(messages);
    let result = act(messages);
    assert_eq!(json_of(messages), before, "the list itself is never changed");
    result
}

/// Trimmed as LangChain does it.
fn as_langchain<S: Clone>(messages: &[Message], trim: &Trim<S>, counter: &dyn CountMessages) -> Vec<Message> {
    unmutated(messages, |messages| trim.clone().keep_tool_pairs(false).apply(messages, counter))
}

/// Trimmed as LangChain does it, and by default: without tools there is no difference.
fn both_ways<S: Clone>(messages: &[Message], trim: &Trim<S>, counter: &dyn CountMessages) -> Vec<Message> {
    let kept = as_langchain(messages, trim, counter);
    assert_eq!(unmutated(messages, |messages| trim.apply(messages, counter)), kept);
    kept
}

/// 10 tokens for a text; for parts 6, and 4 for each of them.
fn dummy_count(message: &Message) -> u32 {
    match message.content() {
        Content::Parts(parts) => 6 + 4 * u32::try_from(parts.len()).unwrap(),
        _ => 10,
    }
}

/// [`both_ways`], by [`dummy_count`], message by message and for the whole list.
fn by_dummy_count<S: Clone>(messages: &[Message], trim: &Trim<S>) -> Vec<Message> {
    let kept = both_ways(messages, trim, &PerMessage::new(dummy_count));
    let whole = |messages: &[Message]| messages.iter().map(|message| u64::from(dummy_count(message))).sum();
    assert_eq!(both_ways(messages, trim, &PerList::new(whole)), kept);
    kept
}
