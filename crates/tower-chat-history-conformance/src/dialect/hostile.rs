//! Damaged elements, and the same elements in another spelling.

use serde_json::{Map, Value};

/// The values that replace each value of a sample.
const VALUES: [&str; 17] = [
    "null",
    "true",
    "-0",
    "1e400",
    r#""""#,
    r#""x""#,
    r#""\ud83d""#,
    r#""\u0000\u2028\\\"""#,
    "[]",
    "[ ]",
    "[null]",
    "[[]]",
    "{}",
    r#"{"type":"x","role":"x"}"#,
    r#"[{"type":5},{"type":"text"},"x"]"#,
    r#"[{"id":null},{"id":""},{"id":"x","type":"x"}]"#,
    r#"{"\ud83d":1}"#,
];

/// Stands for a value or a name until the text is written. It does not occur in samples.
const MARK: &str = "\u{E000}\u{E001}";

/// The number of nested lists in [`deep`]. The stack of a test's thread has 2 MiB, so a recursion overflows it if a
/// level takes 52 bytes.
const LEVELS: usize = 40_000;

/// Returns copies of a sample with a value of another type, without a field, with a repeated or renamed field, with a
/// repeated entry, and with an unknown field. Each copy also comes with a field whose name is a lone surrogate.
pub(super) fn damaged(sample: &str) -> Vec<String> {
    let Ok(sample) = serde_json::from_str::<Value>(sample) else { return Vec::new() };
    let mut damaged = Vec::new();
    for path in paths(&sample) {
        let marked = changed(&sample, &path, |value| *value = Value::from(MARK));
        damaged.extend(VALUES.iter().map(|value| marked.replace(&quoted(MARK), value)));
        let old = sample.pointer(&path).cloned().unwrap_or_default();
        damaged.extend(damaged_fields(&sample, &path, &old));
        if let Value::Array(entries) = &old {
            let repeated: Value = entries.iter().flat_map(|entry| [entry.clone(), entry.clone()]).collect();
            damaged.push(changed(&sample, &path, |value| *value = repeated));
        }
    }
    for at in 0..damaged.len() {
        if let Some(rest) = damaged[at].strip_prefix('{') {
            damaged.push(format!(r#"{{"\ud83d":"\ud83d",{rest}"#));
        }
    }
    damaged
}

/// Returns copies of a sample in which an object lacks a field, or has one more.
fn damaged_fields(sample: &Value, path: &str, object: &Value) -> Vec<String> {
    let Value::Object(fields) = object else { return Vec::new() };
    let one_more = changed_fields(sample, path, |fields| drop(fields.insert(MARK.to_owned(), Value::from(MARK))));
    let mut damaged =
        vec![with_field(&one_more, r#""unknown""#, "[[1.50]]"), with_field(&one_more, r#""\ud83d""#, r#""\ud83d""#)];
    for name in fields.keys() {
        damaged.push(changed_fields(sample, path, |fields| drop(fields.remove(name))));
        damaged.push(with_field(&one_more, &quoted(name), "null"));
        damaged.push(with_field(&one_more, &quoted(name), r#""x""#));
        damaged.push(changed_fields(sample, path, |fields| {
            let value = fields.remove(name).unwrap_or_default();
            fields.insert(format!("x_{name}"), value);
        }));
    }
    damaged
}

/// Puts this name and this value, as JSON, in place of the field whose name and value are the mark.
fn with_field(marked: &str, name: &str, value: &str) -> String {
    marked.replace(&format!("{}:", quoted(MARK)), &format!("{name}:")).replace(&quoted(MARK), value)
}

/// Returns pairs of copies of a sample: one value is replaced by nested lists, and by a few of them.
pub(super) fn deep(sample: &str) -> Vec<(String, String)> {
    let Ok(mut sample) = serde_json::from_str::<Value>(sample) else { return Vec::new() };
    if let Value::Object(fields) = &mut sample {
        fields.insert("x_unknown".to_owned(), Value::Null);
    }
    let nested = format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    let mut pairs = Vec::new();
    for path in paths(&sample) {
        let marked = changed(&sample, &path, |value| *value = Value::from(MARK));
        pairs.push((marked.replace(&quoted(MARK), &nested), marked.replace(&quoted(MARK), "[[]]")));
    }
    pairs
}

/// Returns a sample with white space between all tokens, and with escapes for all characters in strings.
pub(super) fn spelled(sample: &str) -> [String; 2] {
    let mut spaced = String::new();
    let mut escaped = String::new();
    let mut in_string = false;
    let mut after_backslash = false;
    for character in sample.chars() {
        let quote = character == '"' && !after_backslash;
        let is_plain = in_string && !quote && !after_backslash && character != '\\' && character.is_ascii();
        // The digits of an escape are escaped as well, so samples with such escapes are left as they are.
        if is_plain && !sample.contains("\\u") {
            escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            escaped.push(character);
        }

        let is_token = !in_string && "[]{},:".contains(character);
        spaced.push_str(if is_token { " \n" } else { "" });
        spaced.push(character);
        spaced.push_str(if is_token { "\t " } else { "" });
        in_string ^= quote;
        after_backslash = in_string && character == '\\' && !after_backslash;
    }
    [spaced, escaped]
}

/// Returns the JSON pointers of a value and of all values in it.
fn paths(value: &Value) -> Vec<String> {
    let mut paths = vec![String::new()];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        match value.pointer(&path) {
            Some(Value::Object(fields)) => {
                for field in fields.keys() {
                    let escaped = field.replace('~', "~0").replace('/', "~1");
                    paths.push(format!("{path}/{escaped}"));
                }
            }
            Some(Value::Array(entries)) => paths.extend((0..entries.len()).map(|entry| format!("{path}/{entry}"))),
            _ => {}
        }
        next += 1;
    }
    paths
}

fn changed(sample: &Value, path: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut copy = sample.clone();
    if let Some(value) = copy.pointer_mut(path) {
        change(value);
    }
    copy.to_string()
}

fn changed_fields(sample: &Value, path: &str, change: impl FnOnce(&mut Map<String, Value>)) -> String {
    changed(sample, path, |value| {
        if let Value::Object(fields) = value {
            change(fields);
        }
    })
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
