//! Transactions that are rolled back when they are dropped.
//!
//! Those of rusqlite parse their statements each time, and its savepoints need exclusive access to the connection.

use rusqlite::Connection;

/// A transaction. It is rolled back when it is dropped.
#[must_use]
pub(crate) struct Transaction<'c> {
    connection: &'c Connection,
}

impl<'c> Transaction<'c> {
    /// Begins a transaction that takes the write lock at once. If it began as a read, its first write would fail as
    /// soon as another process had written since.
    pub(crate) fn immediate(connection: &'c Connection) -> rusqlite::Result<Self> {
        Self::begin(connection, "BEGIN IMMEDIATE")
    }

    /// Begins a transaction that reads one state of the file.
    pub(crate) fn deferred(connection: &'c Connection) -> rusqlite::Result<Self> {
        Self::begin(connection, "BEGIN DEFERRED")
    }

    fn begin(connection: &'c Connection, sql: &'static str) -> rusqlite::Result<Self> {
        // An earlier rollback may have failed. That must not fail every later transaction.
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
        // After some failures, SQLite has rolled back already.
        if !self.connection.is_autocommit() {
            // If this fails, the next transaction rolls back first.
            drop(execute(self.connection, "ROLLBACK"));
        }
    }
}

/// A part of a transaction that can be rolled back alone.
#[must_use]
pub(crate) struct Savepoint<'c> {
    connection: &'c Connection,
}

impl<'c> Savepoint<'c> {
    pub(crate) fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        execute(connection, "SAVEPOINT job")?;
        Ok(Self { connection })
    }

    /// Ends the savepoint: keeps its writes or rolls them back.
    pub(crate) fn end(self, keep: bool) -> rusqlite::Result<()> {
        if !keep {
            execute(self.connection, "ROLLBACK TO job")?;
        }
        execute(self.connection, "RELEASE job")
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
    fn a_savepoint_is_rolled_back_alone() {
        let connection = table();
        let transaction = Transaction::immediate(&connection).unwrap();
        for keep in [true, false, true] {
            let savepoint = Savepoint::new(&connection).unwrap();
            connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
            savepoint.end(keep).unwrap();
        }
        transaction.commit().unwrap();
        assert_eq!(count(&connection), 2);
    }

    #[test]
    fn a_transaction_left_open_does_not_block_the_next() {
        let connection = table();
        connection.execute_batch("BEGIN; INSERT INTO t VALUES (1)").unwrap();
        Transaction::immediate(&connection).unwrap().commit().unwrap();
        assert_eq!(count(&connection), 0);
    }
}
