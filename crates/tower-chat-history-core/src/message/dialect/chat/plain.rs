//! The index of the most common messages: a role and a text, in the forms in which this crate and most clients write
//! them. It is read without a JSON parser, because each load of a window reads the index of each message. Most texts
//! need no escapes, so the messages are also written without one.

use super::index::closes;
use crate::{
    message::{
        PartKinds,
        dialect::{
            Index,
            index::{ChatFields, ContentPlace},
        },
    },
    role::Role,
};

/// The number of bytes that are tested together.
const BLOCK: usize = 16;

/// Reads the index of a message of the form `{"role":"user","content":"text"}`, or of a reply of the form
/// `{"content":"text","role":"assistant"}`. Returns `None` if the message has another form, or is no JSON.
pub(super) fn read(json: &str) -> Option<Index> {
    let (index, len) = read_at_start(json)?;
    (len == json.len()).then_some(index)
}

/// Reads the index of a message at the beginning of a text, as [`read`] does. Also returns the message's length.
pub(crate) fn read_at_start(json: &str) -> Option<(Index, usize)> {
    let (role, text, end) = [
        (Role::User, r#"{"role":"user","content":""#, r#""}"#),
        (Role::Assistant, r#"{"role":"assistant","content":""#, r#""}"#),
        (Role::System, r#"{"role":"system","content":""#, r#""}"#),
        (Role::Assistant, r#"{"content":""#, r#"","role":"assistant"}"#),
    ]
    .into_iter()
    .find_map(|(role, start, end)| Some((role, json.strip_prefix(start)?, end)))?;
    let len = encoded_len(text.as_bytes())?;
    let start = json.len() - text.len();
    let rest = text.get(len..)?.strip_prefix(end)?;
    let index = index(role, ContentPlace::of(&json[start - 1..=start + len], start - 1));
    Some((index, json.len() - rest.len()))
}

/// Returns the index of a message in this role that has nothing but a text at this place.
pub(super) fn index(role: Role, content: ContentPlace) -> Index {
    let says_nothing = role == Role::Assistant && content.range.len() == r#""""#.len();
    let chat = ChatFields { content: Some(content), ..ChatFields::default() };
    let part_kinds = Some(PartKinds::default());
    Index { closes: closes(&role, says_nothing), says_nothing, part_kinds, chat, ..Index::new(role) }
}

/// Returns the length of the JSON string that begins before this text, up to its closing quote. Returns `None` if the
/// string is invalid or has a `\u`.
fn encoded_len(text: &[u8]) -> Option<usize> {
    let mut len = 0;
    loop {
        len += plain_len(text.get(len..)?);
        match text.get(len)? {
            b'"' => return Some(len),
            b'\\' if text.get(len + 1).is_some_and(|escaped| br#""\/bfnrt"#.contains(escaped)) => len += 2,
            _ => return None,
        }
    }
}

/// Returns `true` if a text needs no escapes in a JSON string.
pub(super) fn needs_no_escapes(text: &str) -> bool {
    plain_len(text.as_bytes()) == text.len()
}

/// Returns the number of bytes at the beginning that stand for themselves in a JSON string.
fn plain_len(text: &[u8]) -> usize {
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    // A block is tested without a branch for each byte.
    let is_plain_block = |block: &&[u8]| block.iter().fold(true, |plain, byte| plain & is_plain(byte));
    let start = text.chunks_exact(BLOCK).take_while(is_plain_block).count() * BLOCK;
    start + text[start..].iter().take_while(|byte| is_plain(byte)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::index::parse_any, *};
    use crate::message::dialect::chat::plain_json;

    #[test]
    fn messages_of_another_form_are_left_to_the_parser() {
        for json in [
            r#"{ "role":"user","content":"a"}"#,
            r#"{"role":"user","content":"a","name":"b"}"#,
            r#"{"role":"user","content":"a"} "#,
            r#"{"role":"user","content":["a"]}"#,
            r#"{"role":"user","content":"\u0061"}"#,
            r#"{"role":"tool","content":"a"}"#,
            r#"{"role":"user","content":""#,
            r#"{"content":"a","role":"user"}"#,
            r#"{"content":"a","role":"assistant","role":"user"}"#,
            r#"{"content":"a","role":"assistant"} "#,
            r#"{"content":"a"}"#,
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn the_json_of_any_text_is_what_serde_json_writes(text in r#"[ -~]{0,40}|([ -~äß😀]|\n|\x00|\x1f|\x7f|"|\\){0,60}"#) {
            let json = plain_json(&Role::User, &text);
            prop_assert_eq!(json, format!(r#"{{"role":"user","content":{}}}"#, serde_json::to_string(&text).unwrap()));
        }

        #[test]
        fn a_plain_message_has_the_index_that_the_parser_reads(
            role in prop::sample::select(vec![Role::User, Role::Assistant, Role::System]),
            text in r#"([ -~äß€😀]|\n|\t|"|\\){0,60}"#,
        ) {
            let quoted = serde_json::to_string(&text).unwrap();
            for json in [plain_json(&role, &text), format!(r#"{{"content":{quoted},"role":"assistant"}}"#)] {
                let index = read(&json);
                prop_assert!(index.is_some());
                prop_assert_eq!(index, parse_any(&json).ok());
            }
        }

        /// Text that is nearly such a message: it may be no JSON, or have other fields.
        #[test]
        fn whatever_is_read_is_what_the_parser_reads(
            text in r#"([a-c "\\{}:,\n]|\\[nrtbfux"/\\]|"}|","name":"|\u{1}){0,12}"#,
        ) {
            for (start, end) in [(r#"{"role":"user","content":""#, r#""}"#), (r#"{"content":""#, r#"","role":"assistant"}"#)] {
                let json = [start, &text, end].concat();
                if let Some(index) = read(&json) {
                    prop_assert_eq!(Some(index), parse_any(&json).ok());
                }
            }
        }
    }
}
