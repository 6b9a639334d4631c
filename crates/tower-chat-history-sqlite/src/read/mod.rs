//! The threads that read, and what they find.

mod load;
mod log;
mod page;

use std::{io, sync::Arc, thread};

use crossbeam_channel::Receiver;
use rusqlite::Connection;

pub(crate) use self::{
    load::LoadWindow,
    log::{LONGEST_LOG, Log, count},
    page::ReadPage,
};
use crate::{connection::Transaction, error::Failure, job::Job, stats::Counters};

/// What a reader is told.
pub(crate) enum Message {
    Job(Box<dyn Job>),
    /// One reader ends.
    Close,
}

/// Starts a reader. It ends when it is told to, or when the store's last handle is gone.
pub(crate) fn spawn(
    connection: Connection,
    messages: Receiver<Message>,
    counters: Arc<Counters>,
) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("history-reader".into()).spawn(move || {
        while let Ok(Message::Job(job)) = messages.recv() {
            answer(&connection, job, &counters);
        }
    })
}

fn answer(connection: &Connection, mut job: Box<dyn Job>, counters: &Counters) {
    if job.is_cancelled() {
        counters.skipped();
        return;
    }
    match Transaction::deferred(connection) {
        // Reading one state: revision, compaction and exchanges belong together. There is nothing to commit.
        Ok(_transaction) => {
            job.run(connection, counters);
            counters.answered();
        }
        Err(error) => job.fail(Failure::from(error).into()),
    }
    job.answer();
}
