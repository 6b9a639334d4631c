//! What a file is, and bringing it up to date.

use rusqlite::Connection;

use super::Transaction;
use crate::OpenError;

/// Marks the file as ours ("tChH"), in the place of the file header that is made for it.
const APPLICATION_ID: i32 = 0x7443_6848;

/// The step to each schema version from the one before. Files with these versions are out there: a step is never changed,
/// only followed by another one.
const MIGRATIONS: [&str; 2] = [include_str!("schema-1.sql"), include_str!("schema-2.sql")];

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // A handful.
const NEWEST: i32 = MIGRATIONS.len() as i32;

/// The file's schema version; 0 if it is empty.
///
/// # Errors
///
/// When the file is no database, another application's, or one of a newer version of this library.
pub(super) fn version(connection: &Connection) -> Result<i32, OpenError> {
    // One transaction: another process may be creating the schema right now.
    let transaction = Transaction::deferred(connection)?;
    let version = version_within(connection)?;
    transaction.commit()?;
    Ok(version)
}

fn version_within(connection: &Connection) -> Result<i32, OpenError> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i32>(0));
    let application_id = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    match application_id {
        APPLICATION_ID if version > NEWEST => Err(OpenError::NewerSchema { found: version, known: NEWEST }),
        APPLICATION_ID if version > 0 => Ok(version),
        0 if version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 => Ok(0),
        _ => Err(OpenError::Foreign { application_id }),
    }
}

/// Runs the steps that the file lacks, all or none.
pub(super) fn migrate(connection: &Connection) -> Result<(), OpenError> {
    if version(connection)? == NEWEST {
        return Ok(());
    }
    let transaction = Transaction::immediate(connection)?;
    // Another process may have done it while this one waited for the lock.
    let version = version_within(connection)?;
    for step in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", NEWEST)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection).unwrap();
        connection
    }

    #[test]
    fn an_empty_file_becomes_the_newest_version() {
        let connection = migrated();
        assert_eq!(version(&connection).unwrap(), NEWEST);
        migrate(&connection).unwrap();
    }

    #[test]
    fn each_version_is_brought_up_to_date() {
        for old in 1..MIGRATIONS.len() {
            let connection = Connection::open_in_memory().unwrap();
            MIGRATIONS[..old].iter().for_each(|step| connection.execute_batch(step).unwrap());
            connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
            connection.pragma_update(None, "user_version", i32::try_from(old).unwrap()).unwrap();
            migrate(&connection).unwrap();
            assert_eq!(version(&connection).unwrap(), NEWEST);
            let schema = |connection: &Connection| -> Vec<String> {
                let mut statement = connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            };
            assert_eq!(schema(&connection), schema(&migrated()));
        }
    }

    #[test]
    fn other_files_are_refused() {
        let foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE x (y)").unwrap();
        assert!(matches!(migrate(&foreign), Err(OpenError::Foreign { application_id: 0 })));

        let foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("PRAGMA application_id = 7").unwrap();
        assert!(matches!(migrate(&foreign), Err(OpenError::Foreign { application_id: 7 })));

        let newer = migrated();
        newer.execute_batch("PRAGMA user_version = 99").unwrap();
        assert!(matches!(migrate(&newer), Err(OpenError::NewerSchema { found: 99, known: NEWEST })));
    }

    #[test]
    fn a_failed_migration_leaves_nothing_behind() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA query_only = 1").unwrap();
        assert!(migrate(&connection).is_err());
        assert!(connection.is_autocommit());
        connection.execute_batch("PRAGMA query_only = 0").unwrap();
        migrate(&connection).unwrap();
    }
}
