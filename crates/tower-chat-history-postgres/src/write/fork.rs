//! Copying the beginning of a log into a new conversation.

use tokio_postgres::types::ToSql;
use tower_chat_history_core::{ConversationId, ForkTo, Forked, Incarnation, StoreError};
use uuid::Uuid;

use crate::{
    database::Call,
    error::{Failure, PostgresError},
    rows::{revision, stored, uuid},
};

/// Makes the copy. A repetition after a lost response finds it by its incarnation.
pub(crate) async fn fork(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    to: &ForkTo,
) -> Result<Forked, Failure> {
    let labels = (!to.labels.is_empty()).then(|| to.labels.encode());
    let compact = to.compact.as_ref();
    let parameters: [&(dyn ToSql + Sync); 12] = [
        &id.as_str(),
        &uuid(incarnation),
        &to.id.as_str(),
        &uuid(to.incarnation),
        &stored(to.before.get()),
        &to.since.map(|epoch| stored(epoch.get())),
        &stored(to.at.as_unix_millis()),
        &labels,
        &compact.map(|compact| compact.profile.as_str()),
        &compact.map(|compact| stored(compact.window_start.get())),
        &compact.map(|compact| &*compact.state),
        &compact.and_then(|compact| compact.derived.as_deref()),
    ];
    let rows = call.query(&call.sql.fork, &parameters).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;

    let current = match row.try_get::<_, Option<Uuid>>(1)? {
        Some(incarnation) => Some(revision(incarnation, row.try_get(3)?, row.try_get(2)?)),
        None => None,
    };
    match row.try_get(0)? {
        0 => Ok(Forked::new(current)),
        1 => Err(StoreError::Conflict { current }.into()),
        2 => Err(StoreError::Gone.into()),
        _ => Err(PostgresError::Protocol.into()),
    }
}
