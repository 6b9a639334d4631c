//! The index of a chat message, read from its JSON in one pass.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    plain,
    reasoning::{ReasoningFields, bound_of_calls},
};
use crate::{
    lossy::{self, Lossy},
    message::{
        MessageError, PartKinds,
        dialect::{
            Bound, CallId, Closes, Index, Space, ToolCall,
            index::{ChatFields, ContentPlace},
            members::Members,
        },
    },
    role::Role,
};

/// The indexed fields. If a field occurs twice, the last one counts.
#[derive(Default)]
pub(super) struct Fields<'a> {
    role: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    refusal: Option<&'a RawValue>,
    audio: Option<&'a RawValue>,
    tool_call_id: Option<&'a RawValue>,
    pub(super) tool_calls: Option<&'a RawValue>,
    function_call: Option<&'a RawValue>,
    /// Boxed, because few messages have any.
    pub(super) reasoning: Option<Box<ReasoningFields<'a>>>,
    unknown: bool,
    /// `true` if the object has a `type`, as items of OpenAI's Responses API do, or `parts`, as Gemini's contents do.
    item: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a chat message")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut fields = Fields::default();
        while let Some(Lossy(key)) = map.next_key()? {
            match &*key {
                "role" => fields.role = Some(map.next_value()?),
                "name" => fields.name = map.next_value()?,
                "content" => fields.content = map.next_value()?,
                "refusal" => fields.refusal = map.next_value()?,
                "audio" => fields.audio = map.next_value()?,
                "tool_call_id" => fields.tool_call_id = map.next_value()?,
                "tool_calls" => fields.tool_calls = map.next_value()?,
                "function_call" => fields.function_call = map.next_value()?,
                key => {
                    fields.item |= matches!(key, "type" | "parts");
                    fields.unknown = true;
                    if ReasoningFields::NAMES.contains(&key) {
                        let value = map.next_value()?;
                        fields.reasoning.get_or_insert_default().set(key, value);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
            }
        }
        Ok(fields)
    }
}

/// Reads the index of a chat message.
pub(super) fn parse(json: &str) -> Result<Index, MessageError> {
    plain::read(json).map_or_else(|| parse_any(json), Ok)
}

/// Reads the index of a chat message of any form.
pub(super) fn parse_any(json: &str) -> Result<Index, MessageError> {
    let fields: Fields<'_> = serde_json::from_str(json).map_err(MessageError::from_json)?;
    let Some(role) = fields.role else {
        return Err(MessageError::new(if fields.item {
            "it has no role; items of the Responses or Gemini API are no chat messages"
        } else {
            "it has no role"
        }));
    };
    let Lossy(role) = serde_json::from_str(role.get()).map_err(MessageError::from_json)?;
    let role = Role::from(&*role);
    let calls_json = fields.tool_calls.filter(|_| role == Role::Assistant);
    let calls = calls_json.map(calls).unwrap_or_default();
    let opens: Box<[ToolCall]> = calls.iter().flatten().cloned().collect();
    let has_refusal_audio_or_function_call =
        [fields.refusal, fields.audio, fields.function_call].into_iter().any(has_content);
    let has_any_content = has_refusal_audio_or_function_call || has_content(fields.content);
    let says_nothing = role == Role::Assistant && !has_any_content && opens.is_empty();
    let unknown_calls = calls_json.filter(|calls| has_unknown_call_fields(calls));
    let (bound, has_reasoning) = if role == Role::Assistant {
        let of_calls = unknown_calls.map(bound_of_calls).unwrap_or_default();
        let bound = fields.reasoning.as_ref().map(|reasoning| reasoning.bound()).unwrap_or_default();
        (bound.or(of_calls), fields.reasoning.is_some() || of_calls.can_be_removed())
    } else {
        (Bound::NONE, false)
    };
    let content = fields.content.map(|content| ContentPlace::of(content.get(), start_in(json, content.get())));
    let has_neither_reasoning_nor_media = fields.content.is_none_or(is_string)
        && !has_refusal_audio_or_function_call
        && !has_reasoning
        && unknown_calls.is_none();
    let answers = fields.tool_call_id.filter(|id| role == Role::Tool && is_string(id));
    Ok(Index {
        closes: closes(&role, says_nothing),
        says_nothing,
        bound,
        is_rewritten: calls_json.is_some() && (opens.is_empty() || opens.len() < calls.len()),
        answers: answers.map(call_id).into_iter().collect(),
        part_kinds: has_neither_reasoning_nor_media.then(PartKinds::default),
        chat: ChatFields {
            name: fields.name.map(string),
            content,
            has_unknown_fields: fields.unknown || unknown_calls.is_some(),
            has_refusal_audio_or_function_call,
            has_reasoning,
        },
        opens,
        ..Index::new(role)
    })
}

/// Returns the index of a message in this role, of the JSON that [`plain_json`](super::plain_json) wrote.
pub(crate) fn of_plain(role: Role, json: &str) -> Index {
    let start = r#"{"role":"","content":"#.len() + role.as_str().len();
    plain::index(role, last_content(json, start))
}

/// Returns the index of a result of this call, of the JSON that [`tool_json`](super::tool_json) wrote.
pub(crate) fn tool(call_id: &str, json: &str) -> Index {
    let call_id_len = serde_json::Value::from(call_id).to_string().len();
    let start = r#"{"role":"tool","tool_call_id":,"content":"#.len() + call_id_len;
    let chat = ChatFields { content: Some(last_content(json, start)), ..ChatFields::default() };
    let answers = Box::new([CallId::new(Space::DEFAULT, call_id)]);
    Index { answers, part_kinds: Some(PartKinds::default()), chat, ..Index::new(Role::Tool) }
}

pub(super) fn closes(role: &Role, says_nothing: bool) -> Closes {
    if *role == Role::Tool || says_nothing { Closes::Never } else { Closes::Always }
}

/// Returns the place of a content that begins at `start`, and is the last value of the object.
fn last_content(json: &str, start: usize) -> ContentPlace {
    ContentPlace::of(&json[start..json.len() - "}".len()], start)
}

/// Returns the entries of a list of calls, with `None` for an invalid entry. Returns no entry if it is not a list.
fn calls(json: &RawValue) -> Vec<Option<ToolCall>> {
    let entries: Vec<&RawValue> = serde_json::from_str(json.get()).unwrap_or_default();
    entries.into_iter().map(call).collect()
}

/// Returns the valid entries of a list of calls, as they are written.
pub(crate) fn sound_calls(json: &RawValue) -> Vec<&RawValue> {
    let entries: Vec<&RawValue> = serde_json::from_str(json.get()).unwrap_or_default();
    entries.into_iter().filter(|entry| call(entry).is_some()).collect()
}

/// Returns the call if the entry is valid, so that a result can answer it. A valid entry is an object whose id is a
/// nonempty string. It also has a function or a custom tool, unless its type is known only to its provider.
fn call(entry: &RawValue) -> Option<ToolCall> {
    let call = Members::read(entry.get()).ok()?;
    let id = call.text("id").filter(|id| !id.is_empty())?;
    let id = CallId::new(Space::DEFAULT, &*id);
    let function = call.get("function");
    // async-openai writes `custom_tool` where the wire format has `custom`.
    let custom = call.get("custom").or_else(|| call.get("custom_tool"));
    let Some(called) = function.or(custom) else {
        // A call of a type that is known only to its provider.
        call.get("type")?;
        let is_known = matches!(&*call.text_or_json("type"), "function" | "custom" | "custom_tool");
        return (!is_known).then(|| ToolCall::new(id, "", ""));
    };
    let called = Members::read(called).ok()?;
    let arguments = if called.get("arguments").is_some() { "arguments" } else { "input" };
    let [name, arguments] = ["name", arguments].map(|name| called.text_or_json(name).into_owned());
    let call = ToolCall::new(id, name, arguments);
    Some(if function.is_none() { call.custom() } else { call })
}

fn call_id(json: &RawValue) -> CallId {
    CallId::new(Space::DEFAULT, &*decoded(json))
}

pub(super) fn is_string(json: &RawValue) -> bool {
    json.get().starts_with('"')
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

/// Returns a string's text, or the JSON of any other value.
pub(super) fn decoded(json: &RawValue) -> Cow<'_, str> {
    lossy::text(json.get()).unwrap_or(Cow::Borrowed(json.get()))
}

fn string(json: &RawValue) -> Box<str> {
    decoded(json).as_ref().into()
}

/// Returns `true` if a field has content: it is not absent, null or empty.
fn has_content(field: Option<&RawValue>) -> bool {
    field.is_some_and(|json| match json.get() {
        "null" | "\"\"" => false,
        array => array.strip_prefix('[').is_none_or(|rest| rest.trim_start() != "]"),
    })
}

/// Returns the byte of `whole` at which a slice begins that serde_json borrowed from it.
fn start_in(whole: &str, part: &str) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}
