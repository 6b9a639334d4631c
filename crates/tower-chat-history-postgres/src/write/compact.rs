//! Storing a compaction.

use tokio_postgres::Row;
use tower_chat_history_core::{
    Compact, CompactOutcome, CompactionError, CompactionVersion, ConversationId, Incarnation, Profile, StoreError,
};

use crate::{
    database::Call,
    error::{Failure, PostgresError},
    rows::{self, count, stored, uuid},
};

/// A cut as the functions take it: its record and its positions.
#[derive(Debug)]
pub(super) struct CutParameters {
    pub(super) profile: Profile,
    pub(super) replaces: i64,
    pub(super) window: i64,
    pub(super) rounds: i64,
    pub(super) cleared: i64,
    pub(super) recalled_from: i64,
    pub(super) reasoning_from: i64,
    pub(super) encrypted_from: i64,
    pub(super) covers: i64,
    pub(super) body: String,
}

impl CutParameters {
    pub(super) fn new(compact: &Compact) -> Result<Self, StoreError> {
        let cut = &compact.cut;
        // The version is not in the record.
        let record = compact.stored_as(CompactionVersion::NONE);
        Ok(Self {
            profile: compact.profile.clone(),
            replaces: stored(compact.replaces.get()),
            window: stored(cut.window_start.get()),
            rounds: stored(cut.rounds_start.get()),
            cleared: stored(cut.cleared_before.get()),
            recalled_from: stored(cut.recalled_from.get()),
            reasoning_from: stored(cut.reasoning_from.get()),
            encrypted_from: stored(cut.encrypted_from.get()),
            covers: stored(cut.covers_to().get()),
            body: record.encode().map_err(StoreError::backend)?,
        })
    }
}

pub(crate) async fn compact(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    compact: Compact,
) -> Result<CompactOutcome, Failure> {
    let cut = CutParameters::new(&compact)?;
    let (incarnation, name) = (uuid(incarnation), uuid(Incarnation::random()));
    let rows = call
        .query(
            &call.sql.compact,
            &[
                &id.as_str(),
                &incarnation,
                &name,
                &cut.profile.as_str(),
                &cut.replaces,
                &cut.window,
                &cut.rounds,
                &cut.cleared,
                &cut.recalled_from,
                &cut.reasoning_from,
                &cut.encrypted_from,
                &cut.covers,
                &cut.body,
            ],
        )
        .await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    if row.try_get::<_, Option<i32>>(0)?.is_none() {
        return Err(StoreError::Gone.into());
    }
    // The function does not return the length of the log.
    outcome(id, &compact, row, 0, u64::MAX)
}

/// Reads the outcome of a compaction for a log of length `len`: verdict, version, positions and body, from a column on.
///
/// The verdict depends on the columns of the stored compaction. If it cannot be read, this is the error.
pub(super) fn outcome(
    id: &ConversationId,
    compact: &Compact,
    row: &Row,
    column: usize,
    len: u64,
) -> Result<CompactOutcome, Failure> {
    let (verdict, version): (i32, Option<i64>) = (row.try_get(column)?, row.try_get(column + 1)?);
    let stored = match version {
        Some(version) if verdict > 0 => {
            let (positions, body): (Vec<i64>, _) = (row.try_get(column + 2)?, row.try_get(column + 3)?);
            Some(rows::compaction(id, len, &compact.profile, version, &positions, body)?)
        }
        _ => None,
    };
    let refused = |error: CompactionError| Err(StoreError::from(error).into());
    match (verdict, version) {
        (0, Some(version)) => Ok(CompactOutcome::Stored(CompactionVersion::new(count(version)))),
        (1, _) => Ok(CompactOutcome::Kept(stored)),
        (2, _) => refused(CompactionError::GoesBack),
        (3, _) => refused(CompactionError::CoversWindow),
        (4, _) => refused(CompactionError::BeyondLog),
        (5, _) => refused(CompactionError::NotAnOpening { seq: compact.cut.window_start }),
        _ => Err(PostgresError::Protocol.into()),
    }
}
