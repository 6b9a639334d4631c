//! The entry of a conversation in a listing, its labels, and its numbers.

use tower_chat_history_core::{
    ConversationId, Incarnation, Labels, LabelsOutcome, LabelsVersion, Listed, Removed, StoreError,
};

use super::{Log, size::labels_bytes};
use crate::memory::space::Space;

impl Log {
    /// Returns the entry of this conversation, which has this id.
    pub(in crate::memory) fn listed(&self, id: ConversationId) -> Listed {
        Listed::new(id, self.revision(), self.created_at, self.updated_at, self.message_bytes as u64)
            .labels(self.labels.clone(), self.labels_version)
    }

    /// Replaces the labels if they have this version. Returns an error if the conversation has another incarnation, or
    /// if there is no space.
    pub(in crate::memory) fn set_labels(
        &mut self,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
        space: &Space,
    ) -> Result<LabelsOutcome, StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        if replaces != self.labels_version {
            return Ok(LabelsOutcome::Kept(self.labels.clone(), self.labels_version));
        }
        self.take(labels_bytes(&labels), labels_bytes(&self.labels), space)?;
        (self.labels, self.labels_version) = (labels, replaces.next());
        Ok(LabelsOutcome::Stored(self.labels_version))
    }

    /// Returns the numbers of everything in this conversation.
    pub(in crate::memory) fn numbers(&self) -> Removed {
        let mut numbers = Removed::default();
        numbers.conversations = 1;
        numbers.exchanges = self.entries.len() as u64;
        numbers.bytes = self.message_bytes as u64;
        numbers.exchange_ids = self.ids.len() as u64;
        numbers.compactions = self.compactions.len() as u64;
        numbers.summaries = self.compactions.values().filter(|stored| stored.derived.is_some()).count() as u64;
        numbers.labels = u64::from(!self.labels.is_empty());
        numbers
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::Seq;

    use super::super::tests::{UNLIMITED, append, begin};
    use super::*;

    #[test]
    fn labels_count_for_the_memory_until_they_are_replaced() {
        let (mut log, first) = begin(append("a"));
        let (bare, incarnation) = (log.bytes, first.revision.incarnation());
        let long = Labels::new([("title", "x".repeat(1000))]).unwrap();
        log.set_labels(incarnation, LabelsVersion::NONE, long.clone(), &UNLIMITED).unwrap();
        let labeled = log.bytes;
        assert!(labeled > bare + 1000, "{labeled}");
        let full = log.set_labels(incarnation, log.labels_version, long.with("a", "b").unwrap(), &Space::new(0));
        assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
        assert_eq!((log.bytes, log.labels.len()), (labeled, 1));
        log.set_labels(incarnation, log.labels_version, Labels::default(), &UNLIMITED).unwrap();
        assert_eq!(log.bytes, bare);
    }

    #[test]
    fn removed_exchanges_are_not_in_the_size() {
        let (mut log, first) = begin(append("a"));
        let one = log.message_bytes;
        let second = log.append(append("b"), &UNLIMITED).unwrap();
        assert_eq!(log.message_bytes, 2 * one);
        log.truncate(second.revision, Seq::new(1), None, &UNLIMITED).unwrap();
        assert_eq!((log.message_bytes, log.numbers().bytes), (one, one as u64));
        assert_ne!(log.revision(), first.revision);
    }
}
