//! The erasures that a store remembers.

use std::{
    collections::{BTreeMap, HashMap},
    iter,
};

use crate::{
    conversation_id::{ConversationId, Prefix},
    seq::Epoch,
    store::StoreError,
};

/// The estimated memory of a remembered erasure besides its two copies of the key, in bytes: slots in a hash table and
/// in a tree, and the allocator's headers.
const SLOTS: usize = 216;

/// The newest erasures of a store, so that it can refuse turns that began before them. A store in memory can keep this
/// value. Other stores keep the same things in their own tables, and follow the same rules.
///
/// An erasure has a key. The key of a deletion is the id of the conversation. The key of an erasure of a prefix is
/// [another text](Self::key), so the deletion of `acme` does not concern the conversations under `acme`.
///
/// This value remembers the newest erasures up to a number of different keys. A turn that began before an erasure that
/// was forgotten is refused, whatever its conversation is: the store cannot know any more.
#[derive(Clone, Debug)]
pub struct Erasures {
    current: Epoch,
    /// The epoch of the newest erasure that was forgotten.
    forgotten: Epoch,
    by_key: HashMap<String, Epoch>,
    by_epoch: BTreeMap<Epoch, String>,
    capacity: usize,
    /// The length of all keys together, in bytes.
    text: usize,
}

impl Erasures {
    /// The number of different keys that stores remember by default.
    pub const CAPACITY: usize = 100_000;

    /// Creates the value for a store that never erased anything, and that remembers this number of different keys.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            current: Epoch::FIRST,
            forgotten: Epoch::FIRST,
            by_key: HashMap::new(),
            by_epoch: BTreeMap::new(),
            capacity,
            text: 0,
        }
    }

    /// Returns the current epoch, for [`Loaded::Absent`](crate::Loaded::Absent).
    #[must_use]
    pub const fn current(&self) -> Epoch {
        self.current
    }

    /// Returns the key of an erasure of everything under a prefix: the text form of the prefix with a `/` after it. No
    /// conversation has such an id.
    #[must_use]
    pub fn key(under: &Prefix) -> String {
        format!("{under}/")
    }

    /// Returns the keys of all erasures that concern a conversation: its id, and the keys of all prefixes that contain
    /// it.
    pub fn keys_concerning(id: &ConversationId) -> impl Iterator<Item = String> {
        let prefixes = iter::once("").chain(Prefix::containing(id));
        iter::once(id.as_str().to_owned()).chain(prefixes.map(|prefix| format!("{prefix}/")))
    }

    /// Records an erasure of everything under this prefix.
    pub fn record(&mut self, under: &Prefix) {
        self.record_key(Self::key(under));
    }

    /// Records the deletion of this conversation.
    pub fn record_deletion(&mut self, id: &ConversationId) {
        self.record_key(id.as_str().to_owned());
    }

    fn record_key(&mut self, key: String) {
        self.current = self.current.next();
        if let Some(earlier) = self.by_key.insert(key.clone(), self.current) {
            self.by_epoch.remove(&earlier);
        } else {
            self.text += key.len();
        }

        self.by_epoch.insert(self.current, key);
        while self.by_epoch.len() > self.capacity && self.forget_oldest() {}
    }

    /// Forgets the oldest erasure, so that turns that began before it are refused. Returns `false` if none is
    /// remembered.
    pub fn forget_oldest(&mut self) -> bool {
        let Some((epoch, key)) = self.by_epoch.pop_first() else { return false };
        self.by_key.remove(&key);
        self.text -= key.len();
        self.forgotten = epoch;
        true
    }

    /// Returns the estimated memory of the remembered erasures, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.by_epoch.len() * SLOTS + 2 * self.text
    }

    /// Checks that the conversation was not erased after the epoch that an [append](crate::Append::since) names.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`](StoreError::Gone) if it was.
    pub fn check(&self, id: &ConversationId, since: Option<Epoch>) -> Result<(), StoreError> {
        if since.is_some_and(|since| self.was_erased(id, since)) { Err(StoreError::Gone) } else { Ok(()) }
    }

    /// Returns `true` if the conversation was erased after this epoch, or if this is not known any more.
    #[must_use]
    pub fn was_erased(&self, id: &ConversationId, since: Epoch) -> bool {
        if since == self.current {
            return false;
        }

        // An epoch that lies in the future is of another store, or of a copy that was restored.
        if since < self.forgotten || since > self.current {
            return true;
        }

        Self::keys_concerning(id).any(|key| self.by_key.get(&key).is_some_and(|epoch| *epoch > since))
    }
}

impl Default for Erasures {
    fn default() -> Self {
        Self::new(Self::CAPACITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ConversationId {
        text.parse().unwrap()
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn an_erasure_concerns_what_is_under_its_prefix() {
        let mut erasures = Erasures::default();
        let before = erasures.current();
        erasures.record(&prefix("acme/a"));
        for (text, was_erased) in [("acme/a", true), ("acme/a/1", true), ("acme", false), ("acme/a-2", false)] {
            assert_eq!(erasures.was_erased(&id(text), before), was_erased, "{text}");
            assert!(!erasures.was_erased(&id(text), erasures.current()));
        }
        erasures.record(&Prefix::all());
        assert!(erasures.was_erased(&id("acme"), before));
    }

    #[test]
    fn a_deletion_concerns_one_conversation() {
        let mut erasures = Erasures::default();
        let before = erasures.current();
        erasures.record_deletion(&id("acme"));
        for (text, was_erased) in [("acme", true), ("acme/a", false), ("acme-2", false)] {
            assert_eq!(erasures.was_erased(&id(text), before), was_erased, "{text}");
        }
    }

    #[test]
    fn turns_from_before_a_forgotten_erasure_are_refused() {
        let mut erasures = Erasures::new(2);
        let first = erasures.current();
        erasures.record(&prefix("a"));
        let second = erasures.current();
        for text in ["b", "c", "c"] {
            erasures.record(&prefix(text));
        }
        assert!(erasures.was_erased(&id("other"), first));
        assert!(!erasures.was_erased(&id("other"), second));
        let two = erasures.memory();
        assert!(erasures.forget_oldest() && erasures.memory() < two);
        assert!(erasures.forget_oldest() && !erasures.forget_oldest());
        assert_eq!(erasures.memory(), 0);
        assert!(erasures.was_erased(&id("c"), second) && erasures.was_erased(&id("other"), Epoch::new(100)));
    }
}
