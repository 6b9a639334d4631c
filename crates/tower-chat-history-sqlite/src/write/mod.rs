//! The writer thread and its requests.
//!
//! # Decisions
//!
//! - **One thread commits all queued writes in one transaction**, so they share one fsync. A turn hands work to a
//!   thread only twice; with sqlx, it would many times.

mod append;
mod batch;
mod fork;
#[cfg(test)]
mod removal_tests;
mod remove;
mod replace;

use std::{io, sync::Arc, thread, time::Instant};

use crossbeam_channel::{Receiver, unbounded};
use futures_channel::oneshot;
use rusqlite::Connection;
use tower_chat_history_core::StoreError;

pub(crate) use self::{
    append::AppendExchange,
    fork::ForkLog,
    remove::{DeleteConversation, DeleteIf, EraseStep, PruneLog, TruncateLog},
    replace::{ReplaceLabels, StoreCompaction},
};
use crate::{
    connection::{DatabaseFile, LockWait, open_reader, open_writer, rounded_up},
    error::Failure,
    job::{Job, ReplySender, Shared, Upkeep, UpkeepStep, WriterCommand},
    options::{OpenError, Settings},
    read::Reader,
    stats::Counters,
};

/// The largest number of jobs in one transaction. It bounds the wait of the first caller.
const MAX_BATCH: usize = 256;

/// Starts the writer, which opens the file, starts the readers and replies with the senders to all of them.
pub(crate) fn spawn(settings: Settings) -> io::Result<oneshot::Receiver<Result<Shared, OpenError>>> {
    let (opened, answer) = oneshot::channel();
    thread::Builder::new().name("history-writer".into()).spawn(move || match Writer::open(settings) {
        Ok((writer, shared)) => {
            // If the caller has dropped its future, the senders are dropped here, and the writer ends at once.
            drop(opened.send(Ok(shared)));
            writer.run();
        }
        Err(error) => drop(opened.send(Err(error))),
    })?;
    Ok(answer)
}

struct Writer {
    connection: Connection,
    file: DatabaseFile,
    wait: LockWait,
    commands: Receiver<WriterCommand>,
    readers: Vec<thread::JoinHandle<()>>,
    counters: Arc<Counters>,
}

/// The command to run after a batch.
enum AfterBatch {
    Nothing,
    Upkeep(Upkeep),
    Close(ReplySender<()>),
}

impl Writer {
    fn open(settings: Settings) -> Result<(Self, Shared), OpenError> {
        let connection = open_writer(&settings)?;
        let file = DatabaseFile::at(&settings.file)
            .map_err(|error| OpenError::Sqlite { path: settings.file.clone(), source: error.into() })?;
        let counters = Arc::new(Counters::default());

        // The queues need no bound: each call waits for its answer, so they are no longer than the number of calls.
        let (reads, reader_commands) = unbounded();
        let (writes, commands) = unbounded();

        let mut readers = Vec::with_capacity(settings.readers);
        for _ in 0..settings.readers {
            let reader = Reader {
                connection: open_reader(&settings)?,
                file: file.clone(),
                wait: LockWait::new(settings.busy_timeout),
                counters: Arc::clone(&counters),
            };
            readers.push(reader.spawn(reader_commands.clone()).map_err(OpenError::Thread)?);
        }

        let wait = LockWait::new(settings.busy_timeout);
        let counted = Arc::clone(&counters);
        let shared = Shared { path: settings.path, readers: settings.readers, reads, writes, counters: counted };
        Ok((Self { connection, file, wait, commands, readers, counters }, shared))
    }

    /// Runs commands until the store is closed or its last handle is dropped.
    fn run(mut self) {
        let mut batch = Vec::new();
        while let Ok(first) = self.commands.recv() {
            // The batch has all calls that arrived while the previous one was written. It does not wait for more.
            let next = collect(std::iter::once(first).chain(self.commands.try_iter()), &mut batch);
            batch::run(&self.connection, &mut batch, &self.counters, &mut self.wait, &self.file);

            match next {
                AfterBatch::Nothing => {}
                AfterBatch::Upkeep(upkeep) => self.keep_up(upkeep),
                AfterBatch::Close(reply) => {
                    let (closed, commands) = self.close();
                    drop(reply.send(closed));
                    // The file is closed now. Dropping the queue fails the calls in it and all later ones.
                    drop(commands);
                    return;
                }
            }
        }
        drop(self.close());
    }

    /// Runs the step and answers it, unless the caller has dropped its future.
    fn keep_up(&self, upkeep: Upkeep) {
        if !upkeep.reply.is_canceled() {
            let done = self.run_upkeep(upkeep.step, upkeep.queued);
            drop(upkeep.reply.send(done.map_err(Into::into)));
        }
    }

    fn run_upkeep(&self, step: UpkeepStep, queued: Instant) -> Result<(), Failure> {
        self.file.check()?;
        match step {
            UpkeepStep::Checkpoint => self.checkpoint(queued),
            UpkeepStep::Scrub => {
                self.vacuum(queued)?;
                // The step before may have taken longer than a call waits for a lock.
                self.checkpoint(Instant::now())?;
                Ok(self.file.check()?)
            }
        }
    }

    /// Moves the content of the write-ahead log into the database, and truncates the log to 0 bytes.
    fn checkpoint(&self, queued: Instant) -> Result<(), Failure> {
        self.limit_wait(queued)?;
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy = self.connection.query_row(sql, [], |row| row.get::<_, bool>(0))?;
        if busy { Err(StoreError::unavailable(CheckpointBusy).into()) } else { Ok(()) }
    }

    /// Writes the database anew, with only the rows that it has. The setting `secure_delete` does not overwrite
    /// everything: when rows move between pages, copies stay behind in the unused parts of the old pages.
    fn vacuum(&self, queued: Instant) -> Result<(), Failure> {
        self.limit_wait(queued)?;

        // SQLite makes a copy first. In memory, a large database would need as much memory as it has bytes. The copy
        // has no deleted text.
        self.connection.pragma_update(None, "temp_store", "file")?;
        let done = self.connection.execute_batch("VACUUM");
        let restored = self.connection.pragma_update(None, "temp_store", "memory");

        // If both failed, the cause is the first one.
        done?;
        Ok(restored?)
    }

    /// Lets the connection wait for a lock for as long as a call may that was queued at this time.
    fn limit_wait(&self, queued: Instant) -> rusqlite::Result<()> {
        let now = Instant::now();
        let left = self.wait.deadline(queued, now).saturating_duration_since(now);
        self.connection.busy_timeout(rounded_up(left))
    }

    /// Waits for the readers, so that this connection is the last one, and closes it: SQLite then empties the
    /// write-ahead log.
    fn close(self) -> (Result<(), StoreError>, Receiver<WriterCommand>) {
        for reader in self.readers {
            // A reader that panicked has ended as well.
            drop(reader.join());
        }
        let closed = self.connection.close().map_err(|(_, error)| Failure::from(error).into());
        (closed, self.commands)
    }
}

/// Takes jobs until the queue is empty, the batch is full, or another command comes.
fn collect(commands: impl Iterator<Item = WriterCommand>, batch: &mut Vec<Box<dyn Job>>) -> AfterBatch {
    for command in commands {
        match command {
            WriterCommand::Job(job) => batch.push(job),
            WriterCommand::Upkeep(upkeep) => return AfterBatch::Upkeep(upkeep),
            WriterCommand::Close(reply) => return AfterBatch::Close(reply),
        }
        if batch.len() >= MAX_BATCH {
            break;
        }
    }
    AfterBatch::Nothing
}

#[derive(Debug, thiserror::Error)]
#[error("the write-ahead log was not emptied, because another process uses it")]
struct CheckpointBusy;
