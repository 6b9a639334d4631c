//! Joining JSON values from their pieces, without knowledge of their fields.

mod fields;
mod list;

pub(super) use self::fields::Fields;
use tower_chat_history_core::json;

use self::list::{Key, List};
use super::{TooLarge, half_pair::without_half_pair};

/// The fields whose text is replaced by a later piece. In other fields, a later piece is appended.
const REPLACED: [&str; 7] = ["role", "type", "id", "name", "format", "model", "provider"];

/// The largest number of levels at which values are joined. For deeper values, the last one applies. The limit ends
/// the recursion. No provider nests values that deep.
const MAX_DEPTH: usize = 16;

/// A JSON value to which later pieces may be joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A value that is not a string, as JSON.
    Raw(String),
    /// A string's text as it is escaped, without its quotes.
    Text(String),
    Object(Fields),
    List(List),
}

impl Node {
    pub(super) fn new(json: &str) -> Self {
        match json.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Raw(json.to_owned()),
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Raw(raw) if raw == "null")
    }

    pub(super) const fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// Returns `true` for a text and for an array that are not empty.
    pub(super) fn has_content(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Raw(json) => json.strip_prefix('[').is_some_and(|rest| rest.trim_ascii_start() != "]"),
            Self::Object(_) => false,
        }
    }

    /// Joins a later piece. `name` is the name of the field.
    fn join(&mut self, name: &str, json: &str, depth: usize) -> Result<(), TooLarge> {
        let piece = Self::new(json);
        if piece.is_null() {
            return Ok(());
        }
        if self.is_null() || depth >= MAX_DEPTH {
            *self = piece;
            return Ok(());
        }
        self.expand()?;
        match (&mut *self, piece) {
            (Self::Text(text), Self::Text(piece)) if REPLACED.contains(&name) => {
                if !piece.is_empty() {
                    *text = piece;
                }
            }
            (Self::Text(text), Self::Text(piece)) => text.push_str(&piece),
            // One provider streams content that is sometimes a text and sometimes a list of parts. In a list, an
            // empty text changes nothing.
            (_, Self::Text(piece)) if piece.is_empty() => {}
            (Self::Object(fields), Self::Raw(_)) if json.starts_with('{') => fields.join(json, depth + 1)?,
            (Self::List(list), Self::Raw(_)) if json.starts_with('[') => list.append(name, json, depth + 1)?,
            (Self::List(list), Self::Text(_)) if name == "content" => list.push(name, &text_part(json), depth + 1)?,
            (Self::Text(text), Self::Raw(_)) if name == "content" && json.starts_with('[') && !text.is_empty() => {
                let mut list = List::default();
                list.push(name, &text_part(&format!("\"{text}\"")), depth + 1)?;
                list.append(name, json, depth + 1)?;
                *self = Self::List(list);
            }
            (_, piece) => *self = piece,
        }
        Ok(())
    }

    /// Reads an object or an array that is still JSON text, so that pieces can be joined to it.
    fn expand(&mut self) -> Result<(), TooLarge> {
        let Self::Raw(json) = self else { return Ok(()) };
        if json.starts_with('{') {
            let mut fields = Fields::default();
            fields.join(json, MAX_DEPTH)?;
            *self = Self::Object(fields);
        } else if let Some(elements) = json::entries(json) {
            let mut list = List::default();
            elements.into_iter().try_for_each(|element| list.add(Key::of(element)?, element))?;
            *self = Self::List(list);
        }
        Ok(())
    }

    /// Leaves out an [escaped half of a character](without_half_pair) at the end of each text that was joined.
    pub(super) fn end_texts(&mut self) {
        match self {
            Self::Text(text) => text.truncate(without_half_pair(text).len()),
            Self::Object(fields) => fields.end_texts(),
            Self::List(list) => list.end_texts(),
            Self::Raw(_) => {}
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Raw(json) => out.push_str(json),
            Self::Text(text) => out.extend(["\"", text, "\""]),
            Self::Object(fields) => {
                out.push('{');
                fields.write(out, |_, _| true);
                out.push('}');
            }
            Self::List(list) => {
                out.push('[');
                list.write(out);
                out.push(']');
            }
        }
    }
}

/// Returns a content part with a text. `quoted` is the text as a JSON string.
fn text_part(quoted: &str) -> String {
    format!(r#"{{"type":"text","text":{quoted}}}"#)
}

#[cfg(test)]
mod tests {
    use super::{super::members::MAX_PARTS, *};

    fn joined(pieces: &[&str]) -> String {
        let mut fields = Fields::default();
        pieces.iter().for_each(|piece| assert!(fields.join(piece, 0).is_ok()));
        let mut out = String::new();
        Node::Object(fields).write(&mut out);
        out
    }

    #[test]
    fn one_piece_is_kept_byte_for_byte() {
        let piece = r#"{"a": { "z":1.50, "b" : [ 1e3 ] },"c":"\u00e4\/","d":[ {"index":0} ]}"#;
        assert_eq!(joined(&[piece]), piece.replace("\"a\": {", "\"a\":{"));
    }

    #[test]
    fn text_is_appended_and_names_are_replaced() {
        assert_eq!(
            joined(&[r#"{"role":"assistant","x":"a"}"#, r#"{"role":"assistant","x":"b","id":""}"#, r#"{"x":null}"#]),
            r#"{"role":"assistant","x":"ab","id":""}"#
        );
        assert_eq!(joined(&[r#"{"x":"\ud83d"}"#, r#"{"x":"\ude00"}"#]), r#"{"x":"\ud83d\ude00"}"#);
        assert_eq!(joined(&[r#"{"x":null,"y":1}"#, r#"{"x":"a","y":2}"#]), r#"{"x":"a","y":2}"#);
        assert_eq!(joined(&[r#"{"x":"a"}"#, r#"{"\u0078":"b"}"#]), r#"{"x":"ab"}"#);
    }

    #[test]
    fn elements_are_appended_and_those_with_an_index_are_joined() {
        assert_eq!(
            joined(&[
                r#"{"r":[{"type":"t","text":"a","index":0}]}"#,
                r#"{"r":[{"type":"t","text":"b","index":0.0},{"index":1,"text":"c"}]}"#,
            ]),
            r#"{"r":[{"type":"t","text":"ab","index":0.0},{"index":1,"text":"c"}]}"#
        );
        assert_eq!(joined(&[r#"{"r":[1]}"#, r#"{"r":[ 2.0]}"#]), r#"{"r":[1,2.0]}"#);
    }

    #[test]
    fn elements_with_the_same_index_and_different_types_or_ids_are_not_joined() {
        let pieces = [
            r#"{"r":[{"index":0,"type":"a","x":"1"}]}"#,
            r#"{"r":[{"index":0,"type":"b","x":"2"}]}"#,
            r#"{"r":[{"index":0,"type":"a","id":"i","x":"3"}]}"#,
            r#"{"r":[{"index":0,"type":"a","id":"j","x":"4"}]}"#,
        ];
        assert_eq!(
            joined(&pieces),
            r#"{"r":[{"index":0,"type":"a","x":"13","id":"i"},{"index":0,"type":"b","x":"2"},{"index":0,"type":"a","id":"j","x":"4"}]}"#
        );
    }

    #[test]
    fn content_may_change_between_text_and_parts() {
        assert_eq!(
            joined(&[r#"{"content":""}"#, r#"{"content":[{"type":"image"}]}"#, r#"{"content":"a"}"#]),
            r#"{"content":[{"type":"image"},{"type":"text","text":"a"}]}"#
        );
        assert_eq!(
            joined(&[r#"{"content":"a"}"#, r#"{"content":[{"type":"image"}]}"#]),
            r#"{"content":[{"type":"text","text":"a"},{"type":"image"}]}"#
        );
    }

    #[test]
    fn parts_of_text_and_thinking_are_joined_to_the_previous_part() {
        let thought = |text: &str| {
            format!(r#"{{"content":[{{"type":"thinking","thinking":[{{"type":"text","text":"{text}"}}]}}]}}"#)
        };
        let pieces =
            [&thought("a"), &thought("b"), r#"{"content":"c"}"#, r#"{"content":[{"type":"text","text":"d"}]}"#];
        assert_eq!(
            joined(&pieces),
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"ab"}]},{"type":"text","text":"cd"}]}"#
        );
        let signed = r#"{"content":[{"type":"thinking","thinking":"a","signature":"s"}]}"#;
        let next = r#"{"content":[{"type":"thinking","thinking":"b"}]}"#;
        let apart =
            r#"{"content":[{"type":"thinking","thinking":"a","signature":"s"},{"type":"thinking","thinking":"b"}]}"#;
        assert_eq!(joined(&[signed, next]), apart, "a signed part is complete");
    }

    #[test]
    fn pieces_of_a_thinking_block_are_joined_until_it_is_signed() {
        let pieces = |blocks: &[&str]| {
            let piece = |block: &&str| format!(r#"{{"thinking_blocks":[{block}]}}"#);
            let pieces: Vec<String> = blocks.iter().map(piece).collect();
            let joined = joined(&pieces.iter().map(String::as_str).collect::<Vec<_>>());
            joined.strip_prefix(r#"{"thinking_blocks":["#).unwrap().strip_suffix("]}").unwrap().to_owned()
        };
        let block = |text: &str, signature: &str| {
            format!(r#"{{"type":"thinking","thinking":"{text}","signature":"{signature}"}}"#)
        };
        let redacted = r#"{"type":"redacted_thinking","data":"x"}"#;
        let (a, b, signed) = (block("a", ""), block("b", ""), block("", "s"));
        assert_eq!(pieces(&[&a, &b, &signed]), block("ab", "s"));
        assert_eq!(pieces(&[&a, r#"{"type":"thinking","signature":"s"}"#]), block("a", "s"), "without a text");
        assert_eq!(pieces(&[&a, &signed, &b]), [block("a", "s"), b.clone()].join(","), "a signed block is complete");
        let whole = block("b", "t");
        assert_eq!(pieces(&[&a, &whole]), [&*a, &whole].join(","), "a block with text and signature is whole");
        assert_eq!(pieces(&[&signed, &signed]), [&*signed, &signed].join(","), "blocks without text");
        assert_eq!(pieces(&[&a, redacted, &b]), [&*a, redacted, &b].join(","));
    }

    #[test]
    fn deep_values_are_joined_without_endless_recursion() {
        let deep = format!("{{\"a\":{}1{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        assert!(joined(&[&deep, &deep]).len() >= deep.len());
    }

    #[test]
    fn a_large_index_takes_no_memory_and_too_many_are_refused() {
        let one = |index: u64| format!(r#"{{"r":[{{"index":{index}}}]}}"#);
        assert_eq!(joined(&[&one(4_000_000_000), &one(4_000_000_000)]), one(4_000_000_000));
        let mut fields = Fields::default();
        let all = (0..=MAX_PARTS as u64).try_for_each(|index| fields.join(&one(index), 0));
        assert!(all.is_err());
    }
}
