//! The comparison of messages that a caller resends with those of the log.

use std::borrow::Cow;

use tower_chat_history_core::{CallId, Message, Part, ToolCall};

use super::same_call::is_same_call;

/// Returns `true` for a reply element without text and calls. Clients drop such elements: reasoning, for example.
pub(super) fn is_silent(message: &Message) -> bool {
    message.is_reply() && message.tool_calls().is_empty() && texts(message).is_empty()
}

/// Returns `true` for a reply element that has nothing at all, or only white space.
pub(super) fn is_blank(message: &Message) -> bool {
    let mut has_parts = message.index().restarts;
    message.parts(&mut |part| has_parts |= !matches!(part, Part::Text(_) | Part::Name(_)));
    !has_parts && is_silent(message)
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
    let (ones, others) = (texts(one), texts(other));
    let same = |((call, texts), (other, others)): (&(Option<&CallId>, Vec<_>), &(Option<&CallId>, Vec<_>))| {
        call == other && is_same_text(texts, others)
    };
    ones.len() == others.len() && ones.iter().zip(&others).all(same)
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
