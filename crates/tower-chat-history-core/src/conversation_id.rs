//! The ids of conversations, and the prefixes that group them.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    str::FromStr,
    sync::Arc,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// The characters to escape: all but those that RFC 3986 (section 2.3) calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The key of a conversation: one or more parts, such as tenant, user and thread.
///
/// The parts are separate values, so a delimiter in a part has no effect: `["a", "b/c"]` and `["a/b", "c"]` are two
/// conversations. There is no default id. Ids are compared byte by byte (Unicode is not normalized).
///
/// The text form is ASCII, fits into a header or a URL path, and parses back. Its parts are percent-encoded (all
/// but the unreserved characters of RFC 3986) and joined with `/`. Each id has exactly one text form.
///
/// ```
/// use tower_chat_history_core::ConversationId;
///
/// let id = ConversationId::new(["acme", "user 42"])?;
/// assert_eq!(id.to_string(), "acme/user%2042");
/// assert_eq!("acme/user%2042".parse(), Ok(id));
/// # Ok::<(), tower_chat_history_core::ConversationIdError>(())
/// ```
///
/// In OpenTelemetry, this is `gen_ai.conversation.id`.
#[doc(alias = "session_id")]
#[doc(alias = "thread_id")]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(Arc<str>);

impl ConversationId {
    /// The maximum number of parts.
    pub const MAX_PARTS: usize = 16;
    /// The maximum length of the text form, in bytes.
    pub const MAX_LEN: usize = 1024;

    /// Creates the id with these parts.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no part, an empty part, more than [`MAX_PARTS`](Self::MAX_PARTS) parts, or a
    /// text form longer than [`MAX_LEN`](Self::MAX_LEN) bytes.
    pub fn new<P>(parts: impl IntoIterator<Item = P>) -> Result<Self, ConversationIdError>
    where
        P: AsRef<str>,
    {
        let mut text = String::new();
        let mut count = 0;
        for part in parts {
            let part = part.as_ref();
            if part.is_empty() {
                return Err(ConversationIdError::EmptyPart { position: count });
            }
            if count > 0 {
                text.push('/');
            }
            count += 1;
            // A part may have any length (ids are untrusted), so the limits are checked before more is copied.
            if count > Self::MAX_PARTS {
                return Err(ConversationIdError::TooManyParts);
            }
            if text.len() + part.len() > Self::MAX_LEN {
                return Err(ConversationIdError::TooLong);
            }
            text.extend(utf8_percent_encode(part, ESCAPED));
        }
        if count == 0 {
            return Err(ConversationIdError::Empty);
        }
        if text.len() > Self::MAX_LEN {
            return Err(ConversationIdError::TooLong);
        }
        Ok(Self(text.into()))
    }

    /// Returns the text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the parts, decoded.
    pub fn parts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.0.split('/').map(|part| percent_decode_str(part).decode_utf8_lossy())
    }
}

/// Ids in a map can be looked up by their text form, and have its order.
impl Borrow<str> for ConversationId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ConversationId {
    type Err = ConversationIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ConversationIdError::Empty);
        }
        if text.len() > Self::MAX_LEN {
            return Err(ConversationIdError::TooLong);
        }
        let parts = text.split('/').map(|part| percent_decode_str(part).decode_utf8());
        let parts = parts.collect::<Result<Vec<_>, _>>().map_err(|_| ConversationIdError::NotCanonical)?;
        let id = Self::new(parts)?;
        // Each id has one text form: a text that is encoded differently is an error, not a second spelling.
        if id.as_str() == text { Ok(id) } else { Err(ConversationIdError::NotCanonical) }
    }
}

impl TryFrom<String> for ConversationId {
    type Error = ConversationIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.0.as_ref().into()
    }
}

/// The error for an invalid conversation id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationIdError {
    /// There was no part.
    #[error("invalid conversation id: expected at least one part")]
    Empty,
    /// A part was empty.
    #[error("invalid conversation id: part {position} is empty")]
    EmptyPart {
        /// The index of the part, counted from 0.
        position: usize,
    },
    /// There were too many parts.
    #[error("invalid conversation id: expected at most {} parts", ConversationId::MAX_PARTS)]
    TooManyParts,
    /// The text form would be too long.
    #[error("invalid conversation id: expected a text form of at most {} bytes", ConversationId::MAX_LEN)]
    TooLong,
    /// The text is not the text form of an id.
    #[error("invalid conversation id: expected percent-encoded parts (all but A-Z a-z 0-9 - . _ ~) joined with /")]
    NotCanonical,
}

/// The first parts of conversation ids, such as a tenant, or a tenant and a user. It stands for all conversations whose
/// ids begin with these parts, including the conversation whose id has exactly these parts.
///
/// Parts are compared whole: the prefix `acme` contains `acme` and `acme/user-42`, but not `acme-2`.
///
/// The text form is that of a [`ConversationId`] with these parts, or the empty text for the
/// [prefix of all conversations](Self::all).
///
/// ```
/// use tower_chat_history_core::{ConversationId, Prefix};
///
/// let user: Prefix = "acme/user-42".parse()?;
/// assert!(user.contains(&ConversationId::new(["acme", "user-42", "support-7"])?));
/// assert!(!user.contains(&ConversationId::new(["acme", "user-421"])?));
/// # Ok::<(), tower_chat_history_core::ConversationIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix(Option<ConversationId>);

impl Prefix {
    /// Returns the prefix without parts, which contains all conversations.
    #[must_use]
    pub const fn all() -> Self {
        Self(None)
    }

    /// Creates the prefix with these parts. Without parts, it is [`all`](Self::all).
    ///
    /// # Errors
    ///
    /// Returns an error if a part is empty, or if the parts are too many or too long for a [`ConversationId`].
    pub fn new<P>(parts: impl IntoIterator<Item = P>) -> Result<Self, ConversationIdError>
    where
        P: AsRef<str>,
    {
        match ConversationId::new(parts) {
            Ok(id) => Ok(Self(Some(id))),
            Err(ConversationIdError::Empty) => Ok(Self::all()),
            Err(error) => Err(error),
        }
    }

    /// Returns `true` if this is the prefix of all conversations.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", ConversationId::as_str)
    }

    /// Returns `true` if the id begins with the parts of this prefix.
    #[must_use]
    pub fn contains(&self, id: &ConversationId) -> bool {
        let Some(prefix) = &self.0 else { return true };
        let rest = id.as_str().strip_prefix(prefix.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the id with exactly these parts, or `None` for the prefix of all conversations.
    #[must_use]
    pub const fn as_id(&self) -> Option<&ConversationId> {
        self.0.as_ref()
    }

    /// Returns the prefixes that contain the id, without [`all`](Self::all): one for each of its parts.
    pub fn containing(id: &ConversationId) -> impl Iterator<Item = &str> {
        let text = id.as_str();
        text.match_indices('/').map(move |(end, _)| &text[..end]).chain([text])
    }
}

impl From<&ConversationId> for Prefix {
    fn from(id: &ConversationId) -> Self {
        Self(Some(id.clone()))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Prefix {
    type Err = ConversationIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() { Ok(Self::all()) } else { text.parse().map(|id| Self(Some(id))) }
    }
}

impl TryFrom<String> for Prefix {
    type Error = ConversationIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refuses_empty_and_over_long() {
        use ConversationIdError::{Empty, EmptyPart, TooLong, TooManyParts};
        assert_eq!(ConversationId::new::<&str>([]), Err(Empty));
        assert_eq!(ConversationId::new(["a", ""]), Err(EmptyPart { position: 1 }));
        assert_eq!(ConversationId::new(vec!["a"; 17]), Err(TooManyParts));
        assert_eq!(ConversationId::new(["a".repeat(1025)]), Err(TooLong));
        assert_eq!(ConversationId::new(["ä".repeat(200)]), Err(TooLong), "the encoded form counts");
        assert_eq!("".parse::<ConversationId>(), Err(Empty));
        assert_eq!("a//b".parse::<ConversationId>(), Err(EmptyPart { position: 1 }));
    }

    #[test]
    fn refuses_other_spellings_of_one_id() {
        for text in ["%61", "a%2fb", "a b", "ä", "%", "%zz", "%ff", "a?b"] {
            assert_eq!(text.parse::<ConversationId>(), Err(ConversationIdError::NotCanonical), "{text}");
        }
    }

    #[test]
    fn parts_survive_delimiters_and_unicode_forms() {
        let id = ConversationId::new(["a/b", "é", "e\u{301}", "\0", "%2F"]).unwrap();
        assert!(id.as_str().is_ascii());
        assert_eq!(id.parts().collect::<Vec<_>>(), ["a/b", "é", "e\u{301}", "\0", "%2F"]);
    }

    proptest! {
        #[test]
        fn text_form_is_injective_and_parses_back(a in prop::collection::vec(".{1,8}", 1..4), b in prop::collection::vec("[a/%2F]{1,4}", 1..4)) {
            let (x, y) = (ConversationId::new(&a).unwrap(), ConversationId::new(&b).unwrap());
            prop_assert_eq!(x.as_str().parse::<ConversationId>().unwrap(), x.clone());
            prop_assert_eq!(y.as_str().parse::<ConversationId>().unwrap(), y.clone());
            prop_assert!(x.parts().eq(a.iter().map(String::as_str)));
            prop_assert_eq!(x == y, a == b);
        }
    }

    fn id(text: &str) -> ConversationId {
        text.parse().unwrap()
    }

    #[test]
    fn a_prefix_contains_whole_parts_only() {
        let prefix: Prefix = "acme".parse().unwrap();
        for (text, is_inside) in
            [("acme", true), ("acme/a", true), ("acme-2", false), ("acme.x/a", false), ("a", false)]
        {
            assert_eq!(prefix.contains(&id(text)), is_inside, "{text}");
            assert!(Prefix::all().contains(&id(text)));
        }
    }

    #[test]
    fn the_prefixes_that_contain_an_id_are_its_beginnings() {
        assert_eq!(Prefix::containing(&id("a/b/c")).collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
    }

    proptest! {
        #[test]
        fn an_id_names_the_prefixes_that_contain_it(
            prefix in prop::collection::vec("[a/.~0 -]{1,3}", 0..3),
            parts in prop::collection::vec("[a/.~0 -]{1,3}", 1..4),
        ) {
            let (prefix, id) = (Prefix::new(&prefix).unwrap(), ConversationId::new(&parts).unwrap());
            let named = Prefix::containing(&id).any(|text| text == prefix.as_str());
            prop_assert_eq!(prefix.contains(&id), named || prefix.is_all());
            prop_assert_eq!(prefix.as_str().parse::<Prefix>().unwrap(), prefix);
        }
    }
}
