//! The keys of the conversations under a prefix.

use crate::{
    conversation_id::{ConversationId, Prefix},
    store::Cursor,
};

/// A text after all keys. The text form of an id is ASCII, and no text in UTF-8 that another program writes as a key
/// follows this one.
const AFTER_ALL: &str = "\u{10ffff}";

/// The keys of the conversations under a prefix and after a cursor: at most one key, and then a range. A key is the
/// text form of an id. Together, they are the keys in the order of a [listing](crate::List), and no key is in both.
///
/// This rule keeps tenants apart: `acme` contains `acme` and `acme/a`, and not `acme-2`, which lies between them.
///
/// ```
/// use tower_chat_history_core::{Cursor, Prefix, backend::KeyRange};
///
/// let under: Prefix = "acme".parse()?;
/// let keys = KeyRange::new(&under, None);
/// assert_eq!(keys.exact.as_ref().map(|id| id.as_str()), Some("acme"));
/// assert_eq!((keys.after.as_str(), keys.before.as_str()), ("acme/", "acme0"));
///
/// let keys = KeyRange::new(&under, Some(&Cursor::after("acme/b".parse()?)));
/// assert_eq!((keys.exact, keys.after.as_str()), (None, "acme/b"));
/// # Ok::<(), tower_chat_history_core::ConversationIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRange {
    /// The id with exactly the parts of the prefix, unless the cursor is at or after it. It is before the range.
    pub exact: Option<ConversationId>,
    /// The key after which the range begins. It is excluded.
    pub after: String,
    /// The key before which the range ends. It is excluded. The range is empty if this is not greater than `after`.
    pub before: String,
}

impl KeyRange {
    /// Returns the keys under the prefix that come after the cursor. Texts are compared byte by byte.
    #[must_use]
    pub fn new(under: &Prefix, cursor: Option<&Cursor>) -> Self {
        let mut keys = match under.as_id() {
            // `0` follows `/` in ASCII.
            Some(id) => Self { exact: Some(id.clone()), after: format!("{id}/"), before: format!("{id}0") },
            None => Self { exact: None, after: String::new(), before: AFTER_ALL.to_owned() },
        };
        if let Some(cursor) = cursor {
            keys.continue_after(cursor.last().as_str());
        }
        keys
    }

    /// Removes this key, and the keys before it. It need not be an id: a store that walks over keys of other programs
    /// continues with it.
    pub fn continue_after(&mut self, key: &str) {
        self.exact = self.exact.take().filter(|exact| exact.as_str() > key);
        if key > self.after.as_str() {
            key.clone_into(&mut self.after);
        }
    }

    /// Returns `true` if the range has no key. There may be an [`exact`](Self::exact) one.
    #[must_use]
    pub fn is_range_empty(&self) -> bool {
        self.after >= self.before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ids whose text forms are neighbors of each other's ranges: `-` and `.` are before `/`, and `0` is after it.
    fn ids(parts: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[a/.~0é-]{1,2}", parts)
    }

    fn contains(keys: &KeyRange, key: &str) -> bool {
        let is_in_range = key > keys.after.as_str() && key < keys.before.as_str();
        let is_exact = keys.exact.as_ref().is_some_and(|exact| exact.as_str() == key);
        assert!(!(is_in_range && is_exact), "{key} is found twice");
        is_in_range || is_exact
    }

    proptest! {
        #[test]
        fn keys_are_those_of_the_prefix_after_the_cursor(
            prefix in ids(0..3), parts in ids(1..4), cursor in prop::option::of(ids(1..4)),
        ) {
            let (under, id) = (Prefix::new(&prefix).unwrap(), ConversationId::new(&parts).unwrap());
            let cursor = cursor.map(|parts| Cursor::after(ConversationId::new(&parts).unwrap()));
            let keys = KeyRange::new(&under, cursor.as_ref());
            let is_after = cursor.is_none_or(|cursor| id > *cursor.last());
            prop_assert_eq!(contains(&keys, id.as_str()), under.contains(&id) && is_after);
            let exact = keys.exact.as_ref();
            prop_assert!(exact.is_none_or(|exact| exact.as_str() < keys.after.as_str()), "the exact key is the first one");
            let is_within = id.as_str() > keys.after.as_str() && id.as_str() < keys.before.as_str();
            prop_assert!(!(keys.is_range_empty() && is_within));
        }

        /// The keys of other programs may be any text.
        #[test]
        fn a_walk_over_any_keys_passes_each_one_once(
            prefix in ids(0..2), mut all in prop::collection::btree_set("[a/.~0é -]{0,4}", 0..12),
        ) {
            let under = Prefix::new(&prefix).unwrap();
            let mut keys = KeyRange::new(&under, None);
            let expected: Vec<String> = all.iter().filter(|key| contains(&keys, key)).cloned().collect();
            let mut walked = Vec::new();
            while let Some(key) = all.pop_first() {
                if contains(&keys, &key) {
                    keys.continue_after(&key);
                    prop_assert!(!contains(&keys, &key) && walked.iter().all(|walked: &String| !contains(&keys, walked)));
                    walked.push(key);
                }
            }
            prop_assert_eq!(walked, expected);
        }
    }

    #[test]
    fn the_range_of_all_conversations_has_every_key() {
        let keys = KeyRange::new(&Prefix::all(), None);
        for key in ["%00", "~", "\u{7f}", "é", "\u{ffff}"] {
            assert!(contains(&keys, key), "{key:?}");
        }
    }
}
