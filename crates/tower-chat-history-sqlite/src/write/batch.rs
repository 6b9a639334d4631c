//! Many writes, one commit.

use std::time::Instant;

use rusqlite::Connection;
use tower_chat_history_core::StoreError;

use crate::{
    connection::{OpenedFile, Savepoint, Transaction},
    error::{Replaced, TransactionFailed, is_lock},
    job::{Job, Ran},
    stats::Counters,
    wait::{LockWait, rounded_up},
};

/// Runs the jobs in one transaction, each in a savepoint of its own, and answers them after the commit.
///
/// A job that is refused or fails takes back its own part and no other. If the transaction as a whole fails, each job of it
/// fails: also a refusal may have been due to what a job before it wrote.
pub(super) fn run(
    connection: &Connection,
    batch: &mut Vec<Box<dyn Job>>,
    counters: &Counters,
    wait: &mut LockWait,
    file: &OpenedFile,
) {
    let mut write = |last| {
        let begun = begin(connection, batch, counters, wait, file)?;
        begun.map(|transaction| transact(connection, transaction, batch, counters, file, last)).transpose()
    };
    let written = match write(false) {
        // Nothing of it was stored.
        Err(Aborted::Unread) => write(true),
        Err(Aborted::Transaction(failed)) if failed.is_unread() => write(true),
        written => written,
    };
    match written {
        Ok(Some(writes)) => counters.committed(writes),
        // The second try leaves each job with its own result.
        Ok(None) | Err(Aborted::Unread) => {}
        Err(Aborted::Transaction(failed)) => fail(batch, || failed.to_store_error()),
        Err(Aborted::Replaced(replaced)) => fail(batch, || StoreError::backend(replaced.clone())),
        Err(Aborted::By(culprit)) => {
            let others = batch.iter_mut().enumerate().filter(|(index, _)| *index != culprit);
            others.for_each(|(_, job)| job.fail(StoreError::unavailable(RolledBack)));
        }
    }
    batch.drain(..).for_each(Job::answer);
}

fn fail(batch: &mut [Box<dyn Job>], error: impl Fn() -> StoreError) {
    batch.iter_mut().for_each(|job| job.fail(error()));
}

/// Takes the write lock for the jobs. Each job waits no longer than its own time: a job whose time is over is answered
/// and taken out of the batch. `None` if no job is left.
fn begin<'c>(
    connection: &'c Connection,
    batch: &mut Vec<Box<dyn Job>>,
    counters: &Counters,
    wait: &mut LockWait,
    file: &OpenedFile,
) -> Result<Option<Transaction<'c>>, Aborted> {
    loop {
        // Do not take the write lock for nobody.
        batch.retain(|job| !is_skipped(job.as_ref(), counters));
        let began = Instant::now();
        let Some(first) = batch.iter().map(|job| wait.deadline(job.queued(), began)).min() else { return Ok(None) };
        file.check()?;
        connection.busy_timeout(rounded_up(first.saturating_duration_since(began)))?;
        match Transaction::immediate(connection) {
            Ok(transaction) => {
                wait.had();
                return Ok(Some(transaction));
            }
            Err(error) if is_lock(&error) => {
                wait.refused(began);
                let over = Instant::now().max(first);
                let failed = TransactionFailed::new(error);
                for mut job in batch.extract_if(.., |job| wait.deadline(job.queued(), began) <= over) {
                    job.fail(failed.to_store_error());
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

/// Why nothing of a batch was stored.
enum Aborted {
    Transaction(TransactionFailed),
    /// SQLite rolled the transaction back when that job failed.
    By(usize),
    /// A job could not read a page, or the file is malformed. The jobs can be run once more.
    Unread,
    /// The open file is not the one at its path any more.
    Replaced(Replaced),
}

impl From<Replaced> for Aborted {
    fn from(replaced: Replaced) -> Self {
        Self::Replaced(replaced)
    }
}

impl From<rusqlite::Error> for Aborted {
    fn from(error: rusqlite::Error) -> Self {
        Self::Transaction(TransactionFailed::new(error))
    }
}

fn transact(
    connection: &Connection,
    transaction: Transaction<'_>,
    batch: &mut [Box<dyn Job>],
    counters: &Counters,
    file: &OpenedFile,
    last: bool,
) -> Result<u64, Aborted> {
    let mut writes = 0;
    for (index, job) in batch.iter_mut().enumerate() {
        // The lock may have been long in coming.
        if is_skipped(job.as_ref(), counters) {
            continue;
        }
        let part = Savepoint::new(connection)?;
        let ran = job.run(connection, counters);
        if ran == Ran::Unread && !last {
            return Err(Aborted::Unread);
        }
        // After a full disk or a failed read SQLite may give up the whole transaction: then no part is left to end.
        if connection.is_autocommit() {
            return Err(Aborted::By(index));
        }
        part.end(ran == Ran::Done)?;
        writes += 1;
    }
    transaction.commit()?;
    // What is acknowledged is in the file at the path.
    file.check()?;
    Ok(writes)
}

#[derive(Debug, thiserror::Error)]
#[error("the transaction was rolled back because another write in it failed")]
struct RolledBack;

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
    };

    enum Step {
        Insert,
        InsertThenFail,
        InsertThenPanic,
        RollBackAll,
        /// A read fails that many times, after something was written.
        Unread(AtomicU32),
    }

    impl Request for Step {
        type Answer = ();

        fn run(&self, connection: &Connection, _: &Counters) -> Result<(), Failure> {
            connection.execute_batch("INSERT INTO t VALUES (1)")?;
            match self {
                Self::Insert => Ok(()),
                Self::InsertThenFail => Err(StoreError::Gone.into()),
                Self::InsertThenPanic => panic!("a bug, made for this test"),
                Self::Unread(times) => {
                    let left = times.load(Relaxed);
                    times.store(left.saturating_sub(1), Relaxed);
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

    /// Runs the batch where nobody else has a lock, as if the database were in a file that stays where it is.
    fn run_here(connection: &Connection, batch: &mut Vec<Box<dyn Job>>, counters: &Counters) {
        let file = OpenedFile::at(Path::new(".")).unwrap();
        run(connection, batch, counters, &mut LockWait::new(Duration::ZERO), &file);
    }

    /// Runs the steps as one batch and returns their results, the rows stored and the counts.
    fn run_batch(steps: Vec<Step>) -> (Vec<Result<(), StoreError>>, i64, crate::Stats) {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        run_on(&connection, steps)
    }

    fn run_on(connection: &Connection, steps: Vec<Step>) -> (Vec<Result<(), StoreError>>, i64, crate::Stats) {
        let counters = Counters::default();
        let (mut batch, mut answers): (Vec<Box<dyn Job>>, Vec<_>) = (Vec::new(), Vec::new());
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
    fn a_lost_transaction_fails_all_of_its_jobs() {
        let (results, rows, stats) =
            run_batch(vec![Step::Insert, Step::InsertThenFail, Step::RollBackAll, Step::Insert]);
        assert!(matches!(results[2], Err(StoreError::Backend { .. })));
        for other in [0, 1, 3] {
            assert!(results[other].as_ref().unwrap_err().is_retryable(), "{:?}", results[other]);
        }
        assert_eq!((rows, stats.transactions), (0, 0));
    }

    #[test]
    fn what_could_not_be_read_is_tried_once_more_with_its_whole_batch() {
        let (results, rows, stats) = run_batch(vec![Step::Insert, Step::Unread(1.into()), Step::Insert]);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert_eq!((rows, stats.transactions, stats.writes), (3, 1, 3));
    }

    #[test]
    fn what_cannot_be_read_fails_and_leaves_the_others_stored() {
        let (results, rows, _) = run_batch(vec![Step::Insert, Step::Unread(9.into()), Step::Insert]);
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

    /// While it runs, the caller of another job gives up.
    struct GiveUp(Mutex<Option<oneshot::Receiver<Result<(), StoreError>>>>);

    impl Request for GiveUp {
        type Answer = ();

        fn run(&self, _: &Connection, _: &Counters) -> Result<(), Failure> {
            drop(self.0.lock().unwrap().take());
            Ok(())
        }
    }

    #[test]
    fn jobs_whose_caller_leaves_before_their_turn_are_skipped() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let counters = Counters::default();
        let (reply, given_up) = oneshot::channel();
        let (first_reply, mut first) = oneshot::channel();
        let first_job = Task::new(GiveUp(Mutex::new(Some(given_up))), first_reply);
        let mut batch: Vec<Box<dyn Job>> = vec![Box::new(first_job), Box::new(Task::new(Step::Insert, reply))];
        run_here(&connection, &mut batch, &counters);
        assert!(matches!(first.try_recv(), Ok(Some(Ok(())))));
        assert_eq!((counters.stats().skipped, counters.stats().writes), (1, 1));
        assert_eq!(connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }

    #[test]
    fn jobs_without_a_caller_are_skipped() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let counters = Counters::default();
        let (reply, answer) = oneshot::channel();
        drop(answer);
        run_here(&connection, &mut vec![Box::new(Task::new(Step::Insert, reply))], &counters);
        assert_eq!((counters.stats().skipped, counters.stats().transactions), (1, 0));
    }
}
