//! The writer thread and its requests.

mod append;
mod batch;
mod compact;
mod delete;
mod derived;
mod erase;
mod erasures;
mod fork;
mod labels;
mod prune;
#[cfg(test)]
mod removal_tests;
mod truncate;
mod upkeep;

use std::{io, sync::Arc, thread};

use crossbeam_channel::{Receiver, unbounded};
use futures_channel::oneshot;
use rusqlite::Connection;
use tower_chat_history_core::StoreError;

pub(crate) use self::{
    append::AppendExchange,
    compact::StoreCompaction,
    delete::{DeleteConversation, DeleteIf},
    erase::EraseStep,
    erasures::RecordErasure,
    fork::ForkLog,
    labels::ReplaceLabels,
    prune::PruneLog,
    truncate::TruncateLog,
};
use crate::{
    command::{Upkeep, WriterCommand},
    connection::{OpenedFile, open_reader, open_writer},
    error::{Failure, OpenError},
    job::{Job, ReplySender},
    read::Reader,
    settings::Settings,
    shared::Shared,
    stats::Counters,
    wait::LockWait,
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
    file: OpenedFile,
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
        let file = OpenedFile::at(&settings.file)
            .map_err(|error| OpenError::Sqlite { path: settings.file.clone(), source: error.into() })?;
        let counters = Arc::new(Counters::default());
        // The queues need no bound: each call waits for its answer, so they are no longer than the number of calls.
        let (reads, reader_commands) = unbounded();
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
        let (writes, commands) = unbounded();
        let Settings { path, readers: count, busy_timeout, .. } = settings;
        let shared = Shared { path, readers: count, reads, writes, counters: Arc::clone(&counters) };
        let wait = LockWait::new(busy_timeout);
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
                AfterBatch::Upkeep(Upkeep { step, queued, reply }) => {
                    // The caller may have dropped its future.
                    if !reply.is_canceled() {
                        let done = upkeep::run(&self.connection, &self.file, &self.wait, step, queued);
                        drop(reply.send(done.map_err(Into::into)));
                    }
                }
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
