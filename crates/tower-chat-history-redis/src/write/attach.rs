//! Removing and storing attachments.

use tower_chat_history_core::{Attachment, AttachmentKey, ConversationId, Incarnation, Seq, StoreError};

use crate::{
    attachment::{end_and_size, field},
    call::Shared,
    error::UnexpectedReply,
    scripts,
};

/// Removes attachments, then stores others. The call may be repeated: it then removes and stores the same ones.
pub(crate) async fn attach(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    remove: &[AttachmentKey],
    put: &[Attachment],
) -> Result<(), StoreError> {
    // If an attachment breaks a rule in every log, only the incarnation is sent. The script then changes nothing.
    let is_allowed = put.iter().all(|attachment| attachment.check(Seq::new(u64::MAX)).is_ok());
    let (sent_remove, sent_put) = if is_allowed { (remove, put) } else { (&[][..], &[][..]) };
    let call = shared.call(&scripts::ATTACH, id).bytes(incarnation.as_bytes()).number(sent_remove.len() as u64);
    let call = sent_remove.iter().fold(call, |call, key| call.owned(field(key)));
    let call = sent_put.iter().fold(call, |call, attachment| {
        let call = call.owned(field(&attachment.key())).owned(end_and_size(attachment));
        call.bytes(&attachment.body)
    });
    let mut reply = shared.run(&call).await?;
    match reply.word.as_str() {
        "attached" if is_allowed => Ok(()),
        "attached" | "beyond" => Err(broken_rule(put, reply.number()?)),
        "full" => Err(reply.full(put.iter().map(|attachment| attachment.body.len()).sum())?),
        _ => Err(UnexpectedReply::error()),
    }
}

/// Returns the error for the first attachment that breaks a rule in a log of length `len`.
fn broken_rule(put: &[Attachment], len: u64) -> StoreError {
    let broken = put.iter().find_map(|attachment| attachment.check(Seq::new(len)).err());
    broken.map_or_else(UnexpectedReply::error, StoreError::from)
}
