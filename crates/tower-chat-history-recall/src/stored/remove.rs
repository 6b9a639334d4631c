//! Removal of records that are of no use.

use tower_chat_history_core::{AttachmentKey, AttachmentName, ConversationId, Incarnation, Revision};

use super::{StoredIndex, error::Stop, read::MAX_INDEX_BYTES, records::Parts, vectors::VectorNames};
use crate::index::IndexPart;

/// The most records that one write removes.
const MAX_KEYS: usize = 512;

impl StoredIndex {
    /// Removes damaged parts, blocks within a segment, and parts of segments that are wholly before the log. Returns
    /// the number of parts.
    ///
    /// A block before the log stays as long as its segment reaches into the log, so that a merge always begins with the
    /// same block.
    pub(super) async fn remove_useless(
        &self,
        id: &ConversationId,
        revision: Revision,
        parts: &Parts,
    ) -> Result<u64, Stop> {
        let names = self.names()?;
        let (mut keys, mut removed) = (Vec::new(), 0);
        for damaged in &parts.damaged {
            keys.extend(damaged.keys(names));
            removed += 1;
        }
        for part in &parts.stored {
            if IndexPart::segment_end(part.range.start) <= revision.first() {
                keys.extend(part.keys(names));
            } else if !part.segment && !parts.counts(&part.range) {
                keys.push(names.block_key(part.range.start));
            } else {
                continue;
            }
            removed += 1;
        }
        self.remove(id, revision.incarnation(), &keys).await?;
        Ok(removed)
    }

    /// Returns `true` if no records of former analyzers and models are left to remove, as far as it is remembered.
    pub(super) fn has_removed_former(&self, id: &ConversationId, incarnation: Incarnation) -> bool {
        let none = self.former.is_empty() && self.former_vectors().next().is_none();
        none || self.progress.has_cleaned(id, incarnation)
    }

    /// Removes the records of former analyzers and models, unless that was done already. Returns their number.
    pub(super) async fn remove_former(&self, id: &ConversationId, revision: Revision) -> Result<u64, Stop> {
        let incarnation = revision.incarnation();
        if self.has_removed_former(id, incarnation) {
            return Ok(0);
        }
        let terms = self.former.iter().flat_map(|names| names.all().cloned());
        let names: Vec<AttachmentName> = terms.collect();
        let mut removed = self.remove_named(id, incarnation, &names).await?;
        for former in self.former_vectors() {
            removed += self.remove_vectors(id, incarnation, former).await?;
        }
        self.progress.set_cleaned(id, incarnation);
        Ok(removed)
    }

    /// Removes all records with these names. Returns their number.
    async fn remove_named(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        names: &[AttachmentName],
    ) -> Result<u64, Stop> {
        let mut removed = 0;
        while !names.is_empty() {
            let found = self.store.attachments(id, names, MAX_INDEX_BYTES).await?;
            let keys: Vec<AttachmentKey> = found.attachments.iter().map(|attachment| attachment.key()).collect();
            self.remove(id, incarnation, &keys).await?;
            removed += keys.len() as u64;
            if !found.more || keys.is_empty() {
                break;
            }
        }
        Ok(removed)
    }

    /// Removes all vectors of a model, by the marks of their blocks. Returns the number of records.
    async fn remove_vectors(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        former: &VectorNames,
    ) -> Result<u64, Stop> {
        let marks = self.store.attachments(id, &[former.made()?], MAX_INDEX_BYTES).await?.attachments;
        let mut keys: Vec<AttachmentKey> = Vec::new();
        for mark in &marks {
            keys.extend(former.keys(mark.range.start)?);
        }
        self.remove(id, incarnation, &keys).await?;
        Ok(keys.len() as u64)
    }

    /// Removes records, in steps.
    pub(super) async fn remove(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keys: &[AttachmentKey],
    ) -> Result<(), Stop> {
        for keys in keys.chunks(MAX_KEYS) {
            self.store.attach(id, incarnation, keys, &[]).await?;
        }
        Ok(())
    }
}
