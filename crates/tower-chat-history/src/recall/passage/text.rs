//! The texts of a message that are searched.

use std::borrow::Cow;

use tower_chat_history_core::{Message, Part, Role};

/// Returns `true` if a message can be found and shown again: it is not an instruction, and it has text or calls.
#[must_use]
pub fn is_recallable(message: &Message) -> bool {
    !message.is_instruction()
        && (!message.tool_calls().is_empty() || message.texts().iter().any(|text| !text.trim().is_empty()))
}

/// Returns `true` for the results of tools.
pub(super) fn is_result(message: &Message) -> bool {
    matches!(message.role(), Role::Tool | Role::Function)
}

/// Returns the text of a message, with those of its results. Its parts are separated by line feeds.
pub(crate) fn text_of(message: &Message) -> String {
    message.texts().join("\n")
}

/// Returns the name of the participant.
pub(crate) fn name_of(message: &Message) -> Option<&str> {
    let mut found = None;
    message.parts(&mut |part| {
        if let Part::Name(name) = part {
            found = Some(name);
        }
    });
    found
}

/// Returns the text of a message that has one text and nothing else, apart from a name.
pub(crate) fn only_text_of(message: &Message) -> Option<Cow<'_, str>> {
    let (mut only, mut has_more) = (None, false);
    message.parts(&mut |part| match part {
        Part::Text(text) | Part::Result { text, .. } if only.is_none() => only = Some(text),
        Part::Name(_) => {}
        _ => has_more = true,
    });
    only.filter(|_| !has_more)
}

/// Returns a text without the escapes of JSON strings, because arguments and results are often JSON: `\u00e4` becomes
/// its character, all other escapes become spaces. It reads any text, JSON or not.
pub(super) fn without_escapes(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('\\') else { return Cow::Borrowed(text) };
    let mut plain = String::with_capacity(text.len());
    let (mut rest, mut next) = (text, Some(first));
    while let Some(at) = next {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let units = escaped_units(rest);
        if units.is_empty() {
            plain.push(' ');
            // The backslash and the character after it.
            rest = rest.char_indices().nth(2).map_or("", |(end, _)| &rest[end..]);
        } else {
            plain.extend(char::decode_utf16(units.iter().copied()).map(|c| c.unwrap_or(' ')));
            rest = &rest[units.len() * 6..];
        }
        next = rest.find('\\');
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Returns the code units of the escapes `\uXXXX` that the text begins with, at most 64.
fn escaped_units(text: &str) -> Vec<u16> {
    let unit = |escape: &str| u16::from_str_radix(escape.strip_prefix("\\u")?, 16).ok();
    (0..64).map_while(|index| text.get(index * 6..index * 6 + 6).and_then(unit)).collect()
}

/// Returns the beginning and the end of a text, each of at most this many bytes. The end is empty if the beginning is
/// all of it.
pub(crate) fn ends(text: &str, bytes: usize) -> (&str, &str) {
    if text.len() <= bytes.saturating_mul(2) {
        return (text, "");
    }
    let boundary = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=bytes).rev().find(boundary).unwrap_or_default();
    let tail = (text.len() - bytes..text.len()).find(boundary).unwrap_or(text.len());
    (&text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_become_characters_or_spaces() {
        for (text, plain) in [
            (r#"{"a":"M\u00fcnchen\nnow"}"#, r#"{"a":"München now"}"#),
            (r"\ud83d\ude00 \ud83d x", "\u{1F600}   x"),
            (r"C:\temp\", "C: emp "),
            ("plain", "plain"),
            (r"\u12", " 12"),
        ] {
            assert_eq!(without_escapes(text), plain);
        }
    }

    #[test]
    fn instructions_and_empty_messages_are_not_recalled() {
        assert!(is_recallable(&Message::user("x")));
        for message in [Message::system("x"), Message::developer("x"), Message::assistant(" \n")] {
            assert!(!is_recallable(&message));
        }
    }

    proptest! {
        #[test]
        fn any_text_loses_its_escapes(text in "[\\\\u0-9a-fdé\"]{0,60}") {
            prop_assert!(!without_escapes(&text).contains('\\') || text.contains("\\u005c"));
        }

        #[test]
        fn ends_are_of_the_text(text in "\\PC{0,60}", bytes in 0_usize..80) {
            let (head, tail) = ends(&text, bytes);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(head.len() + tail.len() <= text.len());
        }
    }
}
