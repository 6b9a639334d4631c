//! Merging successive messages with the same role.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};
use tower_chat_history_core::{Content, Message, Role};

/// Merges successive messages with the same role, as LangChain's `merge_message_runs` does. Some models require user
/// and assistant messages to alternate.
///
/// Two texts are joined with the separator between them, usually `"\n"`. If one of the texts is empty, the separator is
/// left out. If one of the contents is not a text, the merged content is a list, and a text becomes a part of type
/// `text`. The lists of tool calls are concatenated. All other fields are those of the first message. If the names
/// differ, the merged message has no name. Results of tools and functions are never merged.
///
/// ```
/// use tower_chat_history_context::{Message, trim::merge_message_runs};
///
/// let messages = [Message::user("foo"), Message::user("bar"), Message::assistant("baz")];
/// let merged = merge_message_runs(&messages, "\n");
/// let texts: Vec<_> = merged.iter().map(|message| message.text()).collect();
/// assert_eq!(texts, ["foo\nbar", "baz"]);
/// ```
#[must_use]
pub fn merge_message_runs(messages: &[Message], separator: &str) -> Vec<Message> {
    let mut merged: Vec<Message> = Vec::new();
    for message in messages {
        let both = merged.last_mut().filter(|last| can_be_merged(last, message));
        match both.and_then(|last| Some((merge(last, message, separator)?, last))) {
            Some((both, last)) => *last = both,
            None => merged.push(message.clone()),
        }
    }
    merged
}

fn can_be_merged(one: &Message, other: &Message) -> bool {
    one.role() == other.role() && !matches!(one.role(), Role::Tool | Role::Function)
}

fn merge(one: &Message, other: &Message, separator: &str) -> Option<Message> {
    let (first, second) = (one.fields().ok()?, other.fields().ok()?);
    let mut fields: BTreeMap<&str, Box<RawValue>> =
        first.iter().map(|(name, json)| (name.as_str(), (*json).to_owned())).collect();
    fields.insert("content", content(one, other, separator)?);
    if let Some(calls) = calls(first.get("tool_calls").copied(), second.get("tool_calls").copied()) {
        fields.insert("tool_calls", calls);
    }
    if one.name() != other.name() {
        fields.remove("name");
    }
    Message::from_serialize(&fields).ok()
}

fn content(one: &Message, other: &Message, separator: &str) -> Option<Box<RawValue>> {
    if let (Some(one), Some(other)) = (text(one), text(other)) {
        let separator = if one.is_empty() || other.is_empty() { "" } else { separator };
        return serde_json::value::to_raw_value(&[one.as_str(), separator, &other].concat()).ok();
    }
    let parts = [parts(one), parts(other)].concat();
    RawValue::from_string(format!("[{}]", parts.join(","))).ok()
}

/// Returns the text of a message whose content is a text or absent, and `None` for any other content.
fn text(message: &Message) -> Option<String> {
    match message.content() {
        Content::None => Some(String::new()),
        Content::Text(text) => Some(text.into_owned()),
        _ => None,
    }
}

fn parts(message: &Message) -> Vec<String> {
    match message.content() {
        Content::Parts(parts) => parts.into_iter().map(str::to_owned).collect(),
        Content::Text(text) if !text.is_empty() => vec![format!(r#"{{"type":"text","text":{}}}"#, Value::from(&*text))],
        Content::Other(json) => vec![json.to_owned()],
        _ => Vec::new(),
    }
}

fn calls(one: Option<&RawValue>, other: Option<&RawValue>) -> Option<Box<RawValue>> {
    let list = |calls: Option<&RawValue>| serde_json::from_str::<Vec<Box<RawValue>>>(calls?.get()).ok();
    let both: Vec<Box<RawValue>> = [list(one), list(other)].into_iter().flatten().flatten().collect();
    if both.is_empty() { None } else { serde_json::value::to_raw_value(&both).ok() }
}
