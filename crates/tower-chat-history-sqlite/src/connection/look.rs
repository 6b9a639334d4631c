//! A look at a database that changes nothing, before it is opened to be written.
//!
//! Opening a database the usual way recovers what a crash left beside it, and closing it moves the write-ahead log into
//! it. Whoever refuses a database must have done neither. So the database file is looked at by itself first: as a file
//! that never changes, SQLite takes no lock on it, and leaves its log and its journal alone. That settles it for most.
//!
//! It does not for a database that has everything in its log yet, or whose first page a crash has torn: they look
//! empty, or like none. They are read together with their log, by the only connection there is: that one needs no index
//! beside the log, and does not move it. Where others use the database, they have its index, and this store reads as
//! one of them.

use std::{path::Path, thread, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{Refused, Transaction, files::Files, schema::Schema};

/// The pause before a second look: the first one takes no lock, and may have seen a page that was just being written.
const PAUSE: Duration = Duration::from_millis(10);

/// The verdict on the file by itself.
enum Seen {
    /// A database that this library can open.
    Ours,
    /// None that it can open, whatever is in the log.
    Refused(Refused),
    /// The log decides.
    Unknown,
}

/// Looks at a file that is to be opened.
///
/// # Errors
///
/// When the database is another application's or a newer version's. What else is wrong is found when it is opened.
pub(super) fn check(file: &Path, files: &Files, schema: &Schema) -> Result<(), Refused> {
    if !files.is_begun {
        return Ok(());
    }
    let seen = match look(file, schema) {
        Seen::Refused(_) => {
            thread::sleep(PAUSE);
            look(file, schema)
        }
        seen => seen,
    };
    match seen {
        Seen::Refused(refused) => Err(refused),
        Seen::Unknown if files.has_log => with_its_log(file, schema),
        Seen::Ours | Seen::Unknown => Ok(()),
    }
}

fn look(file: &Path, schema: &Schema) -> Seen {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let Ok(connection) = Connection::open_with_flags(unchanging(file), flags) else { return Seen::Unknown };
    match schema.version_within(&connection) {
        Ok(0) => Seen::Unknown,
        Ok(_) => Seen::Ours,
        Err(refused @ Refused::NewerSchema { .. }) => Seen::Refused(refused),
        Err(refused @ Refused::Foreign { application_id }) => {
            // A page that a crash has torn may have tables, and no id yet. They are this library's then.
            let is_foreign = application_id != 0 || schema.has_other_objects(&connection).unwrap_or(false);
            if is_foreign { Seen::Refused(refused) } else { Seen::Unknown }
        }
        Err(_) => Seen::Unknown,
    }
}

/// Reads the database with its log. Where somebody else uses it, or it cannot be read so, nothing is known.
fn with_its_log(file: &Path, schema: &Schema) -> Result<(), Refused> {
    let read = || -> Result<(), Refused> {
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
        Err(refused @ (Refused::Foreign { .. } | Refused::NewerSchema { .. })) => Err(refused),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Keeps the log as it is when the connection is closed, or does not.
pub(super) fn keep_log(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

/// The URI of a file at an absolute path, as of one that never changes.
fn unchanging(file: &Path) -> String {
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
    fn a_name_is_a_name_and_no_part_of_a_uri() {
        for (path, uri) in [
            ("/a/chat.db", "file:///a/chat.db?immutable=1"),
            ("/a b/50%?mode=rw#x&é", "file:///a%20b/50%25%3Fmode%3Drw%23x%26%C3%A9?immutable=1"),
        ] {
            assert_eq!(unchanging(Path::new(path)), uri);
        }
    }
}
