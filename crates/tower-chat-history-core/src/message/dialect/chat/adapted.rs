//! The form of a message for a reader that accepts less than the log has.

use std::borrow::Cow;

use super::{index::FIELDS, reasoning};
use crate::{
    compat::{CallIdForm, Compat, MadeBy, ReasoningField, SystemMessages},
    json::{self, Object, quoted},
    message::{Message, Role},
};

/// The content of a reply of which nothing else is left.
const NO_TEXT: &str = "(no text)";

/// Returns the messages in place of this one, or `None` if it's sent as it is.
pub(super) fn adapted(message: &Message, compat: &Compat, made_by: MadeBy) -> Option<Vec<String>> {
    let change = Change::of(message, compat, made_by);
    if !change.may_apply_to(message) {
        return None;
    }
    change.apply(&Object::read(message.json())?)
}

/// The changes of a message.
struct Change {
    role: Option<&'static str>,
    /// True if fields are left out that only their maker accepts.
    strips: bool,
    /// True if the reader made the message. It takes back its own `reasoning`.
    is_own: bool,
    /// True if other parts of a content than those of the format are left out, too.
    strips_parts: bool,
    /// True if a content that is a list of texts becomes a text.
    joins_texts: bool,
    needs_reasoning: bool,
    /// True if the message keeps its own `reasoning_content`. That of another maker is left out.
    takes_reasoning: bool,
    refuses_reasoning: bool,
    call_ids: CallIdForm,
    splits_calls: bool,
    has_calls: bool,
}

impl Change {
    fn of(message: &Message, compat: &Compat, made_by: MadeBy) -> Self {
        let is_reply = message.is_reply();
        let has_calls = !message.tool_calls().is_empty();
        let role = match message.role() {
            Role::System | Role::Developer if compat.system != SystemMessages::Anywhere => Some("user"),
            Role::Developer if compat.no_developer => Some("system"),
            _ => None,
        };
        let requires_reasoning =
            matches!(compat.reasoning, ReasoningField::RequiredOfOthers | ReasoningField::Required);
        let needs_reasoning = match compat.reasoning {
            ReasoningField::RequiredOfOthers => made_by != MadeBy::Reader,
            ReasoningField::Required => true,
            ReasoningField::OfMaker | ReasoningField::Refused => false,
        };
        Self {
            role,
            strips: compat.plain_fields || is_reply && made_by == MadeBy::Other,
            is_own: made_by == MadeBy::Reader,
            strips_parts: is_reply && made_by == MadeBy::Other,
            joins_texts: compat.text_content,
            needs_reasoning: needs_reasoning && has_calls,
            takes_reasoning: requires_reasoning && has_calls && made_by != MadeBy::Other,
            refuses_reasoning: is_reply && compat.reasoning == ReasoningField::Refused,
            call_ids: compat.call_ids,
            splits_calls: compat.single_calls && message.tool_calls().len() > 1,
            has_calls,
        }
    }

    /// Returns `false` if the message surely stays as it is. Nothing is parsed for it.
    fn may_apply_to(&self, message: &Message) -> bool {
        let chat = &message.index().chat;
        let has_list = chat.content.as_ref().is_some_and(|place| {
            !place.is_plain_text && message.json().as_bytes().get(place.range.start) == Some(&b'[')
        });
        let has_other_ids = || {
            let calls = message.tool_calls().iter().map(|call| call.id());
            let mut ids = calls.chain(message.answers().iter().map(|id| id.as_str()));
            ids.any(|id| !self.call_ids.accepts(id))
        };

        self.role.is_some()
            || self.strips && chat.has_fields_of_maker
            || (self.joins_texts || self.strips_parts || self.strips) && has_list
            || self.needs_reasoning
            || self.refuses_reasoning && chat.has_reasoning
            || self.splits_calls
            || has_other_ids()
    }

    fn apply(&self, message: &Object<'_>) -> Option<Vec<String>> {
        let mut is_changed = false;
        let mut fields = Vec::with_capacity(message.members().len() + 1);
        let mut calls = Vec::new();
        for member in message.last_members() {
            let json = member.value.get();
            if self.leaves_out(&member.name, json) {
                is_changed = true;
                continue;
            }

            let changed = match &*member.name {
                "role" => self.role.map(quoted),
                "content" => self.content(json),
                "tool_call_id" => self.id(json),
                "tool_calls" if self.has_calls => {
                    calls = json::entries(json).unwrap_or_default().into_iter().map(|call| self.call(call)).collect();
                    let is_any_changed = calls.iter().any(|call| matches!(call, Cow::Owned(_)));
                    is_any_changed.then(|| format!("[{}]", calls.join(",")))
                }
                _ => None,
            };
            is_changed |= changed.is_some();
            fields.push((&*member.name, member.quoted, changed.map_or(Cow::Borrowed(json), Cow::Owned)));
        }

        let lacks_reasoning = self.needs_reasoning && fields.iter().all(|(name, ..)| *name != REASONING_CONTENT);
        if lacks_reasoning {
            fields.push((REASONING_CONTENT, "\"reasoning_content\"", Cow::Borrowed("\"\"")));
        }
        if self.splits_calls && calls.len() > 1 {
            return Some(self.split(fields, &calls));
        }
        (is_changed || lacks_reasoning).then(|| vec![object(&fields)])
    }

    /// Returns `true` if a field is left out.
    fn leaves_out(&self, name: &str, json: &str) -> bool {
        if name == REASONING_CONTENT && self.takes_reasoning {
            return json == "null" && self.needs_reasoning;
        }
        if self.refuses_reasoning && reasoning::NAMES.contains(&name) {
            return true;
        }
        if name == "reasoning" && self.is_own {
            return false;
        }
        // Some makers write all fields, also those without a value, and other readers refuse them.
        self.strips && (!FIELDS.contains(&name) || name != "content" && is_nothing(json))
    }

    /// Returns another content than this one, or `None` if it stays.
    fn content(&self, content: &str) -> Option<String> {
        let parts = json::entries(content)?;
        let kept: Vec<Cow<'_, str>> = parts.iter().filter_map(|part| self.part(part)).collect();
        let is_changed = kept.len() < parts.len() || kept.iter().any(|part| matches!(part, Cow::Owned(_)));

        if kept.is_empty() && !parts.is_empty() {
            return Some(if self.has_calls { "null".to_owned() } else { quoted(NO_TEXT) });
        }
        if self.joins_texts
            && let Some(texts) = kept.iter().map(|part| text_of(part)).collect::<Option<Vec<_>>>()
        {
            return Some(quoted(&texts.join("\n")));
        }
        is_changed.then(|| format!("[{}]", kept.join(",")))
    }

    /// Returns a part of a content as it is sent, or `None` if it's left out.
    fn part<'a>(&self, json: &'a str) -> Option<Cow<'a, str>> {
        let Some(part) = Object::read(json).filter(|_| self.strips) else { return Some(Cow::Borrowed(json)) };
        let kind = part.text("type").unwrap_or_default();
        // Mistral's reasoning is such a part.
        if self.strips_parts && !matches!(&*kind, "text" | "refusal") {
            return None;
        }
        Some(only(json, &part, &["type", &*kind]))
    }

    /// Returns a call as it is sent.
    fn call<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let Some(call) = Object::read(json) else { return Cow::Borrowed(json) };
        let mut sent = if self.strips { plain_call(json, &call) } else { Cow::Borrowed(json) };
        if let Some(id) = call.get("id").and_then(|id| self.id(id))
            && let Some(call) = Object::read(&sent)
        {
            sent = Cow::Owned(call.with("id", &id));
        }
        sent
    }

    /// Returns the JSON of another id than this one, or `None` if it stays.
    fn id(&self, json: &str) -> Option<String> {
        let id = json::text(json)?;
        match self.call_ids.fit(&id) {
            Cow::Borrowed(_) => None,
            Cow::Owned(made) => Some(quoted(&made)),
        }
    }

    /// Returns one message for each call. The first one has everything else that the message says.
    fn split(&self, mut fields: Vec<(&str, &str, Cow<'_, str>)>, calls: &[Cow<'_, str>]) -> Vec<String> {
        let mut messages = Vec::with_capacity(calls.len());
        for call in calls {
            for (name, _, json) in &mut fields {
                if *name == "tool_calls" {
                    *json = Cow::Owned(format!("[{call}]"));
                }
            }
            messages.push(object(&fields));

            // The next ones have nothing but their call.
            fields.retain(|(name, ..)| matches!(*name, "role" | "content" | "tool_calls" | REASONING_CONTENT));
            fields.retain(|(name, ..)| *name != REASONING_CONTENT || self.needs_reasoning || self.takes_reasoning);
            for (name, _, json) in &mut fields {
                match *name {
                    "content" => *json = Cow::Borrowed("null"),
                    REASONING_CONTENT => *json = Cow::Borrowed("\"\""),
                    _ => {}
                }
            }
        }
        messages
    }
}

const REASONING_CONTENT: &str = "reasoning_content";

/// Returns the JSON of an object with these fields.
fn object(fields: &[(&str, &str, Cow<'_, str>)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(_, name, json)| format!("{name}:{json}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// Returns `true` for null and for an empty list.
fn is_nothing(json: &str) -> bool {
    json == "null" || json::entries(json).is_some_and(|entries| entries.is_empty())
}

/// Returns the text of a part, or `None` if it is something else.
fn text_of(part: &str) -> Option<String> {
    if let Some(text) = json::text(part) {
        return Some(text.into_owned());
    }
    let part = Object::read(part)?;
    let kind = part.text("type")?;
    part.string(&kind).filter(|_| matches!(&*kind, "text" | "refusal"))
}

/// Returns an object with only these of its members.
fn only<'a>(json: &'a str, object: &Object<'a>, names: &[&str]) -> Cow<'a, str> {
    let members = object.last_members();
    if members.iter().all(|member| names.contains(&&*member.name)) {
        return Cow::Borrowed(json);
    }
    let kept = members.into_iter().filter(|member| names.contains(&&*member.name));
    let kept: Vec<String> = kept.map(|member| format!("{}:{}", member.quoted, member.value.get())).collect();
    Cow::Owned(format!("{{{}}}", kept.join(",")))
}

/// Returns a call with only the members of the format.
fn plain_call<'a>(json: &'a str, call: &Object<'a>) -> Cow<'a, str> {
    let mut plain = only(json, call, &["id", "type", "function", "custom", "custom_tool"]);
    for name in ["function", "custom", "custom_tool"] {
        let Some(called) = call.get(name) else { continue };
        let Some(object) = Object::read(called) else { continue };
        if let Cow::Owned(called) = only(called, &object, &["name", "arguments", "input"])
            && let Some(before) = Object::read(&plain)
        {
            plain = Cow::Owned(before.with(name, &called));
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(json: &str, compat: Compat, made_by: MadeBy) -> Vec<String> {
        let message = Message::from_json(json).unwrap();
        let forms = message.adapted(&compat, made_by);
        let again = message.adapted(&compat, made_by);
        let forms = forms.map_or_else(|| vec![message], |forms| forms.to_vec());
        assert_eq!(again.map_or_else(|| forms.clone(), |forms| forms.to_vec()), forms);
        forms.iter().map(|form| form.json().to_owned()).collect()
    }

    const EVERYTHING: Compat = Compat::new();

    #[test]
    fn fields_of_the_maker_go_to_the_maker_alone() {
        for (reply, plain) in [
            (
                r#"{"role":"assistant","content":"Blue.","reasoning_content":"The user asks for a color."}"#,
                r#"{"role":"assistant","content":"Blue."}"#,
            ),
            (
                r#"{"role":"assistant","content":"Blue.","refusal":null,"annotations":[],"audio":null,"tool_calls":[ ]}"#,
                r#"{"role":"assistant","content":"Blue."}"#,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":[]},{"type":"text","text":"Blue."}]}"#,
                r#"{"role":"assistant","content":[{"type":"text","text":"Blue."}]}"#,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":[]}]}"#,
                r#"{"role":"assistant","content":"(no text)"}"#,
            ),
            (
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x","index":0,"extra_content":{},"function":{"name":"f","arguments":"{}","x":1}}]}"#,
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]}"#,
            ),
        ] {
            assert_eq!(sent(reply, EVERYTHING, MadeBy::Reader), [reply]);
            assert_eq!(sent(reply, EVERYTHING, MadeBy::Unknown), [reply]);
            assert_eq!(sent(reply, EVERYTHING, MadeBy::Other), [plain]);
            let refusing = Compat { plain_fields: true, ..EVERYTHING };
            let own = if reply.contains("thinking") { reply } else { plain };
            assert_eq!(sent(reply, refusing, MadeBy::Reader), [own], "only the maker has such parts");
        }
        let asked = r#"{"role":"user","content":"Hi","cache_control":{}}"#;
        assert_eq!(sent(asked, EVERYTHING, MadeBy::Other), [asked], "what callers write is theirs");
    }

    #[test]
    fn a_field_of_the_format_with_a_value_stays() {
        let reply = r#"{ "role":"assistant","content":"","refusal":"No.","name":"a" }"#;
        assert_eq!(sent(reply, Compat { plain_fields: true, ..EVERYTHING }, MadeBy::Other), [reply.trim()]);
    }

    #[test]
    fn instructions_within_the_list_get_another_role() {
        let [system, developer, user] =
            ["system", "developer", "user"].map(|role| format!(r#"{{"role":"{role}","content":"s"}}"#));
        let no_developer = Compat { no_developer: true, ..EVERYTHING };
        assert_eq!(sent(&developer, no_developer, MadeBy::Unknown), [&*system]);
        assert_eq!(sent(&system, no_developer, MadeBy::Unknown), [&*system]);
        for place in [SystemMessages::First, SystemMessages::Never] {
            let compat = Compat { system: place, ..no_developer };
            assert_eq!(sent(&system, compat, MadeBy::Unknown), [&*user]);
            assert_eq!(sent(&developer, compat, MadeBy::Unknown), [&*user]);
        }
    }

    #[test]
    fn lists_of_texts_become_a_text() {
        let compat = Compat { text_content: true, ..EVERYTHING };
        let texts = r#"{"role":"user","content":[{"type":"text","text":"a\""},"b"],"name":"n"}"#;
        assert_eq!(sent(texts, compat, MadeBy::Unknown), [r#"{"role":"user","content":"a\"\nb","name":"n"}"#]);
        let image =
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}"#;
        assert_eq!(sent(image, compat, MadeBy::Unknown), [image], "an image has no text");
    }

    #[test]
    fn calls_have_reasoning_where_it_is_required() {
        let call = |more: &str| {
            format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"x","function":{{"name":"f","arguments":"{{}}"}}}}]{more}}}"#
            )
        };
        let with = call(r#","reasoning_content":"r""#);
        let empty = call(r#","reasoning_content":"""#);
        for (reasoning, made_by, before, after) in [
            (ReasoningField::Required, MadeBy::Reader, call(""), &empty),
            (ReasoningField::Required, MadeBy::Reader, call(r#","reasoning_content":null"#), &empty),
            (ReasoningField::Required, MadeBy::Reader, with.clone(), &with),
            (ReasoningField::RequiredOfOthers, MadeBy::Reader, call(""), &call("")),
            (ReasoningField::RequiredOfOthers, MadeBy::Unknown, call(""), &empty),
            (ReasoningField::RequiredOfOthers, MadeBy::Other, call(r#","reasoning":"r""#), &empty),
            (ReasoningField::RequiredOfOthers, MadeBy::Other, with.clone(), &empty),
            (ReasoningField::RequiredOfOthers, MadeBy::Reader, with.clone(), &with),
            (ReasoningField::Refused, MadeBy::Reader, with.clone(), &call("")),
            (ReasoningField::Refused, MadeBy::Reader, call(r#","reasoning":"r","x":1"#), &call(r#","x":1"#)),
        ] {
            let compat = Compat { reasoning, ..EVERYTHING };
            assert_eq!(sent(&before, compat, made_by), [&**after], "{reasoning:?} {made_by:?} {before}");
        }
        let text = r#"{"role":"assistant","content":"a"}"#;
        assert_eq!(sent(text, Compat { reasoning: ReasoningField::Required, ..EVERYTHING }, MadeBy::Other), [text]);
    }

    #[test]
    fn a_call_and_its_result_get_the_same_id() {
        let id = "functions.weather:0";
        let call = format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","function":{{"name":"f","arguments":"{{}}"}}}}]}}"#
        );
        let result = format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"r"}}"#);
        for (form, made) in [
            (CallIdForm::Plain64, CallIdForm::Plain64.fit(id)),
            (CallIdForm::Alphanumeric9, CallIdForm::Alphanumeric9.fit(id)),
        ] {
            let compat = Compat { call_ids: form, ..EVERYTHING };
            assert_eq!(sent(&call, compat, MadeBy::Reader), [call.replace(id, &made)]);
            assert_eq!(sent(&result, compat, MadeBy::Reader), [result.replace(id, &made)]);
        }
        assert_eq!(sent(&call, Compat { call_ids: CallIdForm::AtMost64, ..EVERYTHING }, MadeBy::Reader), [call]);
    }

    #[test]
    fn several_calls_become_several_messages() {
        let calls = r#"{"role":"assistant","content":"a","reasoning_content":"r","tool_calls":[{"id":"x"},{"id":"y","function":{"name":"f","arguments":"{}"}}, {"id":"z","function":{"name":"g","arguments":"{}"}}]}"#;
        let message = Message::from_json(calls).unwrap().sendable().into_owned();
        let compat = Compat { single_calls: true, ..EVERYTHING };
        let split = sent(message.json(), compat, MadeBy::Unknown);
        let [y, z] = [&split[0], &split[1]].map(|json| Message::from_json(json).unwrap());
        assert_eq!(split.len(), 2);
        assert_eq!((y.tool_calls()[0].id(), z.tool_calls()[0].id()), ("y", "z"));
        assert_eq!((y.text().as_ref(), z.text().as_ref()), ("a", ""));
        assert!(y.json().contains("reasoning_content") && !z.json().contains("reasoning_content"));
        let both = Compat { reasoning: ReasoningField::Required, ..compat };
        let split = sent(message.json(), both, MadeBy::Other);
        assert!(split.iter().all(|json| json.contains("reasoning_content")), "{split:?}");
    }
}
