//! The schema: identifying and migrating a file.
//!
//! # Decisions
//!
//! - **The rowid combines conversation and position**, so a window is one range of rows. In order of arrival, reads
//!   took 1.3 to 2.8 times as long.

use rusqlite::Connection;

use super::{files::Refusal, transaction::Transaction};

/// Marks the file as one of this library ("tChH"), in the header field that SQLite has for this.
const APPLICATION_ID: i32 = 0x7443_6848;

/// The schema that this version of the library writes.
pub(super) const CURRENT: Schema = Schema { steps: &[include_str!("schema-1.sql")] };

/// A schema, as the migration steps that lead to it. Each step starts from the version before it. Versions are numbered
/// from 1, as their steps are.
///
/// Before release 0.1.0 a step is edited in place. From 0.1.0 on, files with these versions exist: a step is never
/// changed, only followed by another one.
pub(super) struct Schema {
    steps: &'static [&'static str],
}

impl Schema {
    /// Returns the version after the last step.
    fn newest(&self) -> i32 {
        i32::try_from(self.steps.len()).unwrap_or(i32::MAX)
    }

    /// Returns the file's schema version; 0 if the file is empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is not a database, or belongs to another application or to a newer version of this
    /// library.
    pub(super) fn version(&self, connection: &Connection) -> Result<i32, Refusal> {
        // One transaction: another process may be creating the schema right now.
        let transaction = Transaction::deferred(connection)?;
        let version = self.version_within(connection)?;
        transaction.commit()?;
        Ok(version)
    }

    /// Does the same as [`version`](Self::version) in the caller's transaction, or without one if nothing can change.
    pub(super) fn version_within(&self, connection: &Connection) -> Result<i32, Refusal> {
        let application_id = number(connection, "PRAGMA application_id")?;
        let version = number(connection, "PRAGMA user_version")?;
        let known = self.newest();

        match application_id {
            APPLICATION_ID if version > known => Err(Refusal::NewerSchema { found: version, known }),
            APPLICATION_ID if version > 0 => Ok(version),
            0 if version == 0 && number(connection, "SELECT count(*) FROM sqlite_schema")? == 0 => Ok(0),
            _ => Err(Refusal::Foreign { application_id }),
        }
    }

    /// Returns `true` if there are tables, indexes, views or triggers that no version of this library creates.
    pub(super) fn has_other_objects(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut statement = connection.prepare("SELECT tbl_name FROM sqlite_schema")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let table: String = row.get(0)?;
            if !self.steps.iter().any(|step| step.contains(&format!("CREATE TABLE {table} "))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the steps that the file lacks: all of them, or none if one fails.
    pub(super) fn migrate(&self, connection: &Connection) -> Result<(), Refusal> {
        if self.version(connection)? == self.newest() {
            return Ok(());
        }

        let transaction = Transaction::immediate(connection)?;
        // Another process may have migrated the file while this one waited for the lock.
        let version = self.version_within(connection)?;
        for step in self.steps.iter().skip(usize::try_from(version).unwrap_or(0)) {
            connection.execute_batch(step)?;
        }

        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", self.newest())?;
        transaction.commit()?;
        Ok(())
    }
}

/// Returns the number that a statement selects.
fn number(connection: &Connection, sql: &str) -> rusqlite::Result<i32> {
    connection.query_row(sql, [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema of a later version of this library, with a made-up step.
    const LATER: Schema = Schema {
        steps: &[
            include_str!("schema-1.sql"),
            "ALTER TABLE conversation ADD COLUMN title TEXT; CREATE TABLE label (name TEXT) STRICT;",
        ],
    };

    fn migrated(schema: &Schema) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        schema.migrate(&connection).unwrap();
        connection
    }

    fn tables(connection: &Connection) -> Vec<String> {
        let mut statement = connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    const INSERT: &str = "INSERT INTO conversation VALUES (1, 'k', x'00', 1, 0, 1, 0, 0, 0, 0, NULL)";

    #[test]
    fn an_empty_file_becomes_the_newest_version() {
        for (schema, newest) in [(&CURRENT, 1), (&LATER, 2)] {
            let connection = migrated(schema);
            assert_eq!(schema.version(&connection).unwrap(), newest);
            schema.migrate(&connection).unwrap();
            assert_eq!(schema.version(&connection).unwrap(), newest);
        }
    }

    #[test]
    fn a_file_of_an_older_version_gets_the_steps_it_lacks_and_keeps_its_rows() {
        let connection = migrated(&CURRENT);
        connection.execute_batch(INSERT).unwrap();
        LATER.migrate(&connection).unwrap();
        assert_eq!(LATER.version(&connection).unwrap(), 2);
        assert_eq!(tables(&connection), tables(&migrated(&LATER)));
        let row = connection.query_row("SELECT key, title FROM conversation", [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(row.unwrap(), ("k".to_owned(), None::<String>));
    }

    #[test]
    fn a_file_of_a_later_version_is_refused_and_left_alone() {
        let connection = migrated(&LATER);
        for refused in [CURRENT.version(&connection).map(drop), CURRENT.migrate(&connection)] {
            assert!(matches!(refused, Err(Refusal::NewerSchema { found: 2, known: 1 })), "{refused:?}");
        }
        assert_eq!(LATER.version(&connection).unwrap(), 2);
        assert_eq!(tables(&connection), tables(&migrated(&LATER)));
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_at_its_version() {
        const BROKEN: Schema = Schema { steps: &[LATER.steps[0], LATER.steps[1], "CREATE TABLE conversation (x)"] };
        let connection = migrated(&CURRENT);
        assert!(BROKEN.migrate(&connection).is_err());
        assert!(connection.is_autocommit());
        assert_eq!(CURRENT.version(&connection).unwrap(), 1);
        assert_eq!(tables(&connection), tables(&migrated(&CURRENT)));
    }

    #[test]
    fn other_files_are_refused() {
        let foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE x (y)").unwrap();
        assert!(matches!(CURRENT.migrate(&foreign), Err(Refusal::Foreign { application_id: 0 })));

        let foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("PRAGMA application_id = 7").unwrap();
        assert!(matches!(CURRENT.migrate(&foreign), Err(Refusal::Foreign { application_id: 7 })));
    }

    #[test]
    fn a_failed_migration_leaves_nothing_behind() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA query_only = 1").unwrap();
        assert!(CURRENT.migrate(&connection).is_err());
        assert!(connection.is_autocommit());
        connection.execute_batch("PRAGMA query_only = 0").unwrap();
        CURRENT.migrate(&connection).unwrap();
    }
}
