//! Storing a compaction.

use tokio_postgres::{Row, types::ToSql};
use tower_chat_history_core::{
    Compact, CompactOutcome, CompactionVersion, ConversationId, Incarnation, Profile, StoreError,
};

use crate::{
    database::Call,
    error::{Failure, PostgresError},
    rows::{self, count, stored, uuid},
};

pub(crate) async fn compact(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    compact: Compact,
) -> Result<CompactOutcome, Failure> {
    let name = uuid(Incarnation::random());
    let parameters: [&(dyn ToSql + Sync); 8] = [
        &id.as_str(),
        &uuid(incarnation),
        &name,
        &compact.profile.as_str(),
        &stored(compact.replaces.get()),
        &stored(compact.window_start.get()),
        &&*compact.state,
        &compact.derived.as_deref(),
    ];
    let rows = call.query(&call.sql.compact, &parameters).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    if row.try_get::<_, Option<bool>>(0)?.is_none() {
        return Err(StoreError::Gone.into());
    }
    // The function does not return the length of the log.
    outcome(id, u64::MAX, &compact.profile, row, 0)
}

/// Reads the outcome of a compaction in a log of length `len`. Its columns begin at `column`: true if it was
/// stored, and those of the stored compaction.
pub(super) fn outcome(
    id: &ConversationId,
    len: u64,
    profile: &Profile,
    row: &Row,
    column: usize,
) -> Result<CompactOutcome, Failure> {
    if row.try_get(column)? {
        return Ok(CompactOutcome::Stored(CompactionVersion::new(count(row.try_get(column + 1)?))));
    }
    rows::compaction(id, len, profile, row, column + 1).map(CompactOutcome::Kept)
}
