//! The keys of the conversations under a prefix.

use tower_chat_history_core::{Cursor, Prefix};

/// A text that is greater than every key. Keys are ASCII and have no control characters.
const GREATEST: &str = "\u{7f}";

/// The keys of the conversations under a prefix that a listing has not returned yet: one key, and then those between
/// two others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The key that is equal to the prefix. It is `None` if it is already behind the cursor, or if the prefix has no
    /// part.
    pub(crate) exact: Option<String>,
    pub(crate) after: String,
    pub(crate) before: String,
}

impl Keys {
    /// Returns the keys under the prefix that come after the cursor.
    pub(crate) fn new(under: &Prefix, cursor: Option<&Cursor>) -> Self {
        let last = cursor.map_or("", |cursor| cursor.last().as_str());
        let (after, before) = under.longer_ids();
        Self {
            exact: under.as_id().map(|id| id.as_str().to_owned()).filter(|exact| exact.as_str() > last),
            after: after.max(last.to_owned()),
            before: before.unwrap_or_else(|| GREATEST.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::ConversationId;

    use super::*;

    fn keys(under: &str, after: Option<&str>) -> (Option<String>, String, String) {
        let cursor = after.map(|id| Cursor::after(id.parse().unwrap()));
        let Keys { exact, after, before } = Keys::new(&under.parse().unwrap(), cursor.as_ref());
        (exact, after, before)
    }

    fn expected(exact: Option<&str>, after: &str, before: &str) -> (Option<String>, String, String) {
        (exact.map(Into::into), after.into(), before.into())
    }

    #[test]
    fn a_listing_continues_after_its_cursor() {
        assert_eq!(keys("acme", None), expected(Some("acme"), "acme/", "acme0"));
        assert_eq!(keys("acme", Some("acme")), expected(None, "acme/", "acme0"));
        assert_eq!(keys("acme", Some("acme/b")), expected(None, "acme/b", "acme0"));
        assert_eq!(keys("", Some("b")), expected(None, "b", GREATEST));
    }

    #[test]
    fn a_cursor_of_another_prefix_adds_nothing() {
        assert_eq!(keys("acme", Some("a")), expected(Some("acme"), "acme/", "acme0"));
        assert_eq!(keys("acme", Some("b")), expected(None, "b", "acme0"), "the range is empty");
    }

    #[test]
    fn every_key_is_smaller_than_the_greatest_text() {
        let id = ConversationId::new(["~\u{7f}\u{10ffff}"]).unwrap();
        assert!(id.as_str() < GREATEST, "{id}");
    }
}
