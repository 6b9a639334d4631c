//! The commands that the store's handle sends to its threads.

use std::time::Instant;

use crate::job::{Job, ReplySender};

/// A command to the reader threads, which share one queue.
pub(crate) enum ReaderCommand {
    Job(Box<dyn Job>),
    /// Ends the reader that receives it.
    Close,
}

/// A command to the writer thread.
pub(crate) enum WriterCommand {
    Job(Box<dyn Job>),
    Checkpoint(Checkpoint),
    /// Ends the writer, which then replies.
    Close(ReplySender<()>),
}

/// A call of [`SqliteStore::checkpoint`](crate::SqliteStore::checkpoint).
pub(crate) struct Checkpoint {
    pub(crate) queued: Instant,
    pub(crate) reply: ReplySender<()>,
}
