//! Inspecting a database without changing anything, before it is opened for writing.
//!
//! Opening and closing a database normally changes files: opening recovers the data that a crash left in the log or
//! journal, and closing moves the write-ahead log into the database file. A database that is refused must not be
//! changed. The first inspection therefore reads only the database file: SQLite opens it as an immutable file, takes no
//! lock, and ignores its log and its journal. In most cases, this inspection accepts or refuses the database.
//!
//! The first inspection is not enough if all content is still in the log, or if a crash left the first page half
//! written. The file then looks empty, or not like a database. A second inspection reads it together with its log. Its
//! connection is in exclusive mode, so it creates no index of the log (`-shm`), and it does not move the log when it is
//! closed. If other processes use the database, the second inspection is not possible: the index exists already, and
//! the database is opened as usual.

use std::{path::Path, thread, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{
    files::{Files, Refusal},
    schema::Schema,
    transaction::Transaction,
};

/// The pause before the first inspection is repeated: it takes no lock, and may have read a page during a write.
const PAUSE: Duration = Duration::from_millis(10);

/// The result of inspecting the file alone.
enum Verdict {
    /// This library can open the database.
    Accepted,
    /// This library cannot open the database, whatever the log contains.
    Refused(Refusal),
    /// The result depends on the log.
    Unknown,
}

/// Inspects a file that is to be opened.
///
/// # Errors
///
/// Returns an error if the database belongs to another application or to a newer version of this library. Other
/// faults are found when the database is opened.
pub(super) fn check(file: &Path, files: &Files, schema: &Schema) -> Result<(), Refusal> {
    if !files.has_content {
        return Ok(());
    }

    let verdict = match inspect(file, schema) {
        Verdict::Refused(_) => {
            thread::sleep(PAUSE);
            inspect(file, schema)
        }
        verdict => verdict,
    };

    match verdict {
        Verdict::Refused(refusal) => Err(refusal),
        Verdict::Unknown if files.has_log => inspect_with_log(file, schema),
        Verdict::Accepted | Verdict::Unknown => Ok(()),
    }
}

fn inspect(file: &Path, schema: &Schema) -> Verdict {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let Ok(connection) = Connection::open_with_flags(immutable_uri(file), flags) else { return Verdict::Unknown };

    match schema.version_within(&connection) {
        Ok(0) => Verdict::Unknown,
        Ok(_) => Verdict::Accepted,
        Err(refusal @ Refusal::NewerSchema { .. }) => Verdict::Refused(refusal),
        Err(refusal @ Refusal::Foreign { application_id }) => {
            // After a crash, the file may have this library's tables but not its application id yet.
            let is_foreign = application_id != 0 || schema.has_other_objects(&connection).unwrap_or(false);
            if is_foreign { Verdict::Refused(refusal) } else { Verdict::Unknown }
        }
        Err(_) => Verdict::Unknown,
    }
}

/// Inspects the database with its log. If another process uses the database, or if it cannot be read this way, this
/// function does not refuse it.
fn inspect_with_log(file: &Path, schema: &Schema) -> Result<(), Refusal> {
    match read_with_log(file, schema) {
        Err(refusal @ (Refusal::Foreign { .. } | Refusal::NewerSchema { .. })) => Err(refusal),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn read_with_log(file: &Path, schema: &Schema) -> Result<(), Refusal> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    keep_log(&connection, true)?;
    connection.pragma_update(None, "locking_mode", "exclusive")?;

    let transaction = Transaction::deferred(&connection)?;
    schema.version_within(&connection)?;
    transaction.commit()?;
    Ok(())
}

/// Sets whether closing the connection keeps the log as it is.
pub(super) fn keep_log(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

/// Returns the URI that opens the file at an absolute path as an immutable one.
fn immutable_uri(file: &Path) -> String {
    let mut uri = String::from("file://");
    let bytes = file.as_os_str().as_encoded_bytes();
    if !bytes.starts_with(b"/") {
        uri.push('/');
    }

    for &byte in bytes {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b':' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            b'\\' if cfg!(windows) => uri.push('/'),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }

    uri.push_str("?immutable=1");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_path_are_escaped() {
        for (path, uri) in [
            ("/a/chat.db", "file:///a/chat.db?immutable=1"),
            ("/a b/50%?mode=rw#x&é", "file:///a%20b/50%25%3Fmode%3Drw%23x%26%C3%A9?immutable=1"),
        ] {
            assert_eq!(immutable_uri(Path::new(path)), uri);
        }
    }
}
