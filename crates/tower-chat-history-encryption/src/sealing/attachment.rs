//! Sealed attachments. Their names and ranges stay visible.

use tower_chat_history_core::{Attachment, AttachmentError, StoreError};

use super::Opener;
use crate::{cipher::Cipher, error::OpenError, item::Item};

fn item_of(attachment: &Attachment) -> Item {
    Item::Attachment(attachment.name.clone(), attachment.range.clone())
}

/// Seals the data of an attachment.
pub(crate) fn seal_attachment(cipher: &Cipher, attachment: &Attachment) -> Result<Attachment, StoreError> {
    let bytes = attachment.body.len();
    if bytes > Attachment::MAX_BYTES {
        return Err(AttachmentError::TooLarge { bytes }.into());
    }
    let body = cipher.seal(&item_of(attachment), &attachment.body)?;
    Ok(Attachment::new(attachment.name.clone(), attachment.range.clone(), body))
}

/// Opens the data of an attachment.
pub(crate) async fn open_attachment(opener: &mut Opener<'_>, attachment: &Attachment) -> Result<Attachment, OpenError> {
    let body = opener.open_bytes(&item_of(attachment), &attachment.body).await?;
    Ok(Attachment::new(attachment.name.clone(), attachment.range.clone(), body))
}
