//! Calls in another dialect.

use std::{borrow::Cow, fmt};

use serde::de::IgnoredAny;
use serde_json::Value;

use super::id::StatedId;
use crate::{json::quoted, message::dialect::ToolCall};

/// A call that is written in another dialect, always as the call of a function.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct StatedCall<'a> {
    /// The id.
    pub id: StatedId<'a>,
    call: &'a ToolCall,
}

/// The largest number of levels of lists and objects in arguments. Deeper arguments become a text.
const MAX_LEVELS: usize = 100;

/// The maximum length of a function's name, in bytes.
const MAX_NAME: usize = 64;

impl<'a> StatedCall<'a> {
    /// Creates the call.
    #[must_use]
    pub fn new(call: &'a ToolCall) -> Self {
        Self { id: StatedId::new(call.call_id()), call }
    }

    /// Returns the name of the function with letters, digits, `_` and `-` only, and at most 64 of them. Each other
    /// character becomes `_`.
    #[must_use]
    pub fn name(&self) -> Cow<'a, str> {
        let name = self.call.name();
        let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_legal) {
            return Cow::Borrowed(name);
        }
        let legal: String = name.chars().take(MAX_NAME).map(|c| if is_legal(c) { c } else { '_' }).collect();
        Cow::Owned(if legal.is_empty() { "_".to_owned() } else { legal })
    }

    /// Returns the arguments as the JSON of an object. An object stays as it is written. Any other text, such as the
    /// input of a custom tool, becomes `{"input":"…"}`. An empty one becomes `{}`.
    #[must_use]
    pub fn arguments(&self) -> Cow<'a, str> {
        let text = self.call.arguments();
        if text.trim().is_empty() {
            return Cow::Borrowed("{}");
        }
        let is_object = !self.call.is_custom() && text.trim_start().starts_with('{') && is_plain(text);
        if is_object { Cow::Borrowed(text.trim()) } else { Cow::Owned(format!(r#"{{"input":{}}}"#, quoted(text))) }
    }
}

/// Returns `true` if the text is JSON that every parser reads: it has few levels, and all strings are Unicode.
fn is_plain(text: &str) -> bool {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return false;
    }
    // serde_json reads at most 127 levels into a value.
    let (open, close) = ("[".repeat(127 - MAX_LEVELS), "]".repeat(127 - MAX_LEVELS));
    serde_json::from_str::<Value>(&[open.as_str(), text, close.as_str()].concat()).is_ok()
}

impl fmt::Debug for StatedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.id)
            .field("name", &self.call.name())
            .field("arguments_bytes", &self.call.arguments().len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::dialect::{CallId, Space};

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall::new(CallId::new(Space::DEFAULT, "x"), name, arguments)
    }

    #[test]
    fn arguments_are_always_an_object() {
        let deep = |levels: usize| format!("{}{}", r#"{"a":"#.repeat(levels) + "1", "}".repeat(levels));
        for (arguments, expected) in [
            ("", "{}".to_owned()),
            (" \n", "{}".to_owned()),
            (r#" {"a": [1.50]} "#, r#"{"a": [1.50]}"#.to_owned()),
            (r#"{"a""#, r#"{"input":"{\"a\""}"#.to_owned()),
            ("{}],[{}", r#"{"input":"{}],[{}"}"#.to_owned()),
            ("[1]", r#"{"input":"[1]"}"#.to_owned()),
            ("null", r#"{"input":"null"}"#.to_owned()),
            (r#"{"a":"\ud83d"}"#, r#"{"input":"{\"a\":\"\\ud83d\"}"}"#.to_owned()),
            (&deep(MAX_LEVELS), deep(MAX_LEVELS)),
            (&deep(MAX_LEVELS + 1), format!(r#"{{"input":{}}}"#, quoted(&deep(MAX_LEVELS + 1)))),
        ] {
            let call = call("f", arguments);
            assert_eq!(StatedCall::new(&call).arguments(), expected, "{arguments}");
        }
        let custom = call("f", "{}").custom();
        assert_eq!(StatedCall::new(&custom).arguments(), r#"{"input":"{}"}"#);
    }

    #[test]
    fn names_have_only_characters_that_all_providers_accept() {
        for (name, expected) in [("get_it-2", "get_it-2"), ("a.b/c ä", "a_b_c__"), ("", "_"), ("é", "_")] {
            let call = call(name, "");
            assert_eq!(StatedCall::new(&call).name(), expected);
        }
        let long = call(&"n".repeat(65), "");
        assert_eq!(StatedCall::new(&long).name(), "n".repeat(64));
    }
}
