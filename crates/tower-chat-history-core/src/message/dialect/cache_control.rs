//! JSON without `cache_control`, by which callers mark the end of a cached prefix. They move the mark with each call.

use std::{borrow::Cow, sync::LazyLock};

use memchr::memmem::Finder;

use crate::json::{self, Object};

/// The name of the member.
pub(super) const NAME: &str = "cache_control";

/// Finds the name in a text. Nearly all messages do not have it.
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(NAME));

/// Finds the beginning of the escapes of ASCII.
static ESCAPES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br"\u00"));

/// Returns `false` only if JSON has no member of this name. `true` may be wrong.
pub(super) fn may_have_some(json: &str) -> bool {
    FINDER.find(json.as_bytes()).is_some() || has_escaped_letters(json.as_bytes())
}

/// Returns `true` if JSON has an escape from `\u0050` to `\u007f`. Every character of the name is in this range. Hardly
/// any JSON has such an escape.
fn has_escaped_letters(json: &[u8]) -> bool {
    ESCAPES.find_iter(json).any(|at| matches!(json.get(at + 4), Some(b'5'..=b'7')))
}

/// Returns the JSON without the members named `cache_control` in the objects at the first `levels` levels. Deeper
/// fields of this name are data, such as the parameters of a tool. `json` must be valid JSON.
pub(super) fn without(json: &str, levels: usize) -> Cow<'_, str> {
    if !may_have_some(json) {
        return Cow::Borrowed(json);
    }
    let mut kept = String::with_capacity(json.len());
    write(json, levels, &mut kept);
    Cow::Owned(kept)
}

/// Writes a value without the members. It recurses at most `levels` times, which are few.
fn write(json: &str, levels: usize, kept: &mut String) {
    let mut at = 0;
    if levels == 0 || !may_have_some(json) {
        // Nothing is left out.
    } else if let Some(object) = Object::read(json) {
        let mut members = object.members().iter().map(|member| (member, object.place(member))).peekable();
        while let Some((member, place)) = members.next() {
            if member.name != NAME {
                let value = member.value.get();
                kept.push_str(&json[at..place.end - value.len()]);
                write(value, levels - 1, kept);
                at = place.end;
                continue;
            }
            kept.push_str(&json[at..place.start]);
            // One of the commas around the member goes, too.
            if let Some((_, next)) = members.peek() {
                at = next.start;
            } else {
                at = json.len() - json[place.end..].trim_start().len();
                let before = kept.trim_end().strip_suffix(',').map(str::len);
                kept.truncate(before.unwrap_or(kept.len()));
            }
        }
    } else {
        for entry in json::entries(json).unwrap_or_default() {
            let place = json::range(json, entry);
            kept.push_str(&json[at..place.start]);
            write(entry, levels - 1, kept);
            at = place.end;
        }
    }
    kept.push_str(&json[at..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const LEVELS: usize = 4;

    #[test]
    fn the_member_goes_with_its_comma() {
        for (json, expected) in [
            (r#"{"cache_control":{"type":"ephemeral"}}"#, "{}"),
            (r#"{"a":1,"cache_control":{"type":"ephemeral","x":[{}]}}"#, r#"{"a":1}"#),
            (r#"{ "cache_control" : null , "a":1}"#, r#"{ "a":1}"#),
            (r#"{"a":1,"cache\u005Fcontrol":1,"\u0063ache_control":2}"#, r#"{"a":1}"#),
            (r#"{"a":1, "cache_control":"}\"," ,"b":2}"#, r#"{"a":1, "b":2}"#),
            (
                r#"{"content":[{"text":"t","cache_control":{}},{"cache_control":1,"text":"u"}]}"#,
                r#"{"content":[{"text":"t"},{"text":"u"}]}"#,
            ),
        ] {
            assert_eq!(without(json, LEVELS), expected);
        }
    }

    #[test]
    fn strings_and_deep_data_stay() {
        for json in [
            r#"{"role":"user","content":"a"}"#,
            r#"{"content":"cache_control"}"#,
            r#"{"content":"{\"cache_control\":{}}"}"#,
            r#"["cache_control"]"#,
            r#"[{"function":{"parameters":{"properties":{"cache_control":{}}}}}]"#,
        ] {
            assert_eq!(without(json, LEVELS), json);
        }
    }

    #[test]
    fn deep_values_take_no_recursion_and_no_square_time() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let json = format!(r#"{{"cache_control":{deep},"a":{deep}}}"#);
        assert_eq!(without(&json, LEVELS).len(), deep.len() + r#"{"a":}"#.len());
    }

    /// Removes the members from a parsed value.
    fn remove(value: &mut Value, level: usize) {
        match value {
            Value::Object(fields) => {
                if level < LEVELS {
                    fields.remove("cache_control");
                }
                fields.values_mut().for_each(|value| remove(value, level + 1));
            }
            Value::Array(elements) => elements.iter_mut().for_each(|value| remove(value, level + 1)),
            _ => {}
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(json!("cache_control")), Just(json!("a\"{[,:]}\\")), Just(json!(1.5)), Just(json!(null)),];
        leaf.prop_recursive(6, 40, 4, |inner| {
            let name = prop::sample::select(vec!["a", "b", "cache_control"]).prop_map(str::to_owned);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(name, inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_rest_is_the_value_without_the_members(value in value(), pretty in any::<bool>()) {
            let json = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let mut expected = value;
            remove(&mut expected, 0);
            prop_assert_eq!(serde_json::from_str::<Value>(&without(&json, LEVELS)).unwrap(), expected);
        }
    }
}
