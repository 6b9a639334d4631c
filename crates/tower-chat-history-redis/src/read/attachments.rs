//! Reading attachments.

use tower_chat_history_core::{Attachment, AttachmentName, Attachments, ConversationId, Revision, StoreError};

use super::page::MAX_PAGE_BYTES;
use crate::{
    attachment::attachment,
    call::Shared,
    contention::ContentionRetry,
    error::{Damaged, UnexpectedReply},
    reply::Reply,
    scripts,
};

/// The attachments that the steps of one call have read, and the state that they must all see.
struct Reading {
    revision: Revision,
    /// The number of changes of attachments.
    changes: u64,
    attachments: Vec<Attachment>,
    bytes: u64,
    /// The place at which the next step continues: the index of a name, and a member of that name or nothing.
    name: usize,
    after: Vec<u8>,
}

/// Reads the attachments in several steps if they are large. If they are changed in between, the call starts again.
pub(crate) async fn attachments(
    shared: &Shared,
    id: &ConversationId,
    names: &[AttachmentName],
    limit: usize,
) -> Result<Attachments, StoreError> {
    let mut retry = ContentionRetry::new();
    let (mut reading, mut is_large): (Option<Reading>, _) = (None, false);
    loop {
        let mut reply = step(shared, id, names, limit, reading.as_ref(), &mut is_large).await?;
        match reply.word.as_str() {
            "absent" => return Ok(Attachments::absent()),
            "changed" => {
                reading = None;
                retry.again().await?;
            }
            "attachments" => {
                let (read, rest) = add(&mut reply, id, reading.take())?;
                match rest.as_str() {
                    "next" => reading = Some(read),
                    "none" | "more" => return Ok(Attachments::new(read.revision, read.attachments, rest == "more")),
                    _ => return Err(UnexpectedReply::error()),
                }
            }
            _ => return Err(UnexpectedReply::error()),
        }
    }
}

async fn step(
    shared: &Shared,
    id: &ConversationId,
    names: &[AttachmentName],
    limit: usize,
    reading: Option<&Reading>,
    is_large: &mut bool,
) -> Result<Reply, StoreError> {
    let call = shared.call(&scripts::ATTACHMENTS, id);
    let incarnation = reading.map(|reading| reading.revision.incarnation());
    let call = match (&incarnation, reading) {
        (Some(incarnation), Some(Reading { changes, after, .. })) => {
            call.bytes(incarnation.as_bytes()).number(*changes).bytes(after)
        }
        _ => call.text("").text("").text(""),
    };
    let (bytes, first) = reading.map_or((0, 0), |reading| (reading.bytes, reading.name));
    let call = call.number((limit as u64).saturating_sub(bytes)).number(MAX_PAGE_BYTES);
    let rest = names.get(first..).unwrap_or_default();
    shared.run_limited_step(rest.iter().fold(call, |call, name| call.text(name.as_str())), is_large).await
}

/// Adds the attachments of a step to those that were read before. Returns them, and the word for those that remain.
fn add(reply: &mut Reply, id: &ConversationId, before: Option<Reading>) -> Result<(Reading, String), StoreError> {
    let revision = reply.revision(id)?;
    let changes = reply.number()?;
    let start = Reading { revision, changes, attachments: Vec::new(), bytes: 0, name: 0, after: Vec::new() };
    let mut read = before.unwrap_or(start);
    let rest = reply.text()?;
    read.name += usize::try_from(reply.number()?).map_err(|_| UnexpectedReply::error())?;
    read.after = reply.optional_bytes()?.unwrap_or_default();
    let (members, bodies) = (reply.byte_strings()?, reply.byte_strings()?);
    for (member, body) in members.into_iter().zip(bodies) {
        let attachment = attachment(&member, body, revision.version());
        let attachment = attachment.ok_or_else(|| Damaged::error(id, revision.first().get()))?;
        read.bytes += attachment.body.len() as u64;
        read.attachments.push(attachment);
    }
    Ok((read, rest))
}
