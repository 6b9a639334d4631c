//! The results of commands: their exit codes, and JSON.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use serde::Serialize;
use tower_chat_history::{HistoryError, transfer::ImportError};
use tower_chat_history_core::{ErasedQuotes, ExpiryRun, Receipt, Seq, Stopped, StoreError};

use crate::{store::OpenStoreError, terminal};

/// The result of a command that could be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was done. The exit code is 0.
    Done,
    /// A part is damaged, was skipped or is left. The exit code is 1.
    Incomplete,
    /// Nothing was done, because the command needs `--yes`. The exit code is 2.
    Unconfirmed,
}

impl Outcome {
    pub(crate) const fn done_if(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Incomplete }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::Incomplete => Self::FAILURE,
            Outcome::Unconfirmed => Self::from(2),
        }
    }
}

/// The error of a command. Its exit code is 1. It never shows a URL, which may contain a password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the store cannot be opened: {0}")]
    Open(#[from] OpenStoreError),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}. Run the same command again to continue.")]
    Erase(Stopped<Receipt>),
    #[error("{0}. Run the same command again to continue.")]
    Quotes(Stopped<ErasedQuotes>),
    #[error("{0}. Run the same command again to continue.")]
    Expire(Stopped<ExpiryRun>),
    #[error("{0}")]
    Import(#[from] ImportError),
    #[error("{0}")]
    Explain(#[from] HistoryError),
    #[error("{what}: {source}")]
    File { what: String, source: io::Error },
    #[error("the output cannot be written: {0}")]
    Output(io::Error),
    #[error("the receipt cannot be written to standard output, and was written to standard error: {0}")]
    Receipt(io::Error),
    #[error("interrupted. Run the same command again to continue.")]
    Interrupted,
    #[error("there is no conversation {0}")]
    NoConversation(String),
    #[error("there is no conversation {0}, but there are others under this prefix: use `chat-history list {0}`")]
    OnlyUnder(String),
    #[error("the conversation {id} has no exchange {position}")]
    NoExchange { id: String, position: Seq },
    #[error("the conversation {0} has no reply")]
    NoReply(String),
}

impl Failure {
    /// Creates the error for a file that cannot be read or written. Its name may come from elsewhere, so line breaks
    /// in it are escaped.
    pub(crate) fn file(what: &str, source: io::Error) -> Self {
        Self::File { what: terminal::escaped_name(what), source }
    }

    /// Returns `true` if the reader of the output closed it.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

/// Writes a receipt as JSON. If the output cannot be written, writes it to standard error, because the store does not
/// have these numbers any more.
pub(crate) fn write_receipt(out: &mut (dyn Write + Send), receipt: &impl Serialize) -> Result<(), Failure> {
    let json = terminal::escaped_json(&serde_json::to_string_pretty(receipt)?);
    if let Err(error) = writeln!(out, "{json}").and_then(|()| out.flush()) {
        eprintln!("{json}");
        return Err(Failure::Receipt(error));
    }
    Ok(())
}

/// Writes a value as JSON with line breaks.
pub(crate) fn write_json(out: &mut (dyn Write + Send), value: &impl Serialize) -> Result<(), Failure> {
    Ok(writeln!(out, "{}", terminal::escaped_json(&serde_json::to_string_pretty(value)?))?)
}
