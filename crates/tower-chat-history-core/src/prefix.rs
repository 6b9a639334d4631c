//! Groups of conversations whose ids begin with the same parts.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::conversation_id::{ConversationId, ConversationIdError};

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
