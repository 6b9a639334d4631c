//! The order of the conversations, and the erasures.

use std::{collections::BTreeSet, ops::Bound::Excluded};

use tower_chat_history_core::{
    ConversationId, Cursor, Epoch, Prefix, StoreError,
    backend::{Erasures, KeyRange},
};

/// The ids of all conversations in the order of listings, and the erasures. Both are behind one lock, so that an
/// erasure is either seen by the creation of a conversation, or sees the conversation.
#[derive(Debug)]
pub(super) struct Order {
    ids: BTreeSet<ConversationId>,
    erasures: Erasures,
    /// The upper bound on the memory of the erasures, in bytes.
    limit: usize,
}

impl Order {
    /// Creates the order of an empty store whose remembered erasures take at most this many bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { ids: BTreeSet::new(), erasures: Erasures::default(), limit }
    }

    /// Returns the current epoch.
    pub(super) const fn epoch(&self) -> Epoch {
        self.erasures.current()
    }

    /// Returns an error if the conversation was erased after this epoch.
    pub(super) fn check(&self, id: &ConversationId, since: Option<Epoch>) -> Result<(), StoreError> {
        self.erasures.check(id, since)
    }

    pub(super) fn insert(&mut self, id: ConversationId) {
        self.ids.insert(id);
    }

    pub(super) fn remove(&mut self, id: &ConversationId) {
        self.ids.remove(id);
    }

    /// Records an erasure. If the erasures would take too much memory, the oldest ones are forgotten.
    pub(super) fn record(&mut self, under: &Prefix) {
        self.erasures.record(under);
        self.limit_erasures();
    }

    /// Records the deletion of a conversation, as [`record`](Self::record) does.
    pub(super) fn record_deletion(&mut self, id: &ConversationId) {
        self.erasures.record_deletion(id);
        self.limit_erasures();
    }

    fn limit_erasures(&mut self) {
        while self.erasures.memory() > self.limit && self.erasures.forget_oldest() {}
    }

    /// Returns at most `limit` ids under a prefix and after a cursor, and the place at which the next page begins. A
    /// limit of 0 counts as 1.
    pub(super) fn page(
        &self,
        under: &Prefix,
        after: Option<&Cursor>,
        limit: usize,
    ) -> (Vec<ConversationId>, Option<Cursor>) {
        let limit = limit.max(1);
        let keys = KeyRange::new(under, after);
        let mut ids: Vec<_> = keys.exact.as_ref().and_then(|id| self.ids.get(id)).cloned().into_iter().collect();
        // A range whose start is not before its end would panic.
        if !keys.is_range_empty() {
            let longer = self.ids.range::<str, _>((Excluded(keys.after.as_str()), Excluded(keys.before.as_str())));
            ids.extend(longer.take(limit.saturating_add(1) - ids.len()).cloned());
        }

        let more = ids.len() > limit;
        ids.truncate(limit);
        let next = ids.last().filter(|_| more).cloned().map(Cursor::after);
        (ids, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ConversationId {
        text.parse().unwrap()
    }

    #[test]
    fn a_small_store_remembers_no_erasure_and_refuses_turns_from_before() {
        let mut order = Order::new(100);
        let before = order.epoch();
        order.record(&Prefix::from(&id("a")));
        assert!(order.check(&id("other"), Some(before)).is_err());
        assert!(order.check(&id("a"), Some(order.epoch())).is_ok());
    }

    #[test]
    fn the_memory_of_erasures_is_limited() {
        let mut order = Order::new(10_000);
        for number in 0..1000 {
            let before = order.epoch();
            order.record(&Prefix::from(&id(&format!("a/{number}"))));
            assert!(order.check(&id("other"), Some(before)).is_ok());
            assert!(order.erasures.memory() <= 10_000);
        }
        assert!(order.erasures.memory() > 9_000);
    }

    #[test]
    fn a_cursor_at_the_end_of_a_prefix_ends_the_listing() {
        let mut order = Order::new(0);
        ["a", "a/b", "a0", "b"].into_iter().for_each(|text| order.insert(id(text)));
        for cursor in ["a/b", "a0", "a1", "b"] {
            let page = order.page(&Prefix::from(&id("a")), Some(&Cursor::after(id(cursor))), 10);
            assert_eq!(page, (Vec::new(), None), "{cursor}");
        }
        let (first, next) = order.page(&Prefix::all(), None, 1);
        assert_eq!((&first, &next), (&vec![id("a")], &Some(Cursor::after(id("a")))));
        assert_eq!(order.page(&Prefix::all(), None, 0), (first, next), "a limit of 0 counts as 1");
    }
}
