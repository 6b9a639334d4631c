//! The attachments of an encrypted store.

use async_trait::async_trait;
use tower_chat_history_core::{
    Attach, Attachment, AttachmentKey, AttachmentName, Attachments, ConversationId, Incarnation, Page, Seq, StoreError,
};

use super::EncryptedStore;
use crate::{
    cipher::OVERHEAD,
    sealing::{Opener, open_attachment, seal_attachment},
};

/// The number of attachments for whose overhead the first read has room.
const EXPECTED: usize = 1_000;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Attach> Attach for EncryptedStore<S> {
    async fn attach(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        remove: &[AttachmentKey],
        put: &[Attachment],
    ) -> Result<(), StoreError> {
        let sealed = if put.is_empty() {
            Vec::new()
        } else {
            let cipher = self.current(id).await?;
            put.iter().map(|attachment| seal_attachment(&cipher, attachment)).collect::<Result<_, _>>()?
        };
        self.inner.attach(id, incarnation, remove, &sealed).await
    }

    async fn attachments(
        &self,
        id: &ConversationId,
        names: &[AttachmentName],
        limit: usize,
    ) -> Result<Attachments, StoreError> {
        let mut read = self.read_attachments(id, names, limit).await?;
        cut_off(&mut read, limit);
        let mut opener = Opener::new(&self.keys, id);
        for attachment in &mut read.attachments {
            *attachment = open_attachment(&mut opener, attachment).await?;
        }
        Ok(read)
    }

    async fn pick(&self, id: &ConversationId, positions: &[Seq]) -> Result<Page, StoreError> {
        let page = self.inner.pick(id, positions).await?;
        self.open_page(id, page).await
    }
}

impl<S: Attach> EncryptedStore<S> {
    /// Reads attachments with at least `limit` bytes of data together, if there are as many. Their number is not known,
    /// and each one is larger by a constant than its data.
    async fn read_attachments(
        &self,
        id: &ConversationId,
        names: &[AttachmentName],
        limit: usize,
    ) -> Result<Attachments, StoreError> {
        let mut expected = EXPECTED;
        loop {
            let with_overhead = limit.saturating_add(expected.saturating_mul(OVERHEAD));
            let read = self.inner.attachments(id, names, with_overhead).await?;
            let found = read.attachments.len();
            // Among fewer attachments than expected, the next one did not fit although there was room for its overhead.
            if !read.more || found < expected {
                return Ok(read);
            }
            expected = found.saturating_mul(2);
        }
    }
}

/// Leaves out the attachments that do not fit in `limit` bytes of data.
fn cut_off(read: &mut Attachments, limit: usize) {
    let mut bytes = 0_usize;
    let fits = read.attachments.iter().take_while(|attachment| {
        bytes = bytes.saturating_add(attachment.body.len().saturating_sub(OVERHEAD));
        bytes <= limit
    });
    let fitting = fits.count();
    read.more |= fitting < read.attachments.len();
    read.attachments.truncate(fitting);
}
