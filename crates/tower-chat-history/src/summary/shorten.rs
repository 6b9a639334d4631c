//! Shortening texts and messages by leaving out their middle.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use tower_chat_history_context::tokens::{TokenCounter, tokens_of};
use tower_chat_history_core::{ChatCompletions, Message, MessageError, Role, ToolCall};

use super::said::{self, Said};

/// If the limit of a text is smaller than this, in characters, the end of the text is left out instead of its middle:
/// the note about the gap would take most of the limit.
const MIN_CHARS_FOR_NOTE: usize = 80;

/// The number of attempts to shorten a message. Each attempt is at least a tenth shorter than the previous one.
const ATTEMPTS: usize = 24;

/// Shortens a text to at most `max_chars` characters by leaving out its middle: the beginning of a text shows
/// its topic, and the end its result.
pub(super) fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    // No text has more characters than bytes.
    if text.len() <= max_chars {
        return Cow::Borrowed(text);
    }
    let chars = text.chars().count();
    if chars <= max_chars {
        return Cow::Borrowed(text);
    }
    if max_chars < MIN_CHARS_FOR_NOTE {
        return Cow::Borrowed(&text[..byte_at(text, max_chars)]);
    }
    let note = |left_out: usize| format!(" [… {left_out} characters left out …] ");
    let kept = max_chars.saturating_sub(note(chars).chars().count());
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let [head, tail] = [&text[..byte_at(text, head)], &text[byte_at(text, chars - tail)..]];
    Cow::Owned([head, &note(chars - kept), tail].concat())
}

/// Returns the byte position of the character with that index.
fn byte_at(text: &str, char: usize) -> usize {
    text.char_indices().nth(char).map_or(text.len(), |(byte, _)| byte)
}

/// Shortens a message to at most `room` tokens. Its text and the arguments of its calls are shortened. All other
/// parts (pictures, unknown fields) are left out. If the result is still too large, returns a note in place of the
/// message. If `room` is less than about 20 tokens, the note may exceed it.
///
/// A message of another dialect than chat completions becomes a message of its dialect with one text, in which calls
/// and results stand in brackets.
///
/// Returns an error if the dialect cannot read the message that it writes.
pub(super) fn shorten_message(
    message: &Message,
    room: u32,
    counter: &dyn TokenCounter,
) -> Result<Message, MessageError> {
    let other = message.dialect().filter(|dialect| dialect.name() != ChatCompletions::NAME);
    let (name, text) = match other {
        Some(_) => (None, said::in_brackets(message)),
        None => {
            let said = Said::of(message);
            (said.name, said.joined())
        }
    };
    let with = |max_chars: usize| match other {
        Some(dialect) => Message::compose(dialect, speaker(message), shorten(&text, max_chars)),
        None => with_short_texts(message, name, &text, max_chars),
    };
    // Most tokens have up to four characters. With longer tokens, some of the room stays unused.
    let mut max_chars = usize::try_from(room).unwrap_or(usize::MAX).saturating_mul(4);
    for _ in 0..ATTEMPTS {
        let shorter = with(max_chars)?;
        let tokens = counter.count_message(&shorter);
        if tokens <= room {
            return Ok(shorter);
        }
        let scaled = max_chars as f64 * f64::from(room) / f64::from(tokens) * 0.9;
        max_chars = scaled as usize;
    }
    let note = format!("[a message of {} tokens, left out]", tokens_of(counter, message));
    match other {
        Some(dialect) => Message::compose(dialect, speaker(message), note),
        None => Message::from_serialize(&json!({"role": message.role().as_str(), "content": note})),
    }
}

/// Returns the role in which a message can be composed.
fn speaker(message: &Message) -> &Role {
    match message.role() {
        role @ (Role::Assistant | Role::System) => role,
        _ => &Role::User,
    }
}

/// Returns a message of chat completions with the known fields, in which no text is longer than `max_chars`
/// characters.
fn with_short_texts(
    message: &Message,
    name: Option<&str>,
    text: &str,
    max_chars: usize,
) -> Result<Message, MessageError> {
    let mut fields = Map::new();
    fields.insert("role".to_owned(), message.role().as_str().into());
    fields.insert("content".to_owned(), shorten(text, max_chars).into());
    if let Some(name) = name {
        fields.insert("name".to_owned(), shorten(name, max_chars).into());
    }
    if let Some(id) = message.tool_call_id() {
        fields.insert("tool_call_id".to_owned(), id.into());
    }
    if !message.tool_calls().is_empty() {
        let calls = message.tool_calls().iter().map(|call| shorten_call(call, max_chars)).collect();
        fields.insert("tool_calls".to_owned(), calls);
    }
    Message::from_serialize(&fields)
}

fn shorten_call(call: &ToolCall, max_chars: usize) -> Value {
    let (name, arguments) = (shorten(call.name(), max_chars), shorten(call.arguments(), max_chars));
    if call.is_custom() {
        json!({"id": call.id(), "type": "custom", "custom": {"name": name, "input": arguments}})
    } else {
        json!({"id": call.id(), "type": "function", "function": {"name": name, "arguments": arguments}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_chat_history_context::tokens::ByteEstimate;

    const COUNTER: ByteEstimate = ByteEstimate::new();

    #[test]
    fn a_text_is_cut_in_its_middle_by_characters() {
        let text = "ä".repeat(300);
        assert_eq!(shorten(&text, 300), text);
        let shorter = shorten(&text, 100);
        assert!(shorter.starts_with("ää") && shorter.ends_with("ää") && shorter.chars().count() <= 100, "{shorter}");
        let left_out = 300 - shorter.matches('ä').count();
        assert!(shorter.contains(&format!(" [… {left_out} characters left out …] ")), "{shorter}");
        assert_eq!((&*shorten(&text, 3), &*shorten(&text, 0)), ("äää", ""));
    }

    #[test]
    fn arguments_and_results_are_shortened() {
        let long = "word ".repeat(10_000);
        let call =
            |id: &str| serde_json::json!({"id": id, "type": "function", "function": {"name": "f", "arguments": long}});
        let custom = serde_json::json!({"id": "c", "type": "custom", "custom": {"name": "g", "input": long}});
        let calls = serde_json::json!({"role": "assistant", "tool_calls": [call("a"), call("b"), custom], "x": long});
        let calls = Message::try_from(calls).unwrap();
        let shorter = shorten_message(&calls, 200, &COUNTER).unwrap();
        assert!(COUNTER.count_message(&shorter) <= 200);
        let names: Vec<_> =
            shorter.tool_calls().iter().map(|call| (call.id(), call.name(), call.is_custom())).collect();
        assert_eq!(names, [("a", "f", false), ("b", "f", false), ("c", "g", true)]);
        assert!(shorter.tool_calls().iter().all(|call| call.arguments().starts_with("word ")));

        let result = shorten_message(&Message::tool("a", &long), 50, &COUNTER).unwrap();
        assert!(result.is_tool_result() && result.tool_call_id() == Some("a") && COUNTER.count_message(&result) <= 50);

        let picture = r#"{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{}}]}"#;
        let picture = shorten_message(&Message::from_json(picture).unwrap(), 100, &COUNTER).unwrap();
        assert_eq!(picture.text(), "see\n[image_url]");
    }

    #[test]
    fn a_message_that_cannot_be_shortened_becomes_a_note() {
        let call = |id: usize| serde_json::json!({"id": id.to_string(), "function": {"name": "f", "arguments": ""}});
        let calls: Vec<_> = (0..1_000).map(call).collect();
        let calls = Message::try_from(serde_json::json!({"role": "assistant", "tool_calls": calls})).unwrap();
        let tokens = COUNTER.count_message(&calls);
        let note = shorten_message(&calls, 100, &COUNTER).unwrap();
        assert_eq!(note.text(), format!("[a message of {tokens} tokens, left out]"));
        assert!(COUNTER.count_message(&note) < 20);
    }
}
