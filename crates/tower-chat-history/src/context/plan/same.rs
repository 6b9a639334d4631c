//! The comparison of messages that a caller resends with those of the log.
//!
//! A caller can also have written an exchange in a dialect of its own. It has then chosen the ids of the calls, and
//! which texts are one message. So only what is said is compared: the texts, the calls and the results, in order.

use std::borrow::Cow;

use serde_json::Value;
use tower_chat_history_core::{CallId, Exchange, LeftOut, Message, Part, Role, StatedContent, Statement, ToolCall};

use crate::context::bridge::is_constant_reply;

/// Returns `true` for a reply element without text and calls. Clients drop such elements: reasoning, for example.
pub(super) fn is_silent(message: &Message) -> bool {
    message.is_reply() && message.tool_calls().is_empty() && texts(message).is_empty()
}

/// Returns `true` for a reply element that has nothing at all, or only white space.
pub(super) fn is_empty_or_white(message: &Message) -> bool {
    let mut has_parts = message.index().restarts;
    message.parts(&mut |part| has_parts |= !matches!(part, Part::Text(_) | Part::Name(_)));
    !has_parts && is_silent(message)
}

/// Returns `true` for a message that a prompt can have and the log has not: a constant reply, or the constant result of
/// a call.
pub(super) fn is_constant(message: &Message) -> bool {
    let Some(dialect) = message.dialect() else { return false };
    let [call] = message.answers() else { return is_constant_reply(message) };
    let abandoned = Message::in_dialect(dialect, dialect.abandoned(call));
    abandoned.is_ok_and(|abandoned| is_same(message, &abandoned))
}

/// Returns `true` if a message of the caller has the same role, texts, calls and results as one of the log. Of a
/// message with none of these, the kinds of its parts are compared.
pub(super) fn is_same(resent: &Message, logged: &Message) -> bool {
    resent.role() == logged.role()
        && resent.answers() == logged.answers()
        && has_same_calls(resent.tool_calls(), logged.tool_calls())
        && has_same_texts(resent, logged)
        && (!is_silent(resent) || has_its_kinds(resent, logged))
}

/// Returns `true` if the log's message has all kinds of parts of the caller's message, apart from reasoning, and if
/// both or none of them stand for everything before them.
fn has_its_kinds(resent: &Message, logged: &Message) -> bool {
    let kinds_of_log = kinds(logged);
    resent.index().restarts == logged.index().restarts && kinds(resent).iter().all(|kind| kinds_of_log.contains(kind))
}

/// Returns the kinds of the parts that are neither texts nor reasoning.
fn kinds(message: &Message) -> Vec<Cow<'static, str>> {
    let mut kinds = Vec::new();
    message.parts(&mut |part| match part {
        Part::Refusal(_) => kinds.push("refusal".into()),
        Part::Media { kind, .. } | Part::Other { kind, .. } => kinds.push(Cow::Owned(kind.into_owned())),
        _ => {}
    });
    kinds
}

fn has_same_calls(ones: &[ToolCall], others: &[ToolCall]) -> bool {
    ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| is_same_call(one, other))
}

/// Returns `true` if two messages have the same text, and the same text of each result.
fn has_same_texts(one: &Message, other: &Message) -> bool {
    let ones = texts(one);
    let others = texts(other);
    let mut pairs = ones.iter().zip(&others);
    ones.len() == others.len()
        && pairs.all(|((call, texts), (other, others))| call == other && is_same_text(texts, others))
}

/// Returns the texts of a message, apart from those that are blank. The texts of each result stand together.
fn texts(message: &Message) -> Vec<(Option<&CallId>, Vec<Cow<'_, str>>)> {
    let mut texts: Vec<(Option<&CallId>, Vec<Cow<'_, str>>)> = Vec::new();
    message.parts(&mut |part| {
        let (call, text) = match part {
            Part::Text(text) => (None, text),
            Part::Result { call, text } => (Some(call), text),
            _ => return,
        };
        match texts.last_mut() {
            Some((last, parts)) if *last == call => parts.push(text),
            _ => texts.push((call, vec![text])),
        }
    });
    texts.retain(|(_, parts)| parts.iter().any(|part| !trim(part).is_empty()));
    texts
}

/// Returns `true` if two lists of texts are the same, apart from white space around the texts, or around the whole.
fn is_same_text(ones: &[Cow<'_, str>], others: &[Cow<'_, str>]) -> bool {
    fn trimmed<'t>(texts: &'t [Cow<'_, str>]) -> impl Iterator<Item = &'t str> {
        texts.iter().map(|text| trim(text)).filter(|text| !text.is_empty())
    }
    trimmed(ones).eq(trimmed(others)) || trim(&ones.concat()) == trim(&others.concat())
}

/// Returns the text without the characters that the `trim` function of any language removes.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{1c}'..='\u{1f}'))
}

/// Returns `true` if two calls have the same id and name, and the same arguments.
///
/// Arguments are the same if they are the same text, or the same JSON value. Clients read arguments that are objects,
/// and write them again, so white space, escapes, the order of members and the form of numbers can differ.
fn is_same_call(resent: &ToolCall, logged: &ToolCall) -> bool {
    resent.call_id() == logged.call_id()
        && resent.name() == logged.name()
        && resent.is_custom() == logged.is_custom()
        && is_same_arguments(resent, logged)
}

/// Returns `true` for the same text, or the same value. Clients also have the object that is sent in place of arguments
/// that are none.
fn is_same_arguments(resent: &ToolCall, logged: &ToolCall) -> bool {
    resent.arguments() == logged.arguments()
        || is_same_json(resent.arguments(), logged.arguments())
        || is_same_json(&resent.arguments_object(), &logged.arguments_object())
}

/// Returns `true` if both texts are JSON of the same value. A value that is too deep for the parser is not the same as
/// another text.
pub(super) fn is_same_json(one: &str, other: &str) -> bool {
    let (Ok(one), Ok(other)) = (serde_json::from_str(one), serde_json::from_str(other)) else { return false };
    is_same_value(&one, &other)
}

/// Returns `true` for the same value. Numbers are compared as clients read them, as 64-bit floats.
fn is_same_value(one: &Value, other: &Value) -> bool {
    let mut pairs = vec![(one, other)];
    while let Some(pair) = pairs.pop() {
        let is_same = match pair {
            (Value::Array(ones), Value::Array(others)) => {
                pairs.extend(ones.iter().zip(others));
                ones.len() == others.len()
            }
            (Value::Object(ones), Value::Object(others)) => {
                let values = ones.iter().map(|(name, value)| Some((value, others.get(name)?)));
                let Some(values) = values.collect::<Option<Vec<_>>>() else { return false };
                pairs.extend(values);
                ones.len() == others.len()
            }
            (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
            (one, other) => one == other,
        };
        if !is_same {
            return false;
        }
    }
    true
}

/// Something that is said.
enum Utterance<'m> {
    /// A text without its white space.
    Text { is_of_model: bool, text: String },
    /// A call, with its name and arguments.
    Call(Cow<'m, str>, Cow<'m, str>),
    /// The text of a result, without its white space.
    Result(String),
}

/// Matches the end of the messages with those of an exchange in another dialect. Returns the number of messages before
/// it, or the position of the last message that differs.
///
/// Media beside a text, reasoning, and calls of tools that the provider executed are not compared. The list may not
/// have more messages with nothing but media than the exchange. A message that stands for everything before it differs,
/// because the exchange has no such message.
pub(super) fn match_said(messages: &[Message], exchange: &Exchange) -> Result<usize, usize> {
    let mut left: Vec<Utterance<'_>> = Vec::new();
    for said in exchange.messages.iter().flat_map(utterances) {
        match (left.last_mut(), said) {
            (Some(Utterance::Text { is_of_model, text }), Utterance::Text { is_of_model: same, text: next })
                if *is_of_model == same =>
            {
                text.push_str(&next);
            }
            (_, said) => left.push(said),
        }
    }

    let mut end = messages.len();
    let mut wordless = exchange.messages.iter().filter(|message| is_wordless(message)).count();
    while let Some(message) = messages[..end].last() {
        let has_no_words = is_wordless(message);
        if left.is_empty() && !(has_no_words && wordless > 0) {
            break;
        }

        end -= 1;
        if has_no_words {
            // The model would not see media that the log lacks.
            wordless = wordless.checked_sub(1).ok_or(end)?;
        } else if message.index().restarts
            || !utterances(message).iter().rev().all(|said| take(&mut left, said)) && !is_constant(message)
        {
            return Err(end);
        }
    }
    Ok(end)
}

/// Returns `true` for a message of the user that has only media.
fn is_wordless(message: &Message) -> bool {
    *message.role() == Role::User && message.part_kinds().has_media && utterances(message).is_empty()
}

/// Removes from the end what is said. Returns `false` if something else is there.
fn take(left: &mut Vec<Utterance<'_>>, said: &Utterance<'_>) -> bool {
    let is_whole = match (left.last_mut(), said) {
        (Some(Utterance::Text { is_of_model, text }), Utterance::Text { is_of_model: same, text: end })
            if is_of_model == same =>
        {
            if !text.ends_with(end) {
                return false;
            }
            text.truncate(text.len() - end.len());
            text.is_empty()
        }
        (Some(Utterance::Call(name, arguments)), Utterance::Call(same, others)) => {
            name == same && (arguments == others || is_same_json(arguments, others))
        }
        (Some(Utterance::Result(text)), Utterance::Result(same)) => text == same,
        _ => return false,
    };
    if is_whole {
        left.pop();
    }
    is_whole || matches!(said, Utterance::Text { .. })
}

fn utterances(message: &Message) -> Vec<Utterance<'_>> {
    let Some(dialect) = message.dialect() else { return Vec::new() };
    let statements = dialect.statements(message, &mut LeftOut::default());
    statements.into_iter().filter_map(of_statement).collect()
}

/// Returns what a statement says, or `None` if it has no text.
fn of_statement(statement: Statement<'_>) -> Option<Utterance<'_>> {
    let (is_of_model, text) = match statement {
        // Formats without instructions in the list have them as texts of the user.
        Statement::Instruction(text) => (false, dense(&text)),
        Statement::User(content) => (false, dense_content(&content)),
        Statement::Model(text) => (true, dense(&text)),
        Statement::Call(call) => return Some(Utterance::Call(call.name(), call.arguments())),
        Statement::Result { content, .. } => return Some(Utterance::Result(dense_content(&content))),
        _ => return None,
    };
    (!text.is_empty()).then_some(Utterance::Text { is_of_model, text })
}

fn dense_content(content: &[StatedContent<'_>]) -> String {
    let mut text = String::new();
    for content in content {
        if let StatedContent::Text(part) = content {
            text.push_str(&dense(part));
        }
    }
    text
}

/// Returns the text without white space. Dialects and callers join texts in different ways.
fn dense(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '\u{feff}').collect()
}
