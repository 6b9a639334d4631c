//! The other conversations that a search covers.

use std::{num::NonZeroUsize, sync::Arc};

use tower_chat_history_core::{ConversationId, List, Prefix};

use super::LogSearch;
use crate::recall::analyzer::Analyzer;

/// The conversations that a search covers beside the conversation that it is made for: those whose ids begin with the
/// same parts.
///
/// The number of these parts is given, and not the parts themselves. So a search never covers conversations under a
/// prefix that is not one of the conversation's own id. With ids of a tenant, a user and a thread, 2 parts stand for
/// all conversations of the user.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use tower_chat_history_core::{ConversationId, Prefix};
/// use tower_chat_history::recall::SearchScope;
///
/// let scope = SearchScope::parts(NonZeroUsize::new(2).ok_or("0")?);
/// let prefix = |parts: &[&str]| Ok::<_, Box<dyn std::error::Error>>(scope.prefix(&ConversationId::new(parts)?));
/// assert_eq!(prefix(&["acme", "ann", "7"])?, Some(Prefix::new(["acme", "ann"])?));
/// assert_eq!(prefix(&["acme", "ann"])?, None, "it is searched alone");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchScope {
    parts: NonZeroUsize,
    conversations: usize,
    walk: usize,
}

impl SearchScope {
    /// The most other conversations that are searched, by default.
    pub const CONVERSATIONS: usize = 20;
    /// The most conversations that are listed to find the newest ones, by default.
    pub const WALK: usize = 1_000;

    /// Creates the scope of the conversations whose ids begin with the same number of parts. A conversation whose id
    /// has no more parts than that is searched alone.
    #[must_use]
    pub const fn parts(parts: NonZeroUsize) -> Self {
        Self { parts, conversations: Self::CONVERSATIONS, walk: Self::WALK }
    }

    /// Sets the number of other conversations that are searched: those that were
    /// [updated](tower_chat_history_core::Listed::updated_at) last. The default is
    /// [`CONVERSATIONS`](Self::CONVERSATIONS). They share the limits of a search, so with more conversations, less of
    /// each is searched.
    #[must_use]
    pub const fn conversations(mut self, number: usize) -> Self {
        self.conversations = number;
        self
    }

    /// Sets the number of conversations that a search lists at most to find the newest ones. If there are more, newer
    /// ones may be left out ([`Others::is_incomplete`](crate::recall::Others::is_incomplete)). The default is
    /// [`WALK`](Self::WALK).
    #[must_use]
    pub const fn walk(mut self, conversations: usize) -> Self {
        self.walk = conversations;
        self
    }

    /// Returns the prefix whose conversations a search for this one covers, or `None` if it is searched alone.
    #[must_use]
    pub fn prefix(&self, conversation: &ConversationId) -> Option<Prefix> {
        let mut prefixes = Prefix::containing(conversation).skip(self.parts.get() - 1);
        let prefix = prefixes.next()?;
        // The last prefix is the whole id.
        prefixes.next()?;
        prefix.parse().ok()
    }
}

/// The scope, and the store that lists the conversations.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) store: Arc<dyn List>,
    pub(super) scope: SearchScope,
}

impl Listing {
    /// Returns the most conversations that are searched, and the most that are listed.
    pub(super) const fn limits(&self) -> (usize, usize) {
        (self.scope.conversations, self.scope.walk)
    }
}

impl LogSearch {
    /// Creates the search in the conversations of a store. A [search](Self::search) for a conversation also covers the
    /// newest other conversations in the [scope](SearchScope).
    ///
    /// The store must list its conversations, which [`new`](Self::new) does not require.
    #[must_use]
    pub fn under<S: List>(store: Arc<S>, analyzer: Analyzer, scope: SearchScope) -> Self {
        let listing = Some(Listing { store: Arc::clone(&store) as Arc<dyn List>, scope });
        Self { listing, ..Self::new(store, analyzer) }
    }

    /// Returns `true` if a search for this conversation covers other conversations, too.
    #[must_use]
    pub fn covers_others(&self, conversation: &ConversationId) -> bool {
        self.prefix_of(conversation).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_prefix_has_the_first_parts_of_the_id_and_fewer_than_all(
            parts in prop::collection::vec("[a/%2F.~-]{1,3}", 1..6),
            number in 1..7_usize,
        ) {
            let id = ConversationId::new(&parts).unwrap();
            let prefix = SearchScope::parts(NonZeroUsize::new(number).unwrap()).prefix(&id);
            let expected = (number < parts.len()).then(|| Prefix::new(&parts[..number]).unwrap());
            prop_assert_eq!(prefix, expected);
        }
    }
}
