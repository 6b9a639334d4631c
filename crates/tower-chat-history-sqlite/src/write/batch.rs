//! Committing many writes in one transaction.

use std::time::Instant;

use rusqlite::Connection;
use tower_chat_history_core::StoreError;

use crate::{
    connection::{DatabaseFile, LockWait, Savepoint, Transaction, rounded_up},
    error::{SqliteError, TransactionError, is_lock},
    job::{Job, JobOutcome},
    stats::Counters,
};

/// Runs the jobs in one transaction, each in its own savepoint, and answers them after the commit.
///
/// If a job is refused or fails, only its own writes are rolled back. If the transaction fails, all of its jobs fail,
/// also those that were refused: a refusal may have been caused by the write of an earlier job.
pub(super) fn run(
    connection: &Connection,
    batch: &mut Vec<Box<dyn Job>>,
    counters: &Counters,
    wait: &mut LockWait,
    file: &DatabaseFile,
) {
    let mut writes = write(connection, batch, counters, wait, file, false);
    if writes.as_ref().is_err_and(Abort::is_unreadable) {
        // Nothing was stored, so the batch can run again.
        writes = write(connection, batch, counters, wait, file, true);
    }

    match writes {
        Ok(Some(writes)) => counters.committed(writes),
        // A retry does not end with `Unreadable`: each job has its own result.
        Ok(None) | Err(Abort::Unreadable) => {}
        Err(Abort::Transaction(error)) => fail(batch, || error.to_store_error()),
        Err(Abort::Replaced(replaced)) => fail(batch, || StoreError::backend(replaced.clone())),
        Err(Abort::RollbackBy(failed)) => {
            for (index, job) in batch.iter_mut().enumerate() {
                if index != failed {
                    job.fail(StoreError::unavailable(Rollback));
                }
            }
        }
    }

    for job in batch.drain(..) {
        job.answer();
    }
}

/// Runs the jobs in one transaction. Returns the number of those that ran, or `None` if no job was left when the write
/// lock was taken.
fn write(
    connection: &Connection,
    batch: &mut Vec<Box<dyn Job>>,
    counters: &Counters,
    wait: &mut LockWait,
    file: &DatabaseFile,
    is_retry: bool,
) -> Result<Option<u64>, Abort> {
    match begin(connection, batch, counters, wait, file)? {
        Some(transaction) => transact(connection, transaction, batch, counters, file, is_retry).map(Some),
        None => Ok(None),
    }
}

fn fail(batch: &mut [Box<dyn Job>], error: impl Fn() -> StoreError) {
    for job in batch {
        job.fail(error());
    }
}

/// Takes the write lock for the jobs. Each job waits until its own deadline: a job whose deadline has passed is
/// answered and removed from the batch. Returns `None` if no job is left.
fn begin<'c>(
    connection: &'c Connection,
    batch: &mut Vec<Box<dyn Job>>,
    counters: &Counters,
    wait: &mut LockWait,
    file: &DatabaseFile,
) -> Result<Option<Transaction<'c>>, Abort> {
    loop {
        // If all callers have left, the write lock is not needed.
        batch.retain(|job| !is_skipped(job.as_ref(), counters));

        let began = Instant::now();
        let Some(deadline) = batch.iter().map(|job| wait.deadline(job.queued(), began)).min() else { return Ok(None) };

        file.check()?;
        connection.busy_timeout(rounded_up(deadline.saturating_duration_since(began)))?;
        match Transaction::immediate(connection) {
            Ok(transaction) => {
                wait.acquired();
                return Ok(Some(transaction));
            }
            Err(error) if is_lock(&error) => {
                wait.blocked(began);
                let now = Instant::now().max(deadline);
                let error = TransactionError::new(error);
                for mut job in batch.extract_if(.., |job| wait.deadline(job.queued(), began) <= now) {
                    job.fail(error.to_store_error());
                    job.answer();
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_skipped(job: &dyn Job, counters: &Counters) -> bool {
    let skipped = job.is_cancelled();
    if skipped {
        counters.skipped();
    }
    skipped
}

/// The reason why nothing of a batch was stored.
enum Abort {
    Transaction(TransactionError),
    /// SQLite rolled the transaction back when the job with this index failed.
    RollbackBy(usize),
    /// A job could not read a page, or the file is malformed. The batch can be run once more.
    Unreadable,
    /// The file at the path is not the open one.
    Replaced(SqliteError),
}

impl Abort {
    fn is_unreadable(&self) -> bool {
        match self {
            Self::Unreadable => true,
            Self::Transaction(error) => error.is_unreadable(),
            Self::RollbackBy(_) | Self::Replaced(_) => false,
        }
    }
}

impl From<SqliteError> for Abort {
    fn from(replaced: SqliteError) -> Self {
        Self::Replaced(replaced)
    }
}

impl From<rusqlite::Error> for Abort {
    fn from(error: rusqlite::Error) -> Self {
        Self::Transaction(TransactionError::new(error))
    }
}

fn transact(
    connection: &Connection,
    transaction: Transaction<'_>,
    batch: &mut [Box<dyn Job>],
    counters: &Counters,
    file: &DatabaseFile,
    is_retry: bool,
) -> Result<u64, Abort> {
    let mut writes = 0;
    for (index, job) in batch.iter_mut().enumerate() {
        // The caller may have left while the lock was awaited.
        if is_skipped(job.as_ref(), counters) {
            continue;
        }

        let savepoint = Savepoint::new(connection)?;
        let outcome = job.run(connection, counters);
        if outcome == JobOutcome::Unreadable && !is_retry {
            return Err(Abort::Unreadable);
        }
        // After a full disk or a failed read, SQLite may have rolled back the whole transaction and its savepoints.
        if connection.is_autocommit() {
            return Err(Abort::RollbackBy(index));
        }
        savepoint.end(outcome == JobOutcome::Succeeded)?;
        writes += 1;
    }

    transaction.commit()?;
    // Acknowledged writes must be in the file at the path.
    file.check()?;
    Ok(writes)
}

#[derive(Debug, thiserror::Error)]
#[error("the transaction was rolled back because another write in it failed")]
struct Rollback;

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            Mutex,
            atomic::{AtomicU32, Ordering::Relaxed},
        },
        time::Duration,
    };

    use futures_channel::oneshot;
    use rusqlite::ffi;

    use super::*;
    use crate::{
        error::Failure,
        job::{Request, Task},
        stats::Stats,
    };

    enum Step {
        Insert,
        InsertThenFail,
        InsertThenPanic,
        RollBackAll,
        /// Writes, and then fails to read this many times.
        Unreadable(AtomicU32),
    }

    impl Request for Step {
        type Answer = ();

        fn run(&self, connection: &Connection, _: &Counters) -> Result<(), Failure> {
            connection.execute_batch("INSERT INTO t VALUES (1)")?;
            match self {
                Self::Insert => Ok(()),
                Self::InsertThenFail => Err(StoreError::Gone.into()),
                Self::InsertThenPanic => panic!("a panic for this test"),
                Self::Unreadable(failures) => {
                    let left = failures.load(Relaxed);
                    failures.store(left.saturating_sub(1), Relaxed);
                    let malformed = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None);
                    if left > 0 { Err(malformed.into()) } else { Ok(()) }
                }
                Self::RollBackAll => {
                    connection.execute_batch("ROLLBACK")?;
                    Err(StoreError::backend("disk full").into())
                }
            }
        }
    }

    /// Runs the batch without competing locks. The current directory stands in for the database file: it is not
    /// replaced during the test.
    fn run_here(connection: &Connection, batch: &mut Vec<Box<dyn Job>>, counters: &Counters) {
        let file = DatabaseFile::at(Path::new(".")).unwrap();
        run(connection, batch, counters, &mut LockWait::new(Duration::ZERO), &file);
    }

    /// Runs the steps as one batch. Returns their results, the number of rows stored and the counts.
    fn run_batch(steps: Vec<Step>) -> (Vec<Result<(), StoreError>>, i64, Stats) {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        run_on(&connection, steps)
    }

    fn run_on(connection: &Connection, steps: Vec<Step>) -> (Vec<Result<(), StoreError>>, i64, Stats) {
        let counters = Counters::default();
        let mut batch: Vec<Box<dyn Job>> = Vec::new();
        let mut answers = Vec::new();
        for step in steps {
            let (reply, answer) = oneshot::channel();
            batch.push(Box::new(Task::new(step, reply)));
            answers.push(answer);
        }
        run_here(connection, &mut batch, &counters);
        assert!(connection.is_autocommit(), "no transaction is left open");
        let results = answers.iter_mut().map(|answer| answer.try_recv().unwrap().unwrap()).collect();
        let rows = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        (results, rows, counters.stats())
    }

    #[test]
    fn a_failed_job_leaves_the_others_stored() {
        let (results, rows, stats) = run_batch(vec![Step::Insert, Step::InsertThenFail, Step::Insert]);
        assert!(results[0].is_ok() && results[2].is_ok());
        assert!(matches!(results[1], Err(StoreError::Gone)));
        assert_eq!((rows, stats.transactions, stats.writes), (2, 1, 3));
    }

    #[test]
    fn a_panicking_job_is_answered_and_leaves_the_others_stored() {
        let (results, rows, _) = run_batch(vec![Step::Insert, Step::InsertThenPanic, Step::Insert]);
        assert!(results[0].is_ok() && results[2].is_ok());
        assert!(matches!(results[1], Err(StoreError::Backend { .. })), "{:?}", results[1]);
        assert_eq!(rows, 2);
    }

    #[test]
    fn a_rolled_back_transaction_fails_all_of_its_jobs() {
        let (results, rows, stats) =
            run_batch(vec![Step::Insert, Step::InsertThenFail, Step::RollBackAll, Step::Insert]);
        assert!(matches!(results[2], Err(StoreError::Backend { .. })));
        for other in [0, 1, 3] {
            assert!(results[other].as_ref().unwrap_err().is_retryable(), "{:?}", results[other]);
        }
        assert_eq!((rows, stats.transactions), (0, 0));
    }

    #[test]
    fn a_batch_with_an_unreadable_page_runs_once_more() {
        let (results, rows, stats) = run_batch(vec![Step::Insert, Step::Unreadable(1.into()), Step::Insert]);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!((rows, stats.transactions, stats.writes), (3, 1, 3));
    }

    #[test]
    fn an_unreadable_job_fails_and_leaves_the_others_stored() {
        let (results, rows, _) = run_batch(vec![Step::Insert, Step::Unreadable(9.into()), Step::Insert]);
        assert!(results[0].is_ok() && results[2].is_ok());
        assert!(matches!(results[1], Err(StoreError::Backend { .. })), "{:?}", results[1]);
        assert_eq!(rows, 2);
    }

    #[test]
    fn a_failed_commit_fails_all_of_its_jobs() {
        let connection = Connection::open_in_memory().unwrap();
        // A deferred constraint fails when the transaction is committed, and leaves it open.
        let sql = "PRAGMA foreign_keys = 1; CREATE TABLE p (x PRIMARY KEY);
                   CREATE TABLE t (x REFERENCES p DEFERRABLE INITIALLY DEFERRED)";
        connection.execute_batch(sql).unwrap();
        let (results, rows, stats) = run_on(&connection, vec![Step::Insert, Step::InsertThenFail]);
        assert!(results.iter().all(|result| matches!(result, Err(StoreError::Backend { .. }))), "{results:?}");
        assert_eq!((rows, stats.transactions), (0, 0));
    }

    /// Drops the future of another job while it runs.
    struct DropOther(Mutex<Option<oneshot::Receiver<Result<(), StoreError>>>>);

    impl Request for DropOther {
        type Answer = ();

        fn run(&self, _: &Connection, _: &Counters) -> Result<(), Failure> {
            drop(self.0.lock().unwrap().take());
            Ok(())
        }
    }

    #[test]
    fn a_job_dropped_before_its_turn_is_skipped() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let counters = Counters::default();
        let (reply, dropped) = oneshot::channel();
        let (first_reply, mut first) = oneshot::channel();
        let first_job = Task::new(DropOther(Mutex::new(Some(dropped))), first_reply);
        let mut batch: Vec<Box<dyn Job>> = vec![Box::new(first_job), Box::new(Task::new(Step::Insert, reply))];
        run_here(&connection, &mut batch, &counters);
        assert!(matches!(first.try_recv(), Ok(Some(Ok(())))));
        assert_eq!((counters.stats().skipped, counters.stats().writes), (1, 1));
        assert_eq!(connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }

    #[test]
    fn a_batch_of_dropped_jobs_takes_no_lock() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let counters = Counters::default();
        let (reply, answer) = oneshot::channel();
        drop(answer);
        run_here(&connection, &mut vec![Box::new(Task::new(Step::Insert, reply))], &counters);
        assert_eq!((counters.stats().skipped, counters.stats().transactions), (1, 0));
    }
}
