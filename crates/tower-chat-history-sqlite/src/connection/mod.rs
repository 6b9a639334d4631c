//! Opening and configuring connections.

mod files;
mod inspect;
mod schema;
mod transaction;

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, MAIN_DB, OpenFlags};

use self::files::{Files, Refusal};
pub(crate) use self::{
    files::DatabaseFile,
    transaction::{LockWait, Savepoint, Transaction, rounded_up},
};
use crate::{
    error::is_lock,
    options::{OpenError, Settings, Synchronous},
};

/// The first version of SQLite without the WAL-reset bug, which can corrupt a database that two connections write and
/// checkpoint.
const FIRST_SAFE_SQLITE: i32 = 3_051_003;

/// The size of the writer's page cache, in KiB. The writer uses one or two leaf pages for each active conversation.
/// SQLite's default cache of 2 MiB holds the pages of a few hundred conversations, and this one the pages of a few
/// thousand. Readers gain nothing from a larger cache, because each commit empties their caches.
const WRITER_CACHE_KIB: i32 = 16 << 10;

/// The size in bytes to which SQLite truncates the write-ahead log when it resets the log.
const MAX_WAL_BYTES: i32 = 64 << 20;

/// The number of prepared statements that a connection caches: more than this library has.
const CACHED_STATEMENTS: usize = 64;

/// Opens the file for writing: inspects it, switches it to a write-ahead log and migrates its schema.
pub(crate) fn open_writer(settings: &Settings) -> Result<Connection, OpenError> {
    if !is_safe(rusqlite::version_number()) {
        return Err(OpenError::UnsafeSqlite { version: rusqlite::version() });
    }

    // Processes that open a new file at once can collide in places where SQLite does not wait, such as the switch to
    // WAL.
    let deadline = Instant::now() + settings.busy_timeout;
    let mut pause = Duration::from_millis(1);
    loop {
        match try_open_writer(settings) {
            Err(refusal) if refusal.is_lock() && Instant::now() < deadline => thread::sleep(pause),
            opened => return opened.map_err(|refusal| refusal.at(&settings.file)),
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn try_open_writer(settings: &Settings) -> Result<Connection, Refusal> {
    // Before anything is written: the file may belong to another application.
    let files = Files::at(&settings.file)?;
    inspect::check(&settings.file, &files, &schema::CURRENT)?;

    let connection = open(&settings.file, OpenFlags::SQLITE_OPEN_CREATE, settings.busy_timeout)?;

    // If other processes use the database, it was not inspected with its log, and may still be refused here. Closing
    // this connection must then leave that log unchanged. A log that this connection creates itself is removed.
    inspect::keep_log(&connection, files.has_log)?;
    schema::CURRENT.version(&connection)?;
    inspect::keep_log(&connection, false)?;

    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Refusal::NoWal { mode });
    }

    match settings.synchronous {
        Synchronous::Full => {
            connection.pragma_update(None, "synchronous", "full")?;
            // macOS flushes the disk's cache only with this setting. Other systems ignore it.
            connection.pragma_update(None, "fullfsync", true)?;
        }
        Synchronous::Normal => connection.pragma_update(None, "synchronous", "normal")?,
    }

    connection.pragma_update(None, "secure_delete", true)?;
    // No message text may be written to a temporary file. Only a scrub makes one.
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    connection.pragma_update(None, "journal_size_limit", MAX_WAL_BYTES)?;

    schema::CURRENT.migrate(&connection)?;
    check_writable(&connection)?;
    connection.busy_timeout(settings.busy_timeout)?;
    Ok(connection)
}

/// Checks that the file and the files next to it can be written. If one of them cannot, SQLite opens the database
/// read-only without an error, and fails at the first write.
fn check_writable(connection: &Connection) -> Result<(), Refusal> {
    if connection.is_readonly(MAIN_DB)? {
        return Err(Refusal::ReadOnly);
    }

    // This takes the write lock and writes nothing. If another process holds the lock, the files can be written, so
    // there is no need to wait.
    connection.busy_timeout(Duration::ZERO)?;
    match Transaction::immediate(connection) {
        Err(error) if !is_lock(&error) => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Opens the file for reading. The writer must be open.
pub(crate) fn open_reader(settings: &Settings) -> Result<Connection, OpenError> {
    try_open_reader(settings).map_err(|error| Refusal::from(error).at(&settings.file))
}

fn try_open_reader(settings: &Settings) -> rusqlite::Result<Connection> {
    let connection = open(&settings.file, OpenFlags::empty(), settings.busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens the file at an absolute path. SQLite would interpret a relative path that begins with `file:` as a URI, even
/// without the flag for URIs, because its bundled build enables them for all connections.
fn open(file: &Path, flags: OpenFlags, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    // Each connection is used by one thread, so SQLite need not lock it.
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(connection)
}

/// Returns `true` if this version of SQLite, as [`rusqlite::version_number`] returns it, is safe with several
/// connections.
const fn is_safe(version: i32) -> bool {
    version >= FIRST_SAFE_SQLITE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_corrupt_are_refused() {
        for unsafe_version in [3_007_000, 3_040_001, 3_050_004, 3_051_002] {
            assert!(!is_safe(unsafe_version), "{unsafe_version}");
        }
        for safe_version in [3_051_003, 3_053_000, 3_054_001, 4_000_000] {
            assert!(is_safe(safe_version), "{safe_version}");
        }
    }

    #[test]
    fn the_linked_sqlite_is_safe() {
        assert!(is_safe(rusqlite::version_number()), "{}", rusqlite::version());
    }
}
