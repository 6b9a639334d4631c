//! The thread that writes, and what it writes.

mod append;
mod batch;
mod compact;
mod compactions;
mod delete;
mod prune;
mod truncate;

use std::{io, sync::Arc, thread, time::Instant};

use crossbeam_channel::{Receiver, unbounded};
use futures_channel::oneshot;
use rusqlite::Connection;
use tower_chat_history_core::StoreError;

pub(crate) use self::{
    append::AppendExchange, compact::StoreCompaction, delete::DeleteConversation, prune::PruneLog,
    truncate::TruncateLog,
};
use crate::{
    OpenError,
    connection::{OpenedFile, open_reader, open_writer},
    error::Failure,
    job::{Job, Reply},
    options::Settings,
    read,
    stats::Counters,
    store::Shared,
    wait::{LockWait, rounded_up},
};

/// The most jobs in one transaction, so that its first caller does not wait for ever more others.
const BATCH: usize = 256;

/// What the writer is told.
pub(crate) enum Message {
    Job(Box<dyn Job>),
    Checkpoint(Checkpoint),
    Close(Reply<()>),
}

/// A call for a checkpoint.
pub(crate) struct Checkpoint {
    pub(crate) queued: Instant,
    pub(crate) reply: Reply<()>,
}

/// Starts the writer, which opens the file, starts the readers and answers with the senders to all of them.
pub(crate) fn spawn(settings: Settings) -> io::Result<oneshot::Receiver<Result<Shared, OpenError>>> {
    let (opened, answer) = oneshot::channel();
    thread::Builder::new().name("history-writer".into()).spawn(move || match Writer::open(settings) {
        Ok((writer, shared)) => {
            // If nobody waits any more, the senders are dropped here, and the writer finds no message.
            drop(opened.send(Ok(shared)));
            writer.run();
        }
        Err(error) => drop(opened.send(Err(error))),
    })?;
    Ok(answer)
}

struct Writer {
    connection: Connection,
    file: OpenedFile,
    wait: LockWait,
    messages: Receiver<Message>,
    readers: Vec<thread::JoinHandle<()>>,
    counters: Arc<Counters>,
}

/// Why a batch ended.
enum End {
    Sent,
    Checkpoint(Checkpoint),
    Close(Reply<()>),
}

impl Writer {
    fn open(settings: Settings) -> Result<(Self, Shared), OpenError> {
        let connection = open_writer(&settings)?;
        let file = OpenedFile::at(&settings.file)
            .map_err(|error| OpenError::Sqlite { path: settings.file.clone(), source: error.into() })?;
        let counters = Arc::new(Counters::default());
        // The queues have no bound of their own: each call waits for its answer, so they are as long as there are calls.
        let (reads, jobs) = unbounded();
        let mut readers = Vec::with_capacity(settings.readers);
        for _ in 0..settings.readers {
            let reader = read::Reader {
                connection: open_reader(&settings)?,
                file: file.clone(),
                wait: LockWait::new(settings.busy_timeout),
                counters: Arc::clone(&counters),
            };
            readers.push(reader.spawn(jobs.clone()).map_err(OpenError::Thread)?);
        }
        let (writes, messages) = unbounded();
        let Settings { path, readers: count, busy_timeout, .. } = settings;
        let shared = Shared { path, readers: count, reads, writes, counters: Arc::clone(&counters) };
        let wait = LockWait::new(busy_timeout);
        Ok((Self { connection, file, wait, messages, readers, counters }, shared))
    }

    /// Works until the store is closed or its last handle is gone.
    fn run(mut self) {
        let mut batch = Vec::new();
        while let Ok(first) = self.messages.recv() {
            // All that came in while the last batch was written. Nothing waits for more to come.
            let end = collect(std::iter::once(first).chain(self.messages.try_iter()), &mut batch);
            batch::run(&self.connection, &mut batch, &self.counters, &mut self.wait, &self.file);
            match end {
                End::Sent => {}
                End::Checkpoint(Checkpoint { queued, reply }) => {
                    drop(reply.send(self.checkpoint(queued).map_err(Into::into)));
                }
                End::Close(reply) => {
                    let (closed, messages) = self.close();
                    drop(reply.send(closed));
                    // Only now do later calls learn that the store is closed: whoever is told so finds the file closed.
                    drop(messages);
                    return;
                }
            }
        }
        drop(self.close());
    }

    fn checkpoint(&self, queued: Instant) -> Result<(), Failure> {
        self.file.check()?;
        let now = Instant::now();
        let left = self.wait.deadline(queued, now).saturating_duration_since(now);
        self.connection.busy_timeout(rounded_up(left))?;
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy = self.connection.query_row(sql, [], |row| row.get::<_, bool>(0))?;
        if busy { Err(StoreError::unavailable(CheckpointBusy).into()) } else { Ok(()) }
    }

    /// Waits for the readers, so that the last connection is this one, and closes it: SQLite then empties the write-ahead
    /// log.
    fn close(self) -> (Result<(), StoreError>, Receiver<Message>) {
        for reader in self.readers {
            // A reader that panicked has ended as well.
            drop(reader.join());
        }
        let closed = self.connection.close().map_err(|(_, error)| Failure::from(error).into());
        (closed, self.messages)
    }
}

/// Takes jobs until there are no more, the batch is full, or something else is to be done.
fn collect(messages: impl Iterator<Item = Message>, batch: &mut Vec<Box<dyn Job>>) -> End {
    for message in messages {
        match message {
            Message::Job(job) => batch.push(job),
            Message::Checkpoint(checkpoint) => return End::Checkpoint(checkpoint),
            Message::Close(reply) => return End::Close(reply),
        }
        if batch.len() >= BATCH {
            break;
        }
    }
    End::Sent
}

#[derive(Debug, thiserror::Error)]
#[error("another process is using the write-ahead log")]
struct CheckpointBusy;
