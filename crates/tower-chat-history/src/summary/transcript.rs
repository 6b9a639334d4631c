//! Messages as a text that a model reads, and shorter forms of messages that are too large.
//!
//! In a transcript, each message begins with its speaker at the beginning of a line. All further lines of the message
//! are indented, so that no text can look like another speaker's message. Reasoning and sealed parts are left out.

use std::{borrow::Cow, collections::HashMap, fmt::Write as _};

use crate::context::tokens::{TokenCounter, tokens_of};
use serde_json::{Map, Value, json};
use tower_chat_history_core::{CallId, ChatCompletions, Message, MessageError, Part, Role, ToolCall};

/// The largest part of a tool result that is shown, in characters (about 500 tokens). The assistant's reply after the
/// result usually contains its important parts.
pub(super) const RESULT_CHARS: usize = 2_000;

/// The largest part of a name that is shown, in characters.
const NAME_CHARS: usize = 80;

/// The largest part of a call's arguments that is shown, in characters.
pub(super) const ARGUMENTS_CHARS: usize = 1_000;

/// The largest part of data in an unknown form that is shown, in characters.
const DATA_CHARS: usize = 2_000;

/// The label of a result whose call is not known.
const A_TOOL: &str = "a tool";

/// If the limit of a text is smaller than this, in characters, the end of the text is left out instead of its middle:
/// the note about the gap would take most of the limit.
const MIN_CHARS_FOR_NOTE: usize = 80;

/// The number of attempts to shorten a message. Each attempt is at least a tenth shorter than the previous one.
const ATTEMPTS: usize = 24;

/// Returns the messages as text, in order, each as one or more lines. A message of nothing but reasoning has none.
pub(super) fn transcript(messages: &[Message]) -> String {
    let mut out = String::new();
    // The labels of calls by call id. Providers reuse ids: a result belongs to the last call with its id.
    let mut labels: HashMap<&CallId, String> = HashMap::new();
    for message in messages {
        let MessageWords { name, results, own, has_reasoning } = MessageWords::of(message);
        let named = name.map(one_line);
        let has_results = !results.is_empty();

        for (call, words) in results {
            let of = labels.get(call).or(named.as_ref());
            result(&mut out, of.map_or(A_TOOL, String::as_str), words);
        }

        match message.role() {
            Role::Tool if has_results => {}
            Role::Tool => result(&mut out, named.as_deref().unwrap_or(A_TOOL), own),
            Role::Function => result(&mut out, named.as_deref().unwrap_or_default(), own),
            _ => statement(&mut out, message, named, own, has_results || has_reasoning, &mut labels),
        }
    }
    out
}

/// Adds the message's words and its calls. If it has neither, the words get an entry unless something else is
/// `known` of the message.
fn statement<'a>(
    out: &mut String,
    message: &'a Message,
    name: Option<String>,
    words: Words,
    known: bool,
    labels: &mut HashMap<&'a CallId, String>,
) {
    let role = one_line(message.role().as_str());
    let speaker = match name {
        Some(name) => format!("{role} \"{name}\""),
        None => role,
    };

    let body = words.joined();
    let calls = message.tool_calls();
    if !body.is_empty() || calls.is_empty() && !known {
        entry(out, &speaker, &body);
    }
    for (number, call) in (1..).zip(calls) {
        let label = label(call, number, calls.len());
        entry(out, &format!("{speaker} calls {label}"), &shorten(call.arguments(), ARGUMENTS_CHARS));
        labels.insert(call.call_id(), label);
    }
}

fn result(out: &mut String, of: &str, words: Words) {
    entry(out, &format!("result of {of}"), &shorten(&words.joined(), RESULT_CHARS));
}

/// Returns the label of a call, which its result repeats. Parallel calls are numbered.
fn label(call: &ToolCall, number: usize, of: usize) -> String {
    let name = one_line(call.name());
    if of == 1 { name } else { format!("{name} #{number}") }
}

fn entry(out: &mut String, speaker: &str, text: &str) {
    let text = text.trim_end();
    // An empty message still gets an entry.
    let text = if text.is_empty() { Cow::Borrowed("[nothing]") } else { indent_further_lines(text) };
    // Writing to a string does not fail.
    let _ = writeln!(out, "{speaker}: {text}");
}

fn indent_further_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(is_line_end) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<&str> = text.split(is_line_end).collect();
    Cow::Owned(lines.join("\n  "))
}

const fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns a name in one line, without the characters that delimit names.
fn one_line(name: &str) -> String {
    let name = shorten(name, NAME_CHARS);
    name.replace(|c: char| c.is_control() || is_line_end(c) || matches!(c, '"' | ':'), " ")
}

/// The words of a message, without those of its calls.
struct MessageWords<'m> {
    name: Option<&'m str>,
    /// The results of calls, one for each call.
    results: Vec<(&'m CallId, Words)>,
    /// The other words.
    own: Words,
    /// `true` if the message has reasoning or sealed data.
    has_reasoning: bool,
}

/// The text of a message or a result, and one text for each part that is not text.
#[derive(Default)]
struct Words {
    text: String,
    others: Vec<String>,
}

impl Words {
    /// Returns the text, and each other text in a line of its own.
    fn joined(self) -> String {
        let Self { mut text, others } = self;
        for other in others {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&other);
        }
        text
    }
}

impl<'m> MessageWords<'m> {
    fn of(message: &'m Message) -> Self {
        let mut words = MessageWords { name: None, results: Vec::new(), own: Words::default(), has_reasoning: false };
        let mut places: HashMap<&CallId, usize> = HashMap::new();
        for call in message.answers() {
            places.entry(call).or_insert_with(|| {
                words.results.push((call, Words::default()));
                words.results.len() - 1
            });
        }

        // The result that other parts of a result message belong to.
        let mut newest = 0;
        message.parts(&mut |part| {
            let other = match part {
                Part::Name(name) => {
                    words.name = Some(name);
                    None
                }
                Part::Text(text) => {
                    words.own.text.push_str(&text);
                    None
                }
                Part::Result { call, text } => {
                    newest = places.get(call).copied().unwrap_or(newest);
                    let result = words.results.get_mut(newest).map_or(&mut words.own, |(_, result)| result);
                    result.text.push_str(&text);
                    None
                }
                Part::Reasoning(_) | Part::Sealed(_) => {
                    words.has_reasoning = true;
                    None
                }
                part => other(message, part),
            };
            if let Some(other) = other {
                let result = words.results.get_mut(newest).filter(|_| message.is_tool_result());
                result.map_or(&mut words.own, |(_, result)| result).others.push(other);
            }
        });
        words
    }

    /// Returns all words as one text.
    fn joined(self) -> String {
        let mut all = self.own;
        for (_, words) in self.results {
            all.others.push(words.joined());
        }
        all.joined()
    }

    /// Returns all words as one text, with the results and these calls in brackets.
    fn in_brackets(self, calls: &[ToolCall]) -> String {
        let mut all = self.own;
        for (_, words) in self.results {
            all.others.push(format!("[result: {}]", words.joined()));
        }
        for call in calls {
            all.others.push(called(call.name(), call.arguments()));
        }
        all.joined()
    }
}

/// Returns the text for a part that is no text: its words, or its kind in brackets.
fn other(message: &Message, part: Part<'_>) -> Option<String> {
    match part {
        Part::Refusal(refusal) => Some(refusal.into_owned()).filter(|refusal| !refusal.is_empty()),
        Part::Media { words: Some(words), .. } => Some(words.into_owned()),
        Part::OtherCall { name, arguments } => Some(called(&name, &arguments)),
        Part::Other { kind, text } if kind.is_empty() => of_unknown_form(message, text),
        Part::Media { kind, .. } | Part::Other { kind, .. } => Some(format!("[{}]", one_line(&kind))),
        _ => None,
    }
}

fn called(name: &str, arguments: &str) -> String {
    format!("[calls {}: {}]", one_line(name), shorten(arguments, ARGUMENTS_CHARS))
}

/// Returns the text of a part whose kind is not known. Long JSON is shortened, because it may be data.
fn of_unknown_form(message: &Message, text: Cow<'_, str>) -> Option<String> {
    // The whole message has fields of an unknown form. Its other parts are shown.
    if text == message.json() {
        return None;
    }
    if !text.starts_with(['{', '[']) {
        return Some(text.into_owned());
    }
    let has_words = text.contains(char::is_alphanumeric);
    Some(if has_words { shorten(&text, DATA_CHARS).into_owned() } else { "[part]".to_owned() })
}

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

    let kept = max_chars.saturating_sub(gap_note(chars).chars().count());
    let head = &text[..byte_at(text, kept.div_ceil(2))];
    let tail = &text[byte_at(text, chars - kept / 2)..];
    Cow::Owned([head, &gap_note(chars - kept), tail].concat())
}

fn gap_note(left_out: usize) -> String {
    format!(" [… {left_out} characters left out …] ")
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
    let words = MessageWords::of(message);
    let name = words.name;
    let text = match other {
        Some(_) => words.in_brackets(message.tool_calls()),
        None => words.joined(),
    };

    // Most tokens have up to four characters. With longer tokens, some of the room stays unused.
    let mut max_chars = usize::try_from(room).unwrap_or(usize::MAX).saturating_mul(4);
    for _ in 0..ATTEMPTS {
        let shorter = match other {
            Some(dialect) => Message::compose(dialect, speaker(message), shorten(&text, max_chars))?,
            None => with_short_texts(message, name, &text, max_chars)?,
        };
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
    let name = shorten(call.name(), max_chars);
    let arguments = shorten(call.arguments(), max_chars);
    if call.is_custom() {
        json!({"id": call.id(), "type": "custom", "custom": {"name": name, "input": arguments}})
    } else {
        json!({"id": call.id(), "type": "function", "function": {"name": name, "arguments": arguments}})
    }
}
