//! Limits by prefix.

use std::collections::BTreeSet;

use tower_chat_history_core::{ConversationId, Prefix};

use super::{Limits, Rate};

/// The limits of all conversations, by prefix.
///
/// For a conversation, the limits of the longest prefix that contains it apply, and no others, except for
/// [rates](Limits::calls_per_minute): for each number of parts, the rate of the longest prefix that sets or
/// [lifts](Limits::lift_calls_per_minute) one applies. Conversations without such a prefix have no limits. [`Limits`]
/// alone convert into rules by which they apply to all conversations.
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

    /// Returns the limits of a conversation, or `None` if it has none. Of [rates](Limits::calls_per_minute), these are
    /// only those that this rule sets.
    #[must_use]
    pub fn of(&self, id: &ConversationId) -> Option<&Limits> {
        self.longest(id, |_, limits| Some(limits))
    }

    /// Returns the rate of a conversation's calls, counted with all ids that begin with this number of the same parts,
    /// or for the conversation by itself if `parts` is `None`. The longest prefix that sets or lifts such a rate
    /// decides.
    pub(crate) fn rate(&self, id: &ConversationId, parts: Option<usize>) -> Option<u32> {
        self.longest(id, |_, limits| limits.rate(parts))?.calls()
    }

    /// Returns the rates, counted by this number of parts, that calls can have whose ids begin with the same parts as
    /// this one: that of the longest prefix of these parts, and those of prefixes under them. An id with fewer parts
    /// stands for itself, so no call with such a prefix begins with the same parts.
    pub(crate) fn rates_of_key(&self, id: &ConversationId, parts: usize) -> BTreeSet<u32> {
        let key = first_parts(id, parts);
        let has_all_parts = id.parts().count() >= parts;
        let is_under_key = |prefix: &Prefix| {
            let rest = prefix.as_str().strip_prefix(key);
            key.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let of_key =
            self.longest(id, |prefix, limits| limits.rate(Some(parts)).filter(|_| prefix.as_str().len() <= key.len()));
        let under_key = self.rules.iter().filter(|(prefix, _)| has_all_parts && is_under_key(prefix));
        let under_key = under_key.filter_map(|(_, limits)| limits.rate(Some(parts)));
        under_key.chain(of_key).filter_map(Rate::calls).collect()
    }

    /// Returns the value of the longest prefix that contains the conversation and has such a value.
    fn longest<'a, T>(&'a self, id: &ConversationId, value: impl Fn(&Prefix, &'a Limits) -> Option<T>) -> Option<T> {
        let containing = self.rules.iter().filter(|(prefix, _)| prefix.contains(id));
        let values = containing.filter_map(|(prefix, limits)| Some((prefix.as_str().len(), value(prefix, limits)?)));
        values.max_by_key(|(len, _)| *len).map(|(_, value)| value)
    }

    /// Returns the limits of all rules.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Limits> {
        self.rules.iter().map(|(_, limits)| limits)
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

    #[test]
    fn only_ids_with_all_parts_have_the_rates_of_longer_prefixes() {
        let of = |calls| Limits::new().calls_per_minute_under(2, calls);
        let rules = [("a", 2), ("a/b", 3), ("a/b/c", 4), ("a/bc", 5)];
        let rules = rules
            .into_iter()
            .fold(LimitRules::from(of(1)), |rules, (prefix, calls)| rules.under(prefix.parse().unwrap(), of(calls)));
        for (text, rates) in [("a", &[2][..]), ("a/b", &[3, 4]), ("a/b/d", &[3, 4]), ("a/d", &[2]), ("b", &[1])] {
            assert_eq!(rules.rates_of_key(&id(text), 2), rates.iter().copied().collect(), "{text}");
        }
    }
}
