//! Storing a compaction.

use tokio_postgres::Row;
use tower_chat_history_core::{
    Compact, CompactOutcome, CompactionError, CompactionVersion, ConversationId, Incarnation, Profile, StoreError,
};

use crate::{
    PostgresError,
    database::Call,
    error::Failure,
    log::{self, count, stored, uuid},
};

/// A cut as the functions take it: its record, and the positions in it.
#[derive(Debug)]
pub(super) struct CutParameters {
    pub(super) profile: Profile,
    pub(super) replaces: i64,
    pub(super) window: i64,
    pub(super) rounds: i64,
    pub(super) cleared: i64,
    pub(super) covers: i64,
    pub(super) body: String,
}

impl CutParameters {
    pub(super) fn new(Compact { profile, replaces, cut }: &Compact) -> Result<Self, StoreError> {
        Ok(Self {
            profile: profile.clone(),
            replaces: stored(replaces.get()),
            window: stored(cut.window_start.get()),
            rounds: stored(cut.rounds_start.get()),
            cleared: stored(cut.cleared_before.get()),
            covers: stored(cut.covers_to().get()),
            body: cut.encode().map_err(StoreError::backend)?,
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
    let incarnation = uuid(incarnation);
    let rows = call
        .query(
            &call.sql.compact,
            &[
                &id.as_str(),
                &incarnation,
                &cut.profile.as_str(),
                &cut.replaces,
                &cut.window,
                &cut.rounds,
                &cut.cleared,
                &cut.covers,
                &cut.body,
            ],
        )
        .await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    if row.try_get::<_, Option<i32>>(0)?.is_none() {
        return Err(StoreError::Gone.into());
    }
    outcome(id, &compact, row, 0)
}

/// What became of a compaction: verdict, version and body stand in a row from a column on.
pub(super) fn outcome(
    id: &ConversationId,
    compact: &Compact,
    row: &Row,
    column: usize,
) -> Result<CompactOutcome, Failure> {
    let version: Option<i64> = row.try_get(column + 1)?;
    let refused = |error: CompactionError| Err(StoreError::from(error).into());
    match row.try_get::<_, i32>(column)? {
        0 => Ok(CompactOutcome::Stored(CompactionVersion::new(count(version.unwrap_or_default())))),
        1 => match version {
            None => Ok(CompactOutcome::Kept(None)),
            Some(version) => kept(log::compaction(id, &compact.profile, version, row.try_get(column + 2)?)?, compact),
        },
        2 => refused(CompactionError::GoesBack),
        3 => refused(CompactionError::CoversWindow),
        4 => refused(CompactionError::BeyondLog),
        5 => refused(CompactionError::NotAnOpening { seq: compact.cut.window_start }),
        6 => {
            // What cannot be read is told as a load tells it.
            log::compaction(id, &compact.profile, version.unwrap_or_default(), row.try_get(column + 2)?)?;
            Err(PostgresError::Protocol.into())
        }
        _ => Err(PostgresError::Protocol.into()),
    }
}

/// Another one is stored. If it is the very one that was to be stored, this call stored it and did not hear of it: its answer
/// was lost with the connection, and the call was repeated.
fn kept(stored: tower_chat_history_core::Compaction, compact: &Compact) -> Result<CompactOutcome, Failure> {
    if stored.version == compact.replaces.next() && stored.cut == compact.cut {
        return Ok(CompactOutcome::Stored(stored.version));
    }
    Ok(CompactOutcome::Kept(Some(stored)))
}
