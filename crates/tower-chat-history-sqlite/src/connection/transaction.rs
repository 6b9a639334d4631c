//! Transactions, and the time that calls wait for a lock that another process holds.

use std::time::{Duration, Instant};

use rusqlite::Connection;

/// A transaction. (Those of rusqlite parse their statements each time, and its savepoints need exclusive access to the
/// connection.)
///
/// It is rolled back when it is dropped.
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

/// Tracks how long one thread, and the calls queued for it, have waited for a lock.
///
/// The timeout applies to each call, not to each attempt: while the thread waits for the lock on behalf of one call,
/// the queued calls wait for it too. A call's wait therefore starts when it was queued or when the thread first met
/// the lock, whichever is later.
#[derive(Debug)]
pub(crate) struct LockWait {
    timeout: Duration,
    /// The time when the thread met the lock; `None` if the last attempt acquired it.
    blocked_since: Option<Instant>,
}

impl LockWait {
    pub(crate) const fn new(timeout: Duration) -> Self {
        Self { timeout, blocked_since: None }
    }

    /// Returns the time at which a call fails if it does not get the lock, computed at `now`. A call whose time is over
    /// is still tried once.
    pub(crate) fn deadline(&self, queued: Instant, now: Instant) -> Instant {
        self.blocked_since.map_or(now, |since| since.max(queued)) + self.timeout
    }

    /// Notes that an attempt that began at `began` did not get the lock.
    pub(crate) fn blocked(&mut self, began: Instant) {
        self.blocked_since.get_or_insert(began);
    }

    /// Notes that an attempt got the lock.
    pub(crate) const fn acquired(&mut self) {
        self.blocked_since = None;
    }
}

/// Adds a millisecond to a wait that is not zero, because SQLite counts in whole milliseconds and drops the fraction.
pub(crate) fn rounded_up(wait: Duration) -> Duration {
    if wait.is_zero() { wait } else { wait + Duration::from_millis(1) }
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

    #[test]
    fn a_wait_starts_when_the_call_was_queued_or_when_the_lock_was_met() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut wait = LockWait::new(Duration::from_secs(5));
        assert_eq!(wait.deadline(at(0), at(60)), at(65), "time in a long queue does not count");
        wait.blocked(at(60));
        wait.blocked(at(62));
        assert_eq!(wait.deadline(at(0), at(64)), at(65));
        assert_eq!(wait.deadline(at(63), at(64)), at(68));
        assert_eq!(wait.deadline(at(0), at(70)), at(65), "its time is over: it is tried once, without waiting");
        wait.acquired();
        assert_eq!(wait.deadline(at(0), at(70)), at(75));
    }
}
