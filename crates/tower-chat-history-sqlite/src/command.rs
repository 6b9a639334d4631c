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
    Upkeep(Upkeep),
    /// Ends the writer, which then replies.
    Close(ReplySender<()>),
}

/// A call that changes the files and not their content. It runs outside of a transaction.
pub(crate) struct Upkeep {
    pub(crate) step: UpkeepStep,
    pub(crate) queued: Instant,
    pub(crate) reply: ReplySender<()>,
}

/// The kinds of [`Upkeep`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum UpkeepStep {
    /// Empties the write-ahead log ([`SqliteStore::checkpoint`](crate::SqliteStore::checkpoint)).
    Checkpoint,
    /// Rewrites the database, and then empties the write-ahead log ([`Erase::scrub`](tower_chat_history_core::Erase)).
    Scrub,
}
