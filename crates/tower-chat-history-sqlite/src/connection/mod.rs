//! Connections: how they are opened and set up.

mod files;
mod look;
mod opened;
mod refused;
mod schema;
mod transaction;

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, MAIN_DB, OpenFlags};

use self::{files::Files, refused::Refused};
pub(crate) use self::{
    files::LONGEST_PATH,
    opened::OpenedFile,
    transaction::{Savepoint, Transaction},
};
use crate::{OpenError, Synchronous, error::is_lock, options::Settings};

/// The first SQLite without the WAL-reset bug, which could corrupt a database that two connections write and checkpoint.
const FIRST_SAFE_SQLITE: i32 = 3_051_003;

/// The writer touches a leaf or two for each conversation that is active. SQLite's default of 2 MiB holds those of some
/// hundred; this holds those of some thousand. (A larger cache is of no use to readers: each commit empties theirs.)
const WRITER_CACHE_KIB: i32 = 16 << 10;

/// A write-ahead log that one large write made longer than this is cut when it is reset.
const LONGEST_WAL: i32 = 64 << 20;

/// Statements that a connection keeps prepared: more than there are.
const STATEMENTS: usize = 32;

/// Opens the file to write: checks what it is, switches it to a write-ahead log and brings its schema up to date.
pub(crate) fn open_writer(settings: &Settings) -> Result<Connection, OpenError> {
    if !is_safe(rusqlite::version_number()) {
        return Err(OpenError::UnsafeSqlite { version: rusqlite::version() });
    }
    // Processes that open a new file at once collide where SQLite does not wait by itself, such as in the switch to WAL.
    let deadline = Instant::now() + settings.busy_timeout;
    let mut pause = Duration::from_millis(1);
    loop {
        match try_open_writer(settings) {
            Err(refused) if refused.is_lock() && Instant::now() < deadline => thread::sleep(pause),
            opened => return opened.map_err(|refused| refused.at(&settings.file)),
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn try_open_writer(settings: &Settings) -> Result<Connection, Refused> {
    // Before anything is written: the file may be somebody else's.
    let files = Files::at(&settings.file)?;
    look::check(&settings.file, &files, &schema::CURRENT)?;
    let connection = open(&settings.file, OpenFlags::SQLITE_OPEN_CREATE, settings.busy_timeout)?;
    // A database that others use was not looked at with its log. (A log that this connection makes is to go with it.)
    look::keep_log(&connection, files.has_log)?;
    schema::CURRENT.version(&connection)?;
    look::keep_log(&connection, false)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Refused::NoWal { mode });
    }
    match settings.synchronous {
        Synchronous::Full => {
            connection.pragma_update(None, "synchronous", "full")?;
            // On macOS the disk's own cache is flushed only on this demand; elsewhere it changes nothing.
            connection.pragma_update(None, "fullfsync", true)?;
        }
        Synchronous::Normal => connection.pragma_update(None, "synchronous", "normal")?,
    }
    connection.pragma_update(None, "secure_delete", true)?;
    // No text of a conversation may land in a temporary file.
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    connection.pragma_update(None, "journal_size_limit", LONGEST_WAL)?;
    schema::CURRENT.migrate(&connection)?;
    check_writable(&connection)?;
    connection.busy_timeout(settings.busy_timeout)?;
    Ok(connection)
}

/// Checks that the file and those beside it can be written. Where they cannot, SQLite opens them to read only, and says
/// so with the first write.
fn check_writable(connection: &Connection) -> Result<(), Refused> {
    if connection.is_readonly(MAIN_DB)? {
        return Err(Refused::ReadOnly);
    }
    // Nothing is written. Whoever has the lock can write the files, so there is no need to wait.
    connection.busy_timeout(Duration::ZERO)?;
    match Transaction::immediate(connection) {
        Err(error) if !is_lock(&error) => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Opens the file to read. The writer has been opened before.
pub(crate) fn open_reader(settings: &Settings) -> Result<Connection, OpenError> {
    let open = || {
        let connection = open(&settings.file, OpenFlags::empty(), settings.busy_timeout)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    };
    open().map_err(|error: rusqlite::Error| Refused::from(error).at(&settings.file))
}

/// Opens the file at an absolute path. SQLite takes a relative one that begins with `file:` for a URI, whatever the
/// flags are: its bundled build has URIs switched on for all connections.
fn open(file: &Path, flags: OpenFlags, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    // Each connection stays with one thread, so SQLite need not lock it.
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Whether that version of SQLite, as [`rusqlite::version_number`] gives it, may write a database with several connections.
const fn is_safe(version: i32) -> bool {
    version >= FIRST_SAFE_SQLITE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_the_versions_that_corrupt() {
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
