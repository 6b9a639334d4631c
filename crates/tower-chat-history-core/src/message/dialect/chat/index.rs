//! The index of a chat message.
//!
//! That of the most common messages, which have a role and a text in the forms in which this crate and most clients
//! write them, is read without a JSON parser, because each load of a window reads the index of each message. Most texts
//! need no escapes, so the messages are also written without one.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{
    Content,
    reasoning::{self, bound_of_calls},
};
use crate::{
    json::{self, Object},
    message::{
        MessageError, PartKinds, Role,
        dialect::{
            Bound, CallId, Closes, Index, Space, ToolCall,
            index::{ChatFields, ContentPlace, KnownDigest, is_object},
        },
    },
};

/// The fields that the format defines for requests.
pub(super) const FIELDS: [&str; 8] =
    ["role", "name", "content", "refusal", "audio", "tool_call_id", "tool_calls", "function_call"];

/// Reads the index of a chat message.
pub(super) fn parse(json: &str) -> Result<Index, MessageError> {
    read_plain(json).map_or_else(|| parse_any(json), Ok)
}

/// Reads the index of a chat message of any form. If a field occurs twice, the last one counts.
fn parse_any(json: &str) -> Result<Index, MessageError> {
    let fields = Object::parse(json).map_err(MessageError::from_json)?;
    let role = role(&fields)?;

    let calls_json = fields.raw("tool_calls").filter(|_| role == Role::Assistant);
    let calls = calls_json.map(calls).unwrap_or_default();
    let are_sendable = !calls.is_empty() && calls.iter().all(|entry| entry.as_ref().is_some_and(|it| it.is_sendable));
    let opens: Box<[ToolCall]> = calls.into_iter().flatten().map(|entry| entry.call).collect();
    let unknown_calls = calls_json.filter(|calls| has_unknown_call_fields(calls));

    let content = fields.get("content");
    let sent_content = content.filter(|_| role == Role::Assistant).map(sendable_content);
    let is_content_sendable = !matches!(sent_content, Some(Cow::Owned(_)));
    let has_refusal_audio_or_function_call =
        ["refusal", "audio", "function_call"].iter().any(|name| has_content(fields.get(name)));
    let words = sent_content.as_deref().filter(|json| *json != "null");
    let has_words = has_content(words) && !words.is_some_and(has_only_empty_texts);
    let has_any_content = has_refusal_audio_or_function_call || has_words;
    let is_blank = role == Role::Assistant && !has_any_content && opens.is_empty();

    let (bound, has_reasoning) = if role == Role::Assistant {
        let of_calls = unknown_calls.map(|calls| bound_of_calls(&sound_calls(calls))).unwrap_or_default();
        (reasoning::bound(&fields).or(of_calls), reasoning::has_some(&fields) || of_calls.can_be_removed())
    } else {
        (Bound::NONE, false)
    };

    let has_neither_reasoning_nor_media = content.is_none_or(is_string)
        && !has_refusal_audio_or_function_call
        && !has_reasoning
        && unknown_calls.is_none();
    let answers = fields.text("tool_call_id").filter(|_| role == Role::Tool);
    let has_unknown_fields = fields.members().iter().any(|member| !FIELDS.contains(&&*member.name));
    let has_empty_fields = fields.members().iter().any(|member| {
        let json = member.value.get();
        member.name != "content" && (json == "null" || json.starts_with('[') && !has_content(Some(json)))
    });
    Ok(Index {
        closes: closes(&role, is_blank),
        is_blank,
        bound,
        is_rewritten: calls_json.is_some() && !are_sendable || !is_blank && !is_content_sendable,
        answers: answers.map(|id| CallId::new(Space::DEFAULT, &*id)).into_iter().collect(),
        part_kinds: has_neither_reasoning_nor_media.then(PartKinds::default),
        chat: ChatFields {
            name: fields.get("name").map(|name| json::text_or_json(name).into()),
            content: content.map(|content| ContentPlace::of(content, json::range(json, content).start)),
            has_unknown_fields: has_unknown_fields || unknown_calls.is_some(),
            has_fields_of_maker: has_unknown_fields
                || role == Role::Assistant && content.is_some_and(has_parts_of_maker)
                || has_empty_fields
                || unknown_calls.is_some()
                // Streams number their calls. Within a text, the quotes would be escaped.
                || calls_json.is_some_and(|calls| calls.get().contains("\"index\"")),
            has_refusal_audio_or_function_call,
            has_reasoning,
        },
        opens,
        digest: if has_only_texts(&fields) { KnownDigest::OfJson } else { KnownDigest::Unknown },
        ..Index::new(role)
    })
}

/// Returns `true` if a message has nothing but texts, as the usual ones do. It has no mark for the cache then.
fn has_only_texts(fields: &Object<'_>) -> bool {
    fields.members().iter().all(|member| {
        let is_usual = matches!(&*member.name, "role" | "content" | "tool_call_id");
        is_usual && is_string(member.value.get())
    })
}

fn role(fields: &Object<'_>) -> Result<Role, MessageError> {
    if let Some(role) = fields.text_if_any("role").map_err(MessageError::from_json)? {
        return Ok(Role::from(&*role));
    }
    // Items of OpenAI's Responses API have a type, and Gemini's contents have parts.
    let is_item = fields.members().iter().any(|member| matches!(&*member.name, "type" | "parts"));
    Err(MessageError::new(if is_item {
        "it has no role; items of the Responses or Gemini API are no chat messages"
    } else {
        "it has no role"
    }))
}

/// Returns the index of a message in this role, of the JSON that [`plain_json`](super::plain_json) wrote.
pub(crate) fn plain_index(role: Role, json: &str) -> Index {
    let start = r#"{"role":"","content":"#.len() + role.as_str().len();
    index_of_text(role, last_content(json, start))
}

/// Returns the index of a result of this call, of the JSON that [`tool_json`](super::tool_json) wrote.
pub(crate) fn tool_index(call_id: &str, json: &str) -> Index {
    let call_id_len = serde_json::Value::from(call_id).to_string().len();
    let start = r#"{"role":"tool","tool_call_id":,"content":"#.len() + call_id_len;
    let chat = ChatFields { content: Some(last_content(json, start)), ..ChatFields::default() };
    let answers = Box::new([CallId::new(Space::DEFAULT, call_id)]);
    let part_kinds = Some(PartKinds::default());
    Index { answers, part_kinds, chat, digest: KnownDigest::OfJson, ..Index::new(Role::Tool) }
}

pub(super) fn closes(role: &Role, is_blank: bool) -> Closes {
    if *role == Role::Tool || is_blank { Closes::Never } else { Closes::Always }
}

/// Returns the place of a content that begins at `start`, and is the last value of the object.
fn last_content(json: &str, start: usize) -> ContentPlace {
    ContentPlace::of(&json[start..json.len() - "}".len()], start)
}

/// A valid entry of a list of calls.
struct Entry {
    call: ToolCall,
    /// True if servers accept the entry as it is written: the arguments of a function are an object.
    is_sendable: bool,
}

/// Returns the entries of a list of calls, with `None` for an invalid entry. Returns no entry if it is not a list.
fn calls(json: &RawValue) -> Vec<Option<Entry>> {
    json::raw_entries(json.get()).unwrap_or_default().into_iter().map(call).collect()
}

/// Returns the valid entries of a list of calls, in the form in which servers accept them.
pub(crate) fn sendable_calls(json: &RawValue) -> Vec<Cow<'_, str>> {
    let entries = json::raw_entries(json.get()).unwrap_or_default();
    entries.into_iter().filter_map(|entry| sendable(entry.get(), &call(entry)?)).collect()
}

fn sendable<'a>(json: &'a str, entry: &Entry) -> Option<Cow<'a, str>> {
    if entry.is_sendable {
        return Some(Cow::Borrowed(json));
    }
    let call = Object::read(json)?;
    let function = call.object("function")?.with("arguments", &json::quoted(&entry.call.arguments_object()));
    Some(Cow::Owned(call.with("function", &function)))
}

/// Returns the content of a reply in the form in which servers accept it: a text, a list of parts, or null. A part is
/// an object or a text.
pub(super) fn sendable_content(json: &str) -> Cow<'_, str> {
    if is_string(json) {
        return Cow::Borrowed(json);
    }
    let Some(entries) = json::entries(json) else { return Cow::Owned("null".to_owned()) };
    let parts: Vec<&str> = entries.iter().copied().filter(|entry| entry.starts_with(['{', '"'])).collect();
    if parts.len() == entries.len() {
        return Cow::Borrowed(json);
    }
    Cow::Owned(if parts.is_empty() { "null".to_owned() } else { format!("[{}]", parts.join(",")) })
}

/// Returns the valid entries of a list of calls, as they are written.
pub(super) fn sound_calls(json: &RawValue) -> Vec<&RawValue> {
    let entries = json::raw_entries(json.get()).unwrap_or_default();
    entries.into_iter().filter(|entry| call(entry).is_some()).collect()
}

/// Returns the call if the entry is valid, so that a result can answer it. A valid entry is an object whose id is a
/// nonempty string. It also has a function or a custom tool, unless its type is known only to its provider.
fn call(entry: &RawValue) -> Option<Entry> {
    let call = Object::read(entry.get())?;
    let id = call.text("id").filter(|id| !id.is_empty())?;
    let id = CallId::new(Space::DEFAULT, &*id);
    let function = call.get("function");
    // async-openai writes `custom_tool` where the wire format has `custom`.
    let custom = call.get("custom").or_else(|| call.get("custom_tool"));
    let Some(called) = function.or(custom) else {
        // A call of a type that is known only to its provider.
        call.get("type")?;
        let is_known = matches!(&*call.text_or_json("type"), "function" | "custom" | "custom_tool");
        return (!is_known).then(|| Entry { call: ToolCall::new(id, "", ""), is_sendable: true });
    };
    let called = Object::read(called)?;
    let has_arguments = called.get("arguments").is_some();
    let arguments = if has_arguments { "arguments" } else { "input" };
    let [name, arguments] = ["name", arguments].map(|name| called.text_or_json(name).into_owned());

    let is_sendable = function.is_none() || has_arguments && is_object(&arguments);
    let call = ToolCall::new(id, name, arguments);
    let call = if function.is_none() { call.custom() } else { call };
    Some(Entry { call, is_sendable })
}

fn is_string(json: &str) -> bool {
    json.starts_with('"')
}

/// Returns `true` if a call has fields that the format does not define (such as a provider's signature), if it repeats
/// a field, if it has no id, or if its function has no name or no arguments.
fn has_unknown_call_fields(calls: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)] // The values are not used: reading only has to succeed or fail.
    struct Known {
        id: IgnoredAny,
        r#type: Option<IgnoredAny>,
        index: Option<IgnoredAny>,
        function: Option<KnownFunction>,
        #[serde(alias = "custom_tool")]
        custom: Option<KnownFunction>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct KnownFunction {
        name: IgnoredAny,
        #[serde(alias = "input")]
        arguments: IgnoredAny,
    }
    serde_json::from_str::<Vec<Known>>(calls.get()).is_err()
}

/// Returns `true` if the content of a reply is a list with something else than texts, such as reasoning.
fn has_parts_of_maker(content: &str) -> bool {
    let parts = if content.starts_with('[') { json::entries(content) } else { None };
    let is_text = |part: &str| {
        let kind = Object::read(part).and_then(|part| part.text("type"));
        is_string(part) || matches!(kind.as_deref(), Some("text" | "refusal"))
    };
    parts.is_some_and(|parts| !parts.into_iter().all(is_text))
}

/// Returns `true` if a field has content: it is not absent, null or empty.
fn has_content(field: Option<&str>) -> bool {
    field.is_some_and(|json| match json {
        "\"\"" => false,
        list => list.strip_prefix('[').is_none_or(|rest| rest.trim_start() != "]"),
    })
}

/// Returns `true` if a content is a list of empty texts.
fn has_only_empty_texts(json: &str) -> bool {
    let parts = if json.starts_with('[') { json::entries(json) } else { None };
    parts.is_some_and(|parts| {
        parts.into_iter().all(|part| Content::text_of_part(part).is_some_and(|text| text.is_empty()))
    })
}

/// The number of bytes that are tested together.
const BLOCK: usize = 16;

/// Reads the index of a message of the form `{"role":"user","content":"text"}`, or of a reply of the form
/// `{"content":"text","role":"assistant"}`. Returns `None` if the message has another form, or is no JSON.
fn read_plain(json: &str) -> Option<Index> {
    let (index, len) = plain_index_at_start(json)?;
    (len == json.len()).then_some(index)
}

/// Reads the index of a message at the beginning of a text, as [`read_plain`] does. Also returns the message's length.
pub(crate) fn plain_index_at_start(json: &str) -> Option<(Index, usize)> {
    let (role, text, end) = [
        (Role::User, r#"{"role":"user","content":""#, r#""}"#),
        (Role::Assistant, r#"{"role":"assistant","content":""#, r#""}"#),
        (Role::System, r#"{"role":"system","content":""#, r#""}"#),
        (Role::Assistant, r#"{"content":""#, r#"","role":"assistant"}"#),
    ]
    .into_iter()
    .find_map(|(role, start, end)| Some((role, json.strip_prefix(start)?, end)))?;
    let len = encoded_len(text.as_bytes())?;
    let start = json.len() - text.len();
    let rest = text.get(len..)?.strip_prefix(end)?;
    let index = index_of_text(role, ContentPlace::of(&json[start - 1..=start + len], start - 1));
    Some((index, json.len() - rest.len()))
}

/// Returns the index of a message in this role that has nothing but a text at this place.
fn index_of_text(role: Role, content: ContentPlace) -> Index {
    let is_blank = role == Role::Assistant && content.range.len() == r#""""#.len();
    let chat = ChatFields { content: Some(content), ..ChatFields::default() };
    let part_kinds = Some(PartKinds::default());
    let digest = KnownDigest::OfJson;
    Index { closes: closes(&role, is_blank), is_blank, part_kinds, chat, digest, ..Index::new(role) }
}

/// Returns the length of the JSON string that begins before this text, up to its closing quote. Returns `None` if the
/// string is invalid or has a `\u`.
fn encoded_len(text: &[u8]) -> Option<usize> {
    let mut len = 0;
    loop {
        len += plain_len(text.get(len..)?);
        match text.get(len)? {
            b'"' => return Some(len),
            b'\\' if text.get(len + 1).is_some_and(|escaped| br#""\/bfnrt"#.contains(escaped)) => len += 2,
            _ => return None,
        }
    }
}

/// Returns `true` if a text needs no escapes in a JSON string.
pub(super) fn needs_no_escapes(text: &str) -> bool {
    plain_len(text.as_bytes()) == text.len()
}

/// Returns the number of bytes at the beginning that stand for themselves in a JSON string.
fn plain_len(text: &[u8]) -> usize {
    let start = text.chunks_exact(BLOCK).take_while(|block| is_plain_block(block)).count() * BLOCK;
    start + text[start..].iter().take_while(|byte| is_plain(**byte)).count()
}

/// Returns `true` if all bytes of a block stand for themselves. There is no branch for each byte.
fn is_plain_block(block: &[u8]) -> bool {
    block.iter().fold(true, |plain, byte| plain & is_plain(*byte))
}

const fn is_plain(byte: u8) -> bool {
    byte >= b' ' && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::dialect::chat::plain_json;

    #[test]
    fn messages_of_another_form_are_left_to_the_parser() {
        for json in [
            r#"{ "role":"user","content":"a"}"#,
            r#"{"role":"user","content":"a","name":"b"}"#,
            r#"{"role":"user","content":"a"} "#,
            r#"{"role":"user","content":["a"]}"#,
            r#"{"role":"user","content":"\u0061"}"#,
            r#"{"role":"tool","content":"a"}"#,
            r#"{"role":"user","content":""#,
            r#"{"content":"a","role":"user"}"#,
            r#"{"content":"a","role":"assistant","role":"user"}"#,
            r#"{"content":"a","role":"assistant"} "#,
            r#"{"content":"a"}"#,
        ] {
            assert_eq!(read_plain(json), None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn the_json_of_any_text_is_what_serde_json_writes(text in r#"[ -~]{0,40}|([ -~äß😀]|\n|\x00|\x1f|\x7f|"|\\){0,60}"#) {
            let json = plain_json(&Role::User, &text);
            prop_assert_eq!(json, format!(r#"{{"role":"user","content":{}}}"#, serde_json::to_string(&text).unwrap()));
        }

        #[test]
        fn a_plain_message_has_the_index_that_the_parser_reads(
            role in prop::sample::select(vec![Role::User, Role::Assistant, Role::System]),
            text in r#"([ -~äß€😀]|\n|\t|"|\\){0,60}"#,
        ) {
            let quoted = serde_json::to_string(&text).unwrap();
            for json in [plain_json(&role, &text), format!(r#"{{"content":{quoted},"role":"assistant"}}"#)] {
                let index = read_plain(&json);
                prop_assert!(index.is_some());
                prop_assert_eq!(index, parse_any(&json).ok());
            }
        }

        /// Text that is nearly such a message: it may be no JSON, or have other fields.
        #[test]
        fn whatever_is_read_is_what_the_parser_reads(
            text in r#"([a-c "\\{}:,\n]|\\[nrtbfux"/\\]|"}|","name":"|\u{1}){0,12}"#,
        ) {
            for (start, end) in [(r#"{"role":"user","content":""#, r#""}"#), (r#"{"content":""#, r#"","role":"assistant"}"#)] {
                let json = [start, &text, end].concat();
                if let Some(index) = read_plain(&json) {
                    prop_assert_eq!(Some(index), parse_any(&json).ok());
                }
            }
        }
    }
}
