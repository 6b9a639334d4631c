//! The threads that read, and what they find.

mod damage;
mod load;
mod log;
mod page;

use std::{io, sync::Arc, thread, time::Instant};

use crossbeam_channel::Receiver;
use rusqlite::Connection;

pub(crate) use self::{
    damage::{Damage, size},
    load::LoadWindow,
    log::{LONGEST_LOG, Log, place, seq_of},
    page::ReadPage,
};
use crate::{
    connection::{OpenedFile, Transaction},
    error::Failure,
    job::{Job, Ran},
    stats::Counters,
    wait::{LockWait, rounded_up},
};

/// What a reader is told.
pub(crate) enum Message {
    Job(Box<dyn Job>),
    /// One reader ends.
    Close,
}

/// One thread that reads.
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    pub(crate) file: OpenedFile,
    pub(crate) wait: LockWait,
    pub(crate) counters: Arc<Counters>,
}

impl Reader {
    /// Starts the reader. It ends when it is told to, or when the store's last handle is gone.
    pub(crate) fn spawn(mut self, messages: Receiver<Message>) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name("history-reader".into()).spawn(move || {
            while let Ok(Message::Job(job)) = messages.recv() {
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
        match self.run(job.as_mut(), began) {
            Ok(Ran::Locked) => self.wait.refused(began),
            Ok(Ran::Done | Ran::Failed) => self.wait.had(),
            Err(failure) => job.fail(failure.into()),
        }
        job.answer();
    }

    fn run(&self, job: &mut dyn Job, began: Instant) -> Result<Ran, Failure> {
        // Who loads here is about to pay for an answer that could not be stored.
        self.file.check()?;
        let left = self.wait.deadline(job.queued(), began).saturating_duration_since(began);
        self.connection.busy_timeout(rounded_up(left))?;
        // Reading one state: revision, compaction and exchanges belong together. There is nothing to commit.
        let _transaction = Transaction::deferred(&self.connection)?;
        let ran = job.run(&self.connection, &self.counters);
        self.counters.answered();
        Ok(ran)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_channel::oneshot;
    use tower_chat_history_core::{ConversationId, Load, StoreError};

    use super::*;
    use crate::job::Task;

    #[test]
    fn each_load_waits_for_a_lock_as_long_as_the_busy_timeout_says_however_many_there_are() {
        const TIMEOUT: Duration = Duration::from_millis(200);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        // Without a write-ahead log, who writes keeps out who reads.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE conversation (x)").unwrap();
        let mut reader = Reader {
            connection: Connection::open(&path).unwrap(),
            file: OpenedFile::at(&path).unwrap(),
            wait: LockWait::new(TIMEOUT),
            counters: Arc::default(),
        };
        let began = Instant::now();
        let jobs: Vec<_> = (0..20)
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
        assert!((TIMEOUT..TIMEOUT * 5).contains(&waited), "{waited:?}");
    }
}
