//! The reader threads and their requests.

mod list;
mod load;
mod log;
mod walk;

use std::{io, sync::Arc, thread, time::Instant};

use crossbeam_channel::Receiver;
use rusqlite::Connection;

pub(crate) use self::{
    list::{DescribeConversation, ListConversations, labels},
    load::{LoadWindow, ReadPage},
    log::{Damage, Log, MAX_EXCHANGES, place, seq_of, size},
    walk::{CountStep, Step, count_conversation, count_exchanges},
};
use crate::{
    connection::{DatabaseFile, LockWait, Transaction, rounded_up},
    error::Failure,
    job::{Job, JobOutcome, ReaderCommand},
    stats::Counters,
};

/// A reader thread.
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    pub(crate) file: DatabaseFile,
    pub(crate) wait: LockWait,
    pub(crate) counters: Arc<Counters>,
}

impl Reader {
    /// Starts the reader. It ends at [`ReaderCommand::Close`], or when the store's last handle is dropped.
    pub(crate) fn spawn(mut self, commands: Receiver<ReaderCommand>) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name("history-reader".into()).spawn(move || {
            while let Ok(ReaderCommand::Job(job)) = commands.recv() {
                self.answer(job);
            }
        })
    }

    fn answer(&mut self, mut job: Box<dyn Job>) {
        if job.is_cancelled() {
            self.counters.skipped();
            return;
        }

        let began = Instant::now();
        let outcome = match self.run(job.as_mut(), began) {
            Ok(JobOutcome::Unreadable) => self.run(job.as_mut(), began),
            outcome => outcome,
        };

        match outcome {
            Ok(JobOutcome::Locked) => self.wait.blocked(began),
            Ok(JobOutcome::Succeeded | JobOutcome::Failed | JobOutcome::Unreadable) => self.wait.acquired(),
            Err(failure) => job.fail(failure.into()),
        }

        self.counters.answered();
        job.answer();
    }

    fn run(&self, job: &mut dyn Job, began: Instant) -> Result<JobOutcome, Failure> {
        // If the file was replaced, the load fails: otherwise the caller would pay for a reply that cannot be stored.
        self.file.check()?;

        let left = self.wait.deadline(job.queued(), began).saturating_duration_since(began);
        self.connection.busy_timeout(rounded_up(left))?;

        // The transaction reads one state of revision, compaction and exchanges. There is nothing to commit.
        let _transaction = Transaction::deferred(&self.connection)?;
        Ok(job.run(&self.connection, &self.counters))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::atomic::{AtomicU32, Ordering::Relaxed},
        time::Duration,
    };

    use futures_channel::oneshot;
    use rusqlite::ffi;
    use tower_chat_history_core::{ConversationId, Load, StoreError};

    use super::*;
    use crate::job::{Request, Task};

    fn reader(path: &Path, timeout: Duration) -> Reader {
        let connection = Connection::open(path).unwrap();
        let file = DatabaseFile::at(path).unwrap();
        Reader { connection, file, wait: LockWait::new(timeout), counters: Arc::default() }
    }

    #[test]
    fn queued_loads_wait_for_a_lock_together() {
        const TIMEOUT: Duration = Duration::from_millis(200);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        // Without a write-ahead log, a writer excludes readers.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE conversation (x)").unwrap();
        let mut reader = reader(&path, TIMEOUT);
        let began = Instant::now();
        // One after the other, they would wait for 40 seconds.
        let jobs: Vec<_> = (0..200)
            .map(|_| {
                let (reply, answer) = oneshot::channel();
                let id = ConversationId::new(["a"]).unwrap();
                (Task::new(LoadWindow { id, load: Load::new() }, reply), answer)
            })
            .collect();
        for (job, mut answer) in jobs {
            reader.answer(Box::new(job));
            let refused = answer.try_recv().unwrap().unwrap().unwrap_err();
            assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
        }
        let waited = began.elapsed();
        assert!((TIMEOUT..Duration::from_secs(30)).contains(&waited), "{waited:?}");
    }

    /// A read that fails this many times.
    struct Unreadable(AtomicU32);

    impl Request for Unreadable {
        type Answer = ();

        fn run(&self, _: &Connection, _: &Counters) -> Result<(), Failure> {
            let left = self.0.load(Relaxed);
            self.0.store(left.saturating_sub(1), Relaxed);
            let malformed = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None);
            if left > 0 { Err(malformed.into()) } else { Ok(()) }
        }
    }

    #[test]
    fn an_unreadable_page_is_read_once_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut reader = reader(&directory.path().join("a.db"), Duration::ZERO);
        for (failures, succeeds) in [(0, true), (1, true), (2, false)] {
            let (reply, mut answer) = oneshot::channel();
            reader.answer(Box::new(Task::new(Unreadable(failures.into()), reply)));
            let answer = answer.try_recv().unwrap().unwrap();
            assert_eq!(answer.is_ok(), succeeds, "{failures}");
            assert!(succeeds || matches!(answer, Err(StoreError::Backend { .. })), "{answer:?}");
        }
    }
}
