//! The lengths of JSON values as Python prints them, in code points. LangChain counts these.
//!
//! Python prints numbers and strings differently from JSON.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// Returns the length of `repr(json.loads(json))`, or the length of the text if it is not JSON.
pub(super) fn repr_len(json: &str) -> usize {
    try_repr_len(json).unwrap_or_else(|| json.chars().count())
}

/// Returns the length of `repr(json.loads(json))`, or `None` if it cannot be loaded.
pub(super) fn try_repr_len(json: &str) -> Option<usize> {
    value_len(json, str_repr_len)
}

/// Returns the length of `repr(json.loads(json, strict=False))`, or `None` if it cannot be loaded. It accepts control
/// characters in strings, because models write line ends into strings without escaping them.
pub(super) fn try_lenient_repr_len(json: &str) -> Option<usize> {
    try_repr_len(json).or_else(|| try_repr_len(&with_escaped_controls(json)?))
}

/// Returns the JSON with the control characters in its strings escaped, or `None` if there are none.
fn with_escaped_controls(json: &str) -> Option<String> {
    let (mut escaped, mut in_string, mut after_backslash) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if in_string && c < ' ' {
            // A control character after a backslash is an error in Python too.
            if after_backslash {
                return None;
            }
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
            in_string ^= c == '"' && !after_backslash;
        }
        after_backslash = in_string && c == '\\' && !after_backslash;
    }
    (escaped.len() > json.len()).then_some(escaped)
}

/// Returns the length of `json.dumps(json.loads(json))`.
pub(super) fn json_len(json: &str) -> usize {
    value_len(json, str_dumps_len).unwrap_or_else(|| json.chars().count())
}

/// The largest number of levels that is read. Python's `json` fails at about a thousand.
const MAX_LEVELS: usize = 1_000;

/// A list or an object whose end has not been read yet.
#[derive(Default)]
struct Open<'a> {
    /// The length of its elements or fields, without separators.
    len: usize,
    count: usize,
    is_object: bool,
    /// The key whose value comes next.
    key: Option<&'a str>,
    /// The lengths of the fields so far, by their keys.
    fields: HashMap<String, usize>,
}

impl<'a> Open<'a> {
    fn awaits_key(&self) -> bool {
        self.is_object && self.key.is_none()
    }

    /// Adds a value of this length.
    fn push(&mut self, value: usize, text_len: fn(&str) -> usize) {
        let Some(key) = self.key.take() else {
            self.len += value;
            self.count += 1;
            return;
        };
        let field = string_len(key, text_len) + ": ".len() + value;
        self.len += field;
        // If a key occurs twice, Python keeps the last value.
        match self.fields.insert(serde_json::from_str(key).unwrap_or_else(|_| key.to_owned()), field) {
            Some(before) => self.len -= before,
            None => self.count += 1,
        }
    }

    fn printed_len(&self) -> usize {
        "[]".len() + self.len + self.count.saturating_sub(1) * ", ".len()
    }
}

/// Returns the length of a value, with the lengths of strings given by `text_len`. Returns `None` if the text is not
/// JSON or has more than [`MAX_LEVELS`].
///
/// The time is linear: the function reads the text exactly twice. It does not recurse.
fn value_len(json: &str, text_len: fn(&str) -> usize) -> Option<usize> {
    // The loop below requires valid JSON.
    let json = serde_json::from_str::<&RawValue>(json).ok()?.get();
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut at = 0;
    while let Some(first) = json.as_bytes().get(at) {
        let rest = &json[at..];
        let value = match first {
            b'{' | b'[' if open.len() == MAX_LEVELS => return None,
            b'{' | b'[' => {
                open.push(Open { is_object: *first == b'{', ..Open::default() });
                at += 1;
                continue;
            }
            b'}' | b']' => {
                at += 1;
                open.pop()?.printed_len()
            }
            b'"' => {
                let string = &rest[..string_end(rest)];
                at += string.len();
                if let Some(object) = open.last_mut().filter(|open| open.awaits_key()) {
                    object.key = Some(string);
                    continue;
                }
                string_len(string, text_len)
            }
            b'-' | b'0'..=b'9' | b'a'..=b'z' => {
                let is_part = |byte: u8| matches!(byte, b'+' | b'-' | b'.' | b'E' | b'0'..=b'9' | b'a'..=b'z');
                let scalar = &rest[..rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len())];
                at += scalar.len();
                // Python's None, True and False are as long as null, true and false.
                if matches!(scalar, "null" | "true" | "false") { scalar.len() } else { number_len(scalar)? }
            }
            // White space, commas and colons.
            _ => {
                at += 1;
                continue;
            }
        };
        match open.last_mut() {
            Some(open) => open.push(value, text_len),
            None => return Some(value),
        }
    }
    None
}

/// Returns the end of the string with which the text begins.
fn string_end(json: &str) -> usize {
    let mut escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(json.len(), |end| end + "\"\"".len())
}

/// Returns the length of a JSON string as Python prints it.
fn string_len(json: &str, text_len: fn(&str) -> usize) -> usize {
    // Python escapes a lone surrogate in the same way as JSON.
    serde_json::from_str::<String>(json).map_or_else(|_| json.chars().count(), |string| text_len(&string))
}

/// Returns the length of `repr(text)`. Python uses single quotes, unless the text has single quotes and no double
/// quotes.
pub(super) fn str_repr_len(text: &str) -> usize {
    let quoted_single = !text.contains('\'') || text.contains('"');
    let char_len = |c: char| match c {
        '\\' | '\n' | '\r' | '\t' => 2,
        '\'' if quoted_single => 2,
        c if is_printable(c) => 1,
        '\0'..='\u{ff}' => "\\x00".len(),
        '\u{100}'..='\u{ffff}' => "\\u0000".len(),
        _ => "\\U00000000".len(),
    };
    "''".len() + text.chars().map(char_len).sum::<usize>()
}

/// Returns the length of `json.dumps(text)`, which escapes all characters outside of ASCII as UTF-16.
fn str_dumps_len(text: &str) -> usize {
    let char_len = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        ' '..='~' => 1,
        c => c.len_utf16() * "\\u0000".len(),
    };
    "\"\"".len() + text.chars().map(char_len).sum::<usize>()
}

/// Returns `true` if Python prints the character without escaping it. Rust escapes the same categories of characters in
/// the middle of a string.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let mut utf8 = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut utf8[1..]).len();
    std::str::from_utf8(&utf8[..end]).is_ok_and(|text| text.escape_debug().count() == 2)
}

/// Returns the length of a number as Python prints it. An integer keeps its digits. A float gets the fewest digits that
/// identify it, and an exponent if it is below 1e-4 or at least 1e16.
fn number_len(number: &str) -> Option<usize> {
    if !number.contains(['.', 'e', 'E']) {
        // Python has no negative zero of type int.
        return Some(if number == "-0" { 1 } else { number.len() });
    }
    let value: f64 = number.parse().ok()?;
    if value.is_infinite() {
        return Some(if value > 0.0 { "inf".len() } else { "-inf".len() });
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let digits = exponent.unsigned_abs().to_string().len().max(2);
        return Some(mantissa.len() + "e+".len() + digits);
    }
    let plain = format!("{value}");
    Some(plain.len() + if plain.contains('.') { 0 } else { ".0".len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_long_as_python_prints_them() {
        for (json, python) in [
            ("null", "None"),
            ("[true,false]", "[True, False]"),
            ("{}", "{}"),
            (r#"{"a":{"b":[1,2.50]},"c":""}"#, "{'a': {'b': [1, 2.5]}, 'c': ''}"),
            (r#"{"a":1,"a":22}"#, "{'a': 22}"),
            (
                "[-0,-0.0,1e2,1E+16,1e15,0.0001,0.00001,12345678901234567890123,1.5e300]",
                "[0, -0.0, 100.0, 1e+16, 1000000000000000.0, 0.0001, 1e-05, 12345678901234567890123, 1.5e+300]",
            ),
            (r#""it's""#, r#""it's""#),
            (r#""'\"""#, r#"'\'"'"#),
            (
                r#""\n\\\u0007\u0000\u00e4\u00ad\u200b\u0301\u4eca\ud83d\ude00\u00a0""#,
                r"'\n\\\x07\x00ä\xad\u200b́今😀\xa0'",
            ),
        ] {
            assert_eq!(repr_len(json), python.chars().count(), "{json}");
        }
        assert_eq!(repr_len(r#"{"a":"\ud83d","b":[]}"#), r"{'a': '\ud83d', 'b': []}".len());
        assert_eq!((try_repr_len("{no"), try_repr_len("\"no")), (None, None));
        assert_eq!(repr_len("{no"), 3);
    }

    #[test]
    fn json_with_too_many_levels_counts_as_plain_text() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(try_repr_len(&nested(MAX_LEVELS)), Some(2 * MAX_LEVELS));
        assert_eq!(try_repr_len(&nested(MAX_LEVELS + 1)), None);
        let deep = r#"{"a": "#.repeat(100_000) + "1" + &"}".repeat(100_000);
        assert_eq!((repr_len(&deep), json_len(&deep), try_lenient_repr_len(&deep)), (deep.len(), deep.len(), None));
    }

    #[test]
    fn repeated_keys_and_keys_with_lone_surrogates_count_as_python_prints_them() {
        assert_eq!(repr_len(r#"{"a":[1,2],"b":{},"\u0061":7}"#), "{'a': 7, 'b': {}}".len());
        assert_eq!(repr_len(r#"{"\ud83d":{"x":[]}}"#), r"{'\ud83d': {'x': []}}".len());
        assert_eq!(repr_len(r#" [ {} , [ ] , "]" , "\\" ] "#), r"[{}, [], ']', '\\']".len());
    }

    #[test]
    fn control_characters_in_strings_are_accepted_by_the_lenient_length() {
        for (json, python) in
            [("{\n\"a\\\"\":\t\"b\nc\"}", r#"{'a"': 'b\nc'}"#), ("[\"\\\\\", \"\u{0}\"]", r"['\\', '\x00']")]
        {
            assert_eq!(try_lenient_repr_len(json), Some(python.len()), "{json}");
        }
        for wrong in ["{\n", "[\"\\\n\"]", "\"\n"] {
            assert_eq!(try_lenient_repr_len(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn dumps_escapes_characters_outside_of_ascii() {
        for (json, dumped) in
            [(r#"{"a":"ä😀\u007f\n","b":[1]}"#, r#"{"a": "\u00e4\ud83d\ude00\u007f\n", "b": [1]}"#), ("[]", "[]")]
        {
            assert_eq!(json_len(json), dumped.len(), "{json}");
        }
    }
}
