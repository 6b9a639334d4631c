//! The dialect: reading and writing elements.

use tower_chat_history_core::{CallId, Dialect, Digest, Index, Message, MessageError, Part, Role};

use super::{
    element::{Element, Known, Outcome, Speaker, kind_of},
    fields::{Fields, quoted},
};

/// A message format for tests, with all difficulties of real ones. See the [module docs](super#elements).
///
/// ```
/// use tower_chat_history_core::{Closes, Message, Role, Space};
/// use test_providers::signing::SigningDialect;
///
/// let call = r#"{"from":"model","call":{"id":"x","kind":"g","name":"look","input":"?"}}"#;
/// let call = Message::in_dialect(&SigningDialect, call)?;
/// assert_eq!(call.tool_calls()[0].call_id().space(), Space(1));
/// assert_eq!((call.role(), call.index().closes), (&Role::Assistant, Closes::AfterResult));
///
/// let thought = r#"{"from":"model","thinking":"Hm","signature":"00","text":"Yes"}"#;
/// let thought = Message::in_dialect(&SigningDialect, thought)?;
/// assert!(thought.bound().to_prefix);
/// assert_eq!(thought.unbound().map(Message::json), Some(r#"{"from":"model","text":"Yes"}"#));
/// # Ok::<(), tower_chat_history_core::MessageError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigningDialect;

impl SigningDialect {
    /// The name of this dialect.
    pub const NAME: &'static str = "test/signing";

    /// Returns the JSON of a user's element with a result for each of these calls, and then a text, if there is one.
    #[must_use]
    pub fn results<'c>(calls: impl IntoIterator<Item = (&'c CallId, &'c str)>, text: Option<&str>) -> String {
        let results: Vec<String> = calls.into_iter().map(|(call, text)| result(call, text)).collect();
        let text = text.map(|text| format!(r#","text":{}"#, quoted(text))).unwrap_or_default();
        format!(r#"{{"from":"user","results":[{}]{text}}}"#, results.join(","))
    }
}

fn result(call: &CallId, text: &str) -> String {
    format!(r#"{{"to":{},"kind":"{}","text":{}}}"#, quoted(call.as_str()), kind_of(call.space()), quoted(text))
}

impl Dialect for SigningDialect {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        Element::read(json).map(|element| element.index())
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        let Ok(element) = Element::read(message.json()) else { return };
        if let Speaker::Unknown(from) = element.speaker {
            return visit(Part::Other { kind: from.into(), text: message.json().into() });
        }
        let Known { text, results, thinking, signature, plan, sealed, .. } = element.known;
        for (call, Outcome { text, .. }) in message.answers().iter().zip(results.unwrap_or_default()) {
            visit(Part::Result { call, text: text.into() });
        }
        for reasoning in [thinking, plan].into_iter().flatten() {
            visit(Part::Reasoning(reasoning.into()));
        }
        for data in [signature, sealed].into_iter().flatten() {
            visit(Part::Sealed(data.len()));
        }
        if let Some(text) = text {
            visit(Part::Text(text.into()));
        }
        for call in message.tool_calls() {
            visit(Part::Call(call));
        }
    }

    /// A system element may stand only at the beginning, so instructions are said by the user.
    fn compose(&self, role: &Role, text: &str) -> String {
        let from = if *role == Role::Assistant { "model" } else { "user" };
        format!(r#"{{"from":"{from}","text":{}}}"#, quoted(text))
    }

    fn abandoned(&self, call: &CallId) -> String {
        let text = format!("[{}: no result, this call was abandoned]", kind_of(call.space()));
        Self::results([(call, text.as_str())], None)
    }

    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        if !message.answers().iter().any(clears) {
            return None;
        }
        let fields = Fields::read(message.json())?;
        let entries = fields.entries("results").into_iter().zip(message.answers()).map(|(entry, call)| {
            let cleared = Fields::read(entry).filter(|_| clears(call));
            cleared.map_or_else(|| entry.to_owned(), |entry| entry.with("text", quoted(placeholder)).json())
        });
        let entries: Vec<String> = entries.collect();
        Some(fields.with("results", format!("[{}]", entries.join(","))).json())
    }

    fn answering(&self, message: &Message, kept: &[CallId]) -> Option<String> {
        let fields = Fields::read(message.json())?;
        let mut kept = kept.to_vec();
        // Of several results of one call, the first ones are kept.
        let mut is_kept = |call: &CallId| kept.iter().position(|id| id == call).map(|at| kept.remove(at)).is_some();
        let entries = fields.entries("results").into_iter().zip(message.answers());
        let entries: Vec<String> =
            entries.filter(|(_, call)| is_kept(call)).map(|(entry, _)| entry.to_owned()).collect();
        let changed = if entries.is_empty() {
            fields.without(&["results"])
        } else {
            fields.with("results", format!("[{}]", entries.join(",")))
        };
        unless_empty(changed.json())
    }

    fn unbound(&self, message: &Message) -> Option<String> {
        let bound = ["thinking", "signature", "sealed", "by", "compacts"];
        unless_empty(Fields::read(message.json())?.without(&bound).json())
    }

    fn unbound_from_prompt(&self, message: &Message) -> Option<String> {
        unless_empty(Fields::read(message.json())?.without(&["thinking", "signature"]).json())
    }

    /// Returns the message without a text or a list of results that is empty.
    fn sendable(&self, message: &Message) -> String {
        let (Ok(element), Some(fields)) = (Element::read(message.json()), Fields::read(message.json())) else {
            return message.json().to_owned();
        };
        let mut empty = Vec::new();
        if element.text().is_none() {
            empty.push("text");
        }
        if element.results().is_empty() {
            empty.push("results");
        }
        fields.without(&empty).json()
    }

    /// Returns the digest of all fields except `mark`.
    fn digest(&self, json: &str) -> Digest {
        match Fields::read(json) {
            Some(fields) => Digest::of(fields.without(&["mark"]).json().as_bytes()),
            None => Digest::of(json.as_bytes()),
        }
    }
}

/// Returns the JSON of an element, or `None` if the element says nothing.
fn unless_empty(json: String) -> Option<String> {
    Element::read(&json).is_ok_and(|element| !element.says_nothing()).then_some(json)
}
