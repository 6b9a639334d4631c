//! How long a JSON value is when Python prints it: LangChain counts characters of that.
//!
//! Only lengths are needed, in code points. Numbers and strings of Python look otherwise than those of JSON.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// The length of `repr(json.loads(json))`. What is no JSON has the length it has.
pub(super) fn repr_len(json: &str) -> usize {
    try_repr_len(json).unwrap_or_else(|| json.chars().count())
}

/// The length of `repr(json.loads(json))`, if that can be loaded.
pub(super) fn try_repr_len(json: &str) -> Option<usize> {
    value_len(json, str_repr_len)
}

/// The length of `repr(json.loads(json, strict=False))`, if that can be loaded: models write line ends into strings as they
/// are.
pub(super) fn try_lenient_repr_len(json: &str) -> Option<usize> {
    try_repr_len(json).or_else(|| try_repr_len(&with_escaped_controls(json)?))
}

/// The same with the control characters in strings escaped, if there are any.
fn with_escaped_controls(json: &str) -> Option<String> {
    let (mut escaped, mut in_string, mut after_backslash) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if in_string && c < ' ' {
            // Behind a backslash it is an error in Python too.
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

/// The length of `json.dumps(json.loads(json))`.
pub(super) fn json_len(json: &str) -> usize {
    value_len(json, str_dumps_len).unwrap_or_else(|| json.chars().count())
}

/// The most levels that are read. Python's own `json` gives up near a thousand.
const MAX_LEVELS: usize = 1_000;

/// A list or an object whose end has not come.
#[derive(Default)]
struct Open<'a> {
    /// Of what it has, without what stands between that.
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

    /// Takes in a value of that length.
    fn push(&mut self, value: usize, text: fn(&str) -> usize) {
        let Some(key) = self.key.take() else {
            self.len += value;
            self.count += 1;
            return;
        };
        let field = string_len(key, text) + ": ".len() + value;
        self.len += field;
        // Of a key that stands twice the last value counts, there as here.
        match self.fields.insert(serde_json::from_str(key).unwrap_or_else(|_| key.to_owned()), field) {
            Some(before) => self.len -= before,
            None => self.count += 1,
        }
    }

    fn printed(&self) -> usize {
        "[]".len() + self.len + self.count.saturating_sub(1) * ", ".len()
    }
}

/// The length of a value, with strings as `text` has them. `None` if it is no JSON, or has more than [`MAX_LEVELS`].
///
/// It goes over the text twice, whatever the text is, and does not recurse.
fn value_len(json: &str, text: fn(&str) -> usize) -> Option<usize> {
    // What follows relies on it that this is JSON.
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
                open.pop()?.printed()
            }
            b'"' => {
                let string = &rest[..string_end(rest)];
                at += string.len();
                if let Some(object) = open.last_mut().filter(|open| open.awaits_key()) {
                    object.key = Some(string);
                    continue;
                }
                string_len(string, text)
            }
            b'-' | b'0'..=b'9' | b'a'..=b'z' => {
                let is_part = |byte: u8| matches!(byte, b'+' | b'-' | b'.' | b'E' | b'0'..=b'9' | b'a'..=b'z');
                let scalar = &rest[..rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len())];
                at += scalar.len();
                // None, True and False of Python, null, true and false of JSON: the same lengths.
                if matches!(scalar, "null" | "true" | "false") { scalar.len() } else { number_len(scalar)? }
            }
            // White space, commas and colons.
            _ => {
                at += 1;
                continue;
            }
        };
        match open.last_mut() {
            Some(open) => open.push(value, text),
            None => return Some(value),
        }
    }
    None
}

/// Where the string ends that a text begins with.
fn string_end(json: &str) -> usize {
    let mut escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(json.len(), |end| end + "\"\"".len())
}

/// The length of a string, which stands here as JSON has it.
fn string_len(json: &str, text: fn(&str) -> usize) -> usize {
    // A lone surrogate is escaped by Python as it stands here.
    serde_json::from_str::<String>(json).map_or_else(|_| json.chars().count(), |string| text(&string))
}

/// The length of `repr(text)`: single quotes, unless there are single quotes and no double ones in it.
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

/// The length of `json.dumps(text)`, which escapes everything outside of ASCII, as UTF-16.
fn str_dumps_len(text: &str) -> usize {
    let char_len = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        ' '..='~' => 1,
        c => c.len_utf16() * "\\u0000".len(),
    };
    "\"\"".len() + text.chars().map(char_len).sum::<usize>()
}

/// Returns whether Python prints the character as it is. Rust escapes the same categories in the middle of a string.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let mut utf8 = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut utf8[1..]).len();
    std::str::from_utf8(&utf8[..end]).is_ok_and(|text| text.escape_debug().count() == 2)
}

/// An integer has the digits it has. A float is printed with the fewest digits that name it, with an exponent below 1e-4 and
/// from 1e16 on.
fn number_len(number: &str) -> Option<usize> {
    if !number.contains(['.', 'e', 'E']) {
        // Python has no negative zero among its integers.
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
    fn what_has_too_many_levels_has_the_length_it_has() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(try_repr_len(&nested(MAX_LEVELS)), Some(2 * MAX_LEVELS));
        assert_eq!(try_repr_len(&nested(MAX_LEVELS + 1)), None);
        let deep = r#"{"a": "#.repeat(100_000) + "1" + &"}".repeat(100_000);
        assert_eq!((repr_len(&deep), json_len(&deep), try_lenient_repr_len(&deep)), (deep.len(), deep.len(), None));
    }

    #[test]
    fn keys_that_stand_twice_and_keys_that_are_no_unicode_are_counted_as_they_are_printed() {
        assert_eq!(repr_len(r#"{"a":[1,2],"b":{},"\u0061":7}"#), "{'a': 7, 'b': {}}".len());
        assert_eq!(repr_len(r#"{"\ud83d":{"x":[]}}"#), r"{'\ud83d': {'x': []}}".len());
        assert_eq!(repr_len(r#" [ {} , [ ] , "]" , "\\" ] "#), r"[{}, [], ']', '\\']".len());
    }

    #[test]
    fn control_characters_in_strings_can_be_loaded() {
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
    fn dumps_escapes_what_is_not_ascii() {
        for (json, dumped) in
            [(r#"{"a":"ä😀\u007f\n","b":[1]}"#, r#"{"a": "\u00e4\ud83d\ude00\u007f\n", "b": [1]}"#), ("[]", "[]")]
        {
            assert_eq!(json_len(json), dumped.len(), "{json}");
        }
    }
}
