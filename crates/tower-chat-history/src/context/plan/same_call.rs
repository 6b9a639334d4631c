//! The comparison of calls that a caller resends with those of the log.

use serde_json::Value;
use tower_chat_history_core::ToolCall;

/// Returns `true` if two calls have the same id and name, and the same arguments.
///
/// Arguments are the same if they are the same text, or the same JSON value. Clients read arguments that are objects,
/// and write them again, so white space, escapes, the order of members and the form of numbers can differ.
pub(super) fn is_same_call(resent: &ToolCall, logged: &ToolCall) -> bool {
    resent.call_id() == logged.call_id()
        && resent.name() == logged.name()
        && resent.is_custom() == logged.is_custom()
        && (resent.arguments() == logged.arguments() || is_same_json(resent.arguments(), logged.arguments()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_the_same_in_any_spelling() {
        for (one, other) in [
            (r#"{"location": "SF", "unit":"c"}"#, r#"{"unit":"c","location":"SF"}"#),
            (r#"{"a":[1.0,"\u00e9",null]}"#, r#"{ "a": [1, "é", null] }"#),
            (r#"{"a":12345678901234567890}"#, r#"{"a":12345678901234567000}"#),
            ("{", "{"),
        ] {
            assert!(one == other || is_same_json(one, other), "{one} {other}");
        }
    }

    #[test]
    fn other_arguments_are_not_the_same() {
        let deep = |text: &str| format!("{}{text}{}", "[".repeat(10_000), "]".repeat(10_000));
        for (one, other) in [
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#),
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
            (r#"{"a":"1"}"#, r#"{"a":1}"#),
            ("{", "{ "),
            (&*deep("1"), &*deep(" 1")),
        ] {
            assert!(!is_same_json(one, other), "{one} {other}");
        }
    }
}
