//! Reading the entry of a conversation.

use tower_chat_history_core::{ConversationId, Labels, LabelsVersion, Listed, Seq, StoreError, Timestamp};

use crate::{
    call::Shared,
    concurrent,
    error::{Damaged, UnexpectedReply},
    scripts,
};

pub(crate) async fn describe(shared: &Shared, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
    let mut reply = shared.run(&shared.call(&scripts::DESCRIBE, id)).await?;
    match reply.word.as_str() {
        "absent" => Ok(None),
        "described" => {
            let revision = reply.revision()?;
            let [created, updated] = [reply.number()?, reply.number()?].map(Timestamp::from_unix_millis);
            let listed = Listed::new(id.clone(), revision, created, updated, reply.number()?);
            match reply.optional_bytes()? {
                Some(stored) => {
                    let (labels, version) = labels(&stored, id, revision.first())?;
                    Ok(Some(listed.labels(labels, version)))
                }
                None => Ok(Some(listed)),
            }
        }
        _ => Err(UnexpectedReply::error()),
    }
}

/// Reads the entries of several conversations.
pub(crate) async fn describe_all(
    shared: &Shared,
    ids: Vec<&ConversationId>,
) -> Vec<Result<Option<Listed>, StoreError>> {
    concurrent::all(ids.into_iter().map(|id| describe(shared, id)).collect()).await
}

/// Reads stored labels: their version, the name of the call that stored them, and their record.
pub(crate) fn labels(stored: &[u8], id: &ConversationId, first: Seq) -> Result<(Labels, LabelsVersion), StoreError> {
    let damaged = || Damaged::error(id, first.get());
    let mut parts = std::str::from_utf8(stored).map_err(|_| damaged())?.splitn(3, ' ');
    let version = parts.next().and_then(|version| version.parse().ok()).ok_or_else(damaged)?;
    let record = parts.nth(1).ok_or_else(damaged)?;
    // The error of a decoder can quote the record.
    let labels = Labels::decode(record).map_err(|_| damaged())?;
    Ok((labels, LabelsVersion::new(version)))
}
