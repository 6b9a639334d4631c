//! Transactions that end in any case.
//!
//! rusqlite has both, but parses their statements each time and wants the connection exclusively for a savepoint.

use rusqlite::Connection;

/// A transaction. It is rolled back when it is dropped.
#[must_use]
pub(crate) struct Transaction<'c> {
    connection: &'c Connection,
}

impl<'c> Transaction<'c> {
    /// Takes the write lock now: a read that turns into a write later fails at once if another process wrote meanwhile.
    pub(crate) fn immediate(connection: &'c Connection) -> rusqlite::Result<Self> {
        Self::begin(connection, "BEGIN IMMEDIATE")
    }

    /// Reads one state of the file.
    pub(crate) fn deferred(connection: &'c Connection) -> rusqlite::Result<Self> {
        Self::begin(connection, "BEGIN DEFERRED")
    }

    fn begin(connection: &'c Connection, sql: &'static str) -> rusqlite::Result<Self> {
        // A rollback that failed before must not fail every later transaction.
        if !connection.is_autocommit() {
            execute(connection, "ROLLBACK")?;
        }
        execute(connection, sql)?;
        Ok(Self { connection })
    }

    /// Commits, or rolls back if that fails.
    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        execute(self.connection, "COMMIT")
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SQLite itself rolls back after some failures.
        if !self.connection.is_autocommit() {
            // A failure of this one shows when the next transaction begins.
            drop(execute(self.connection, "ROLLBACK"));
        }
    }
}

/// A part of a transaction that can be taken back by itself.
#[must_use]
pub(crate) struct Savepoint<'c> {
    connection: &'c Connection,
}

impl<'c> Savepoint<'c> {
    pub(crate) fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        execute(connection, "SAVEPOINT part")?;
        Ok(Self { connection })
    }

    /// Ends the part: what it wrote is kept or taken back.
    pub(crate) fn end(self, keep: bool) -> rusqlite::Result<()> {
        if !keep {
            execute(self.connection, "ROLLBACK TO part")?;
        }
        execute(self.connection, "RELEASE part")
    }
}

fn execute(connection: &Connection, sql: &'static str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    fn table() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        connection
    }

    #[test]
    fn a_dropped_transaction_is_rolled_back() {
        let connection = table();
        let transaction = Transaction::immediate(&connection).unwrap();
        connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        drop(transaction);
        assert!(connection.is_autocommit());
        assert_eq!(count(&connection), 0);
    }

    #[test]
    fn a_part_is_taken_back_by_itself() {
        let connection = table();
        let transaction = Transaction::immediate(&connection).unwrap();
        for keep in [true, false, true] {
            let part = Savepoint::new(&connection).unwrap();
            connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
            part.end(keep).unwrap();
        }
        transaction.commit().unwrap();
        assert_eq!(count(&connection), 2);
    }

    #[test]
    fn a_transaction_left_open_does_not_stop_the_next() {
        let connection = table();
        connection.execute_batch("BEGIN; INSERT INTO t VALUES (1)").unwrap();
        Transaction::immediate(&connection).unwrap().commit().unwrap();
        assert_eq!(count(&connection), 0);
    }
}
