//! Replacing the labels of a conversation.

use tower_chat_history_core::{ConversationId, Incarnation, Labels, LabelsOutcome, LabelsVersion, StoreError};

use crate::{
    database::Call,
    error::{Failure, PostgresError},
    read,
    rows::{count, stored, uuid},
};

pub(crate) async fn set_labels(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    replaces: LabelsVersion,
    labels: &Labels,
) -> Result<LabelsOutcome, Failure> {
    let (incarnation, name) = (uuid(incarnation), uuid(Incarnation::random()));
    let json = (!labels.is_empty()).then(|| labels.encode());
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&id.as_str(), &incarnation, &stored(replaces.get()), &name, &json];
    let rows = call.query(&call.sql.set_labels, &parameters).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    let Some(verdict) = row.try_get::<_, Option<i32>>(0)? else { return Err(StoreError::Gone.into()) };
    let version = LabelsVersion::new(count(row.try_get(1)?));
    match verdict {
        0 => Ok(LabelsOutcome::Stored(version)),
        1 => Ok(LabelsOutcome::Kept(read::labels(row.try_get(2)?)?, version)),
        _ => Err(PostgresError::Protocol.into()),
    }
}
