//! Replacing labels.

use tower_chat_history_core::{ConversationId, Incarnation, Labels, LabelsOutcome, LabelsVersion, Seq, StoreError};

use crate::{
    call::{Shared, call_name},
    error::UnexpectedReply,
    read, scripts,
};

pub(crate) async fn set_labels(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    replaces: LabelsVersion,
    labels: &Labels,
) -> Result<LabelsOutcome, StoreError> {
    let (name, record) = (call_name(), labels.encode());
    let call = shared.call(&scripts::LABEL, id).bytes(incarnation.as_bytes()).owned(replaces.get().to_string());
    let mut reply = shared.run(&call.text(&name).text(&record)).await?;
    match reply.word.as_str() {
        "labeled" => Ok(LabelsOutcome::Stored(LabelsVersion::new(reply.number()?))),
        "kept" => {
            let stored = reply.optional_bytes()?.unwrap_or_default();
            let (labels, version) = read::labels(&stored, id, Seq::FIRST)?;
            Ok(LabelsOutcome::Kept(labels, version))
        }
        "full" => Err(reply.full(record.len())?),
        _ => Err(UnexpectedReply::error()),
    }
}
