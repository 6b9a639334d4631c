//! The attachments of a log.

use std::collections::{BTreeMap, BTreeSet};

use tower_chat_history_core::{
    Attachment, AttachmentKey, AttachmentName, Attachments, Incarnation, Page, Recorded, Seq, StoreError,
};

use super::{Log, size::attachment_bytes};
use crate::memory::space::Space;

impl Log {
    /// Removes attachments, then stores others. Returns an error, and changes nothing, if the conversation has another
    /// incarnation, if an attachment is not allowed, or if there is no space.
    pub(in crate::memory) fn attach(
        &mut self,
        incarnation: Incarnation,
        remove: &[AttachmentKey],
        put: &[Attachment],
        space: &Space,
    ) -> Result<(), StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        let next = self.next();
        put.iter().try_for_each(|attachment| attachment.check(next))?;
        let removed: BTreeSet<&AttachmentKey> = remove.iter().collect();
        let stays = |key: &AttachmentKey| self.attachments.contains_key(key) && !removed.contains(key);
        let mut new = BTreeMap::new();
        for attachment in put.iter().filter(|attachment| !stays(&attachment.key())) {
            new.entry(attachment.key()).or_insert_with(|| attachment.clone());
        }
        let freed = removed.iter().filter_map(|key| self.attachments.get(key)).map(attachment_bytes).sum();
        self.take(new.values().map(attachment_bytes).sum(), freed, space)?;
        for key in removed {
            self.attachments.remove(key);
        }
        self.attachments.append(&mut new);
        Ok(())
    }

    /// Returns the attachments with these names, as long as their data has at most `limit` bytes.
    pub(in crate::memory) fn attachments(&self, names: &[AttachmentName], limit: usize) -> Attachments {
        let (mut found, mut left, mut more) = (Vec::new(), limit, false);
        let of_name = |name: &AttachmentName| {
            let first = AttachmentKey { name: name.clone(), start: Seq::FIRST };
            let name = name.clone();
            self.attachments.range(first..).map(|(_, attachment)| attachment).take_while(move |one| one.name == name)
        };
        for attachment in names.iter().flat_map(of_name) {
            let Some(rest) = left.checked_sub(attachment.body.len()) else {
                more = true;
                break;
            };
            left = rest;
            found.push(attachment.clone());
        }
        Attachments::new(self.revision(), found, more)
    }

    /// Returns the exchanges at these positions, without those that the log does not have.
    pub(in crate::memory) fn pick(&self, positions: &[Seq]) -> Page {
        let has = |seq: &&Seq| **seq >= self.seq(0) && **seq < self.next();
        let exchanges: Vec<Recorded> =
            positions.iter().filter(has).map(|seq| self.recorded(self.index(*seq))).collect();
        Page::new(self.revision(), exchanges, false)
    }

    /// Removes the attachments that `stays` does not accept. Returns the number of freed bytes.
    pub(super) fn retain_attachments(&mut self, stays: impl Fn(&Attachment) -> bool) -> usize {
        let mut freed = 0;
        self.attachments.retain(|_, attachment| {
            let stays = stays(attachment);
            freed += if stays { 0 } else { attachment_bytes(attachment) };
            stays
        });
        self.bytes -= freed;
        freed
    }
}
