//! A reply without the reasoning that its provider has not signed: the fields with it, parts of the content, and
//! `<think>…</think>` at the beginning of a text, where servers without a parser for reasoning leave it.

use std::borrow::Cow;

use super::reasoning;
use crate::{
    json::{self, Object, quoted},
    message::Message,
};

const BEGIN: &str = "<think>";
const END: &str = "</think>";

/// The content of a reply that has nothing but reasoning.
const NO_REPLY: &str = "[no reply]";

/// Returns `false` if a message surely has no such reasoning. Nothing is parsed for it.
pub(crate) fn may_have_some(message: &Message) -> bool {
    let index = message.index();
    if !message.is_reply() || index.bound.can_be_removed() {
        return false;
    }

    let content = index.chat.content.as_ref().and_then(|place| message.json().get(place.range.clone()));
    index.chat.has_reasoning || content.is_some_and(may_begin_with_reasoning)
}

/// Returns `true` if a content is a list, or a text that may begin with reasoning. Its first characters may be escaped.
fn may_begin_with_reasoning(content: &str) -> bool {
    let Some(mut text) = content.strip_prefix('"') else { return content.starts_with('[') };
    let space = ["\\n", "\\r", "\\t", " "];
    while let Some(rest) = space.iter().find_map(|space| text.strip_prefix(space)) {
        text = rest;
    }
    text.starts_with(BEGIN) || text.starts_with("\\u")
}

/// Returns the message without such reasoning, or `None` if it has none. A message with a signature is returned as
/// `None`, too, because nothing of it may change.
pub(super) fn without(message: &Message) -> Option<String> {
    if !may_have_some(message) {
        return None;
    }
    let fields = Object::read(message.json())?;
    let content = fields.get("content");
    if content.is_some_and(has_signed_part) {
        return None;
    }

    let has_more = !message.tool_calls().is_empty() || message.has_refusal_audio_or_function_call();
    let content = content.and_then(|content| rest_of_content(content, has_more));
    let mut is_changed = content.is_some();
    let mut left = Vec::with_capacity(fields.members().len());
    for member in fields.last_members() {
        let mut json = member.value.get();
        if reasoning::NAMES.contains(&&*member.name) && !matches!(json, "null" | "\"\"" | "[]") {
            is_changed = true;
            continue;
        }
        if member.name == "content" {
            json = content.as_deref().unwrap_or(json);
        }
        left.push(format!("{}:{json}", member.quoted));
    }
    is_changed.then(|| format!("{{{}}}", left.join(",")))
}

/// Returns `true` if a content has a part with a signature.
fn has_signed_part(content: &str) -> bool {
    let is_signed = |part: &str| Object::read(part)?.get("signature").and_then(reasoning::sealed).map(|_| ());
    json::entries(content).is_some_and(|parts| parts.into_iter().any(|part| is_signed(part).is_some()))
}

/// Returns a content without reasoning, or `None` if it has none. If the message `has_more` than its content, the
/// content may be null.
fn rest_of_content(content: &str, has_more: bool) -> Option<String> {
    let nothing = || if has_more { "null".to_owned() } else { quoted(NO_REPLY) };
    if let Some(text) = json::text(content) {
        let rest = after_thoughts(&text)?;
        return Some(if rest.is_empty() { nothing() } else { quoted(rest) });
    }

    let parts = json::entries(content)?;
    let mut is_changed = false;
    let mut left: Vec<Cow<'_, str>> = Vec::with_capacity(parts.len());
    for json in parts {
        let Some(part) = Object::read(json) else {
            left.push(Cow::Borrowed(json));
            continue;
        };
        match part.text("type").as_deref() {
            // Mistral's reasoning is such a part.
            Some("thinking") => is_changed = true,
            Some("text") if left.is_empty() => match part.text("text").as_deref().and_then(after_thoughts) {
                None => left.push(Cow::Borrowed(json)),
                Some(rest) => {
                    is_changed = true;
                    left.extend((!rest.is_empty()).then(|| Cow::Owned(part.with("text", &quoted(rest)))));
                }
            },
            _ => left.push(Cow::Borrowed(json)),
        }
    }

    if !is_changed {
        return None;
    }
    Some(if left.is_empty() { nothing() } else { format!("[{}]", left.join(",")) })
}

/// Returns a text after the reasoning at its beginning and the white space after that, or `None` if it has none.
/// Reasoning without an end may be an answer about the mark.
fn after_thoughts(text: &str) -> Option<&str> {
    let mut rest = None;
    while let Some(begun) = rest.unwrap_or(text).trim_start().strip_prefix(BEGIN) {
        let Some((_, after)) = begun.split_once(END) else { break };
        rest = Some(after.trim_start());
    }
    rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rest(json: &str) -> Option<String> {
        let message = Message::from_json(json).unwrap();
        let rest = message.without_reasoning()?;
        assert_eq!(rest.without_reasoning(), None, "nothing more is left out: {json}");
        assert_eq!((rest.role(), rest.tool_calls()), (message.role(), message.tool_calls()));
        Some(rest.json().to_owned())
    }

    const CALL: &str = r#"[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]"#;

    #[test]
    fn the_fields_with_reasoning_are_left_out() {
        for fields in [
            r#""reasoning_content":"hm""#,
            r#""reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]"#,
            r#""thinking_blocks":[{"type":"thinking","thinking":"hm"}]"#,
        ] {
            let reply = format!(r#"{{"role":"assistant",{fields},"content":"Blue.\u0041","x":1.0}}"#);
            assert_eq!(rest(&reply).unwrap(), r#"{"role":"assistant","content":"Blue.\u0041","x":1.0}"#);
            let calls = format!(r#"{{"role":"assistant","content":null,{fields},"tool_calls":{CALL}}}"#);
            assert_eq!(rest(&calls).unwrap(), format!(r#"{{"role":"assistant","content":null,"tool_calls":{CALL}}}"#));
        }
    }

    #[test]
    fn reasoning_at_the_beginning_of_the_text_is_left_out() {
        for (content, left) in [
            (r#""<think>hm</think>\n\nBlue.""#, r#""Blue.""#),
            (r#""\n <think>\nhm\n</think>Blue \"sky\".""#, r#""Blue \"sky\".""#),
            (r#""\u003cthink\u003ehm\u003c/think\u003e Blue.""#, r#""Blue.""#),
            (r#""<think>a</think> <think>b</think>Blue. <think>c</think>""#, r#""Blue. <think>c</think>""#),
            (r#""<think></think>Blue.""#, r#""Blue.""#),
            (
                r#"[{"type":"text","text":"<think>hm</think> Blue.","x":1}]"#,
                r#"[{"type":"text","text":"Blue.","x":1}]"#,
            ),
            (
                r#"[{"type":"text","text":"<think>hm</think>"},{"type":"text","text":"Blue."}]"#,
                r#"[{"type":"text","text":"Blue."}]"#,
            ),
            (
                r#"[{"type":"thinking","thinking":[]},{"type":"text","text":"Blue."}]"#,
                r#"[{"type":"text","text":"Blue."}]"#,
            ),
        ] {
            let reply = format!(r#"{{"role":"assistant","content":{content}}}"#);
            assert_eq!(rest(&reply).unwrap(), format!(r#"{{"role":"assistant","content":{left}}}"#));
        }
    }

    #[test]
    fn a_reply_with_nothing_but_reasoning_says_that_there_is_none() {
        for content in [
            r#""<think>hm</think>\n""#,
            r#"[{"type":"text","text":"<think>hm</think>"}]"#,
            r#"[{"type":"thinking","thinking":"hm"}]"#,
        ] {
            let reply = format!(r#"{{"role":"assistant","content":{content}}}"#);
            assert_eq!(rest(&reply).unwrap(), r#"{"role":"assistant","content":"[no reply]"}"#);
            let calls = format!(r#"{{"role":"assistant","content":{content},"tool_calls":{CALL}}}"#);
            assert_eq!(rest(&calls).unwrap(), format!(r#"{{"role":"assistant","content":null,"tool_calls":{CALL}}}"#));
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for json in [
            r#"{"role":"assistant","content":"Blue."}"#,
            r#"{"role":"assistant","content":"The tag <think> begins it, and </think> ends it."}"#,
            r#"{"role":"assistant","content":"<think>It broke off"}"#,
            r#"{"role":"assistant","content":"Blue.","reasoning_content":"","reasoning":null,"reasoning_details":[]}"#,
            r#"{"role":"user","content":"<think>hm</think>Blue."}"#,
            r#"{"role":"user","content":"Blue.","reasoning_content":"hm"}"#,
            r#"{"role":"tool","content":"<think>hm</think>Blue.","tool_call_id":"x"}"#,
        ] {
            assert_eq!(rest(json), None, "{json}");
        }
    }

    #[test]
    fn a_reply_with_a_signature_stays_as_it_is() {
        for fields in [
            r#""reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s"}]"#,
            r#""reasoning_content":"hm","reasoning_details":[{"type":"reasoning.encrypted","data":"s"}]"#,
            r#""reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"}]"#,
            r#""reasoning_content":"hm","extra_content":{"google":{"thought_signature":"s"}}"#,
            r#""reasoning_content":"hm","content":[{"type":"thinking","thinking":"hm","signature":"s"}]"#,
        ] {
            assert_eq!(rest(&format!(r#"{{"role":"assistant","content":"<think>hm</think>Blue.",{fields}}}"#)), None);
        }
    }

    proptest! {
        #[test]
        fn what_is_left_is_the_same_if_it_is_left_out_again(text in "( |\n|<think>|</think>|a|\"){0,9}", has_calls: bool) {
            let calls = if has_calls { format!(r#","tool_calls":{CALL}"#) } else { String::new() };
            let reply = format!(r#"{{"role":"assistant","content":{}{calls}}}"#, quoted(&text));
            if let Some(rest) = rest(&reply) {
                let rest = Message::from_json(rest).unwrap();
                prop_assert!(!rest.is_blank());
                prop_assert!(text.ends_with(&*rest.text()) || rest.text() == NO_REPLY);
            }
        }
    }
}
