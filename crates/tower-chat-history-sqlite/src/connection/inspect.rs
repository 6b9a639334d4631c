//! Inspecting a database without changing anything, before it is opened for writing.
//!
//! Opening a database the usual way recovers what a crash left beside it, and closing it moves the write-ahead log into
//! it. A database that is refused must not be changed like that. So the database file is inspected alone first: SQLite
//! opens it as an immutable file, takes no lock, and ignores its log and its journal. In most cases, this decides.
//!
//! It does not decide if all content is still in the log, or if a crash tore the first page: such a file looks empty,
//! or not like a database. It is then read together with its log, by a connection in exclusive mode, which needs no
//! index beside the log, and which is set not to move the log. If other processes use the database, the index exists
//! already, and this store reads it as they do.

use std::{path::Path, thread, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{Refusal, Transaction, files::Files, schema::Schema};

/// The pause before a second inspection: the first one takes no lock, and may have read a page during a write.
const PAUSE: Duration = Duration::from_millis(10);

/// The result of inspecting the file alone.
enum Verdict {
    /// This library can open the database.
    Accepted,
    /// This library cannot open the database, whatever the log contains.
    Refused(Refusal),
    /// The log decides.
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
            // If a crash tore the page, it may have this library's tables but no application id yet.
            let is_foreign = application_id != 0 || schema.has_other_objects(&connection).unwrap_or(false);
            if is_foreign { Verdict::Refused(refusal) } else { Verdict::Unknown }
        }
        Err(_) => Verdict::Unknown,
    }
}

/// Inspects the database with its log. If another process uses it, or if it cannot be read this way, it is not refused
/// here.
fn inspect_with_log(file: &Path, schema: &Schema) -> Result<(), Refusal> {
    let read = || -> Result<(), Refusal> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        keep_log(&connection, true)?;
        connection.pragma_update(None, "locking_mode", "exclusive")?;
        let transaction = Transaction::deferred(&connection)?;
        schema.version_within(&connection)?;
        transaction.commit()?;
        Ok(())
    };
    match read() {
        Err(refusal @ (Refusal::Foreign { .. } | Refusal::NewerSchema { .. })) => Err(refusal),
        Ok(()) | Err(_) => Ok(()),
    }
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
