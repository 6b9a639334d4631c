//! Emptying the write-ahead log, and rewriting the database.

use std::time::Instant;

use rusqlite::Connection;
use tower_chat_history_core::StoreError;

use crate::{
    command::UpkeepStep,
    connection::OpenedFile,
    error::Failure,
    wait::{LockWait, rounded_up},
};

/// Runs a step that was queued at this time.
pub(super) fn run(
    connection: &Connection,
    file: &OpenedFile,
    wait: &LockWait,
    step: UpkeepStep,
    queued: Instant,
) -> Result<(), Failure> {
    file.check()?;
    match step {
        UpkeepStep::Checkpoint => checkpoint(connection, wait, queued),
        UpkeepStep::Scrub => {
            vacuum(connection, wait, queued)?;
            // The step before may have taken longer than a call waits for a lock.
            checkpoint(connection, wait, Instant::now())?;
            Ok(file.check()?)
        }
    }
}

/// Moves the content of the write-ahead log into the database, and truncates the log to 0 bytes.
fn checkpoint(connection: &Connection, wait: &LockWait, queued: Instant) -> Result<(), Failure> {
    limit_wait(connection, wait, queued)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))?;
    if busy { Err(StoreError::unavailable(CheckpointBusy).into()) } else { Ok(()) }
}

/// Writes the database anew, with only the rows that it has. The setting `secure_delete` does not overwrite everything:
/// when rows move between pages, copies stay behind in the unused parts of the old pages.
fn vacuum(connection: &Connection, wait: &LockWait, queued: Instant) -> Result<(), Failure> {
    limit_wait(connection, wait, queued)?;
    // SQLite makes a copy first. In memory, a large database would need as much memory as it has bytes. The copy has no
    // deleted text.
    connection.pragma_update(None, "temp_store", "file")?;
    let done = connection.execute_batch("VACUUM");
    let restored = connection.pragma_update(None, "temp_store", "memory");
    // If both failed, the cause is the first one.
    done?;
    Ok(restored?)
}

/// Lets the connection wait for a lock for as long as a call may that was queued at this time.
fn limit_wait(connection: &Connection, wait: &LockWait, queued: Instant) -> rusqlite::Result<()> {
    let now = Instant::now();
    let left = wait.deadline(queued, now).saturating_duration_since(now);
    connection.busy_timeout(rounded_up(left))
}

#[derive(Debug, thiserror::Error)]
#[error("the write-ahead log was not emptied, because another process uses it")]
struct CheckpointBusy;
