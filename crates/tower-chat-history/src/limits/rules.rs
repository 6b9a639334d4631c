//! Limits by prefix.

use tower_chat_history_core::{ConversationId, Prefix};

use super::Limits;

/// The limits of all conversations, by prefix.
///
/// For a conversation, the limits of the longest prefix that contains it apply, including the rates, and no others.
/// Conversations without such a prefix have no limits. [`Limits`] alone convert into rules by which they apply to all
/// conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRules {
    rules: Vec<(Prefix, Limits)>,
}

impl LimitRules {
    /// Creates rules without limits.
    #[must_use]
    pub const fn new() -> Self {
        Self { rules: Vec::new() }
    }

    /// Sets the limits of the conversations under a prefix. Other limits of the same prefix are replaced.
    #[must_use]
    pub fn under(mut self, prefix: Prefix, limits: Limits) -> Self {
        self.rules.retain(|(other, _)| *other != prefix);
        self.rules.push((prefix, limits));
        self
    }

    /// Returns the limits of a conversation, or `None` if it has none.
    #[must_use]
    pub fn of(&self, id: &ConversationId) -> Option<&Limits> {
        self.rule(id).map(|(_, limits)| limits)
    }

    /// Returns the limits of a conversation, and the prefix for which they are set.
    pub(crate) fn rule(&self, id: &ConversationId) -> Option<&(Prefix, Limits)> {
        let containing = self.rules.iter().filter(|(prefix, _)| prefix.contains(id));
        containing.max_by_key(|(prefix, _)| prefix.as_str().len())
    }

    /// Returns the limits of all rules.
    pub(crate) fn all(&self) -> impl Iterator<Item = &(Prefix, Limits)> {
        self.rules.iter()
    }
}

/// Creates rules by which these limits apply to all conversations.
impl From<Limits> for LimitRules {
    fn from(limits: Limits) -> Self {
        Self::new().under(Prefix::all(), limits)
    }
}

/// Returns the text of the first parts of an id, or all of it if it has fewer parts.
pub(crate) fn first_parts(id: &ConversationId, parts: usize) -> &str {
    match parts.checked_sub(1) {
        None => "",
        Some(last) => Prefix::containing(id).nth(last).unwrap_or(id.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ConversationId {
        text.parse().unwrap()
    }

    #[test]
    fn the_limits_of_the_longest_prefix_apply() {
        let [all, acme, user] = [1, 2, 3].map(|bytes| Limits::new().max_message_bytes(bytes));
        let rules = LimitRules::new()
            .under("acme/u1".parse().unwrap(), user.clone())
            .under(Prefix::all(), Limits::new())
            .under("acme".parse().unwrap(), acme.clone())
            .under(Prefix::all(), all.clone());
        for (text, limits) in
            [("acme/u1/c", &user), ("acme/u1", &user), ("acme/u10", &acme), ("acme", &acme), ("acme-2/u1", &all)]
        {
            assert_eq!(rules.of(&id(text)), Some(limits), "{text}");
        }
        assert_eq!(LimitRules::new().under("acme".parse().unwrap(), acme).of(&id("other")), None);
    }

    #[test]
    fn an_id_with_fewer_parts_stands_for_itself() {
        for (parts, text) in [(0, ""), (1, "a"), (2, "a/b"), (3, "a/b"), (usize::MAX, "a/b")] {
            assert_eq!(first_parts(&id("a/b"), parts), text);
        }
    }
}
