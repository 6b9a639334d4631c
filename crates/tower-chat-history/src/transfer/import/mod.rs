//! Import of conversations.

mod log;
mod options;
mod part;
mod report;
mod splitter;

use std::sync::Arc;

use futures_core::Stream;
use futures_util::{StreamExt, pin_mut};
use tower_chat_history_core::{Digest, List, StoreError};

pub(crate) use self::log::{Log, Put, may_concern_one_conversation};
pub use self::{
    options::ImportOptions,
    report::{ImportReport, Reason, Skipped},
};
use self::{part::Part, splitter::Splitter};
use crate::transfer::line::{ConversationLine, Line, LineError};

/// An import of the lines of an [export](crate::transfer::Export).
///
/// The importer is given the bytes of the file in pieces of any size, and stores each exchange as soon as its line is
/// complete. The memory that it needs depends on the longest line, and not on the number of lines.
///
/// # Rules
///
/// - Ids, positions, times and messages stay as they are. The log of a pruned conversation begins at the same position
///   as the exported one. The [creation time](tower_chat_history_core::Listed::created_at) of a pruned conversation or a
///   fork becomes that of its first exchange.
/// - **A repeated import stores nothing.** An exchange that is already at its position is skipped, and an interrupted
///   import therefore continues where it stopped.
/// - **Two logs are never mixed.** If the store has another exchange at a position, the rest of this conversation is
///   skipped, and the report says so. So is the rest after a damaged line.
/// - Labels and compactions are stored if the store has none yet, or if they are of an earlier state of the same log.
///   If the store has a newer compaction, or other labels, these stay.
///
/// Nothing else should write to a conversation while it is imported: otherwise, the rest of it is skipped.
///
/// ```
/// use std::{io::{BufRead, BufReader, Read}, sync::Arc};
/// use tower_chat_history_core::List;
/// use tower_chat_history::transfer::{ImportOptions, ImportReport, Importer};
///
/// async fn restore(
///     store: Arc<dyn List>,
///     file: impl Read,
/// ) -> Result<ImportReport, Box<dyn std::error::Error>> {
///     let mut importer = Importer::new(store, ImportOptions::new());
///     let mut file = BufReader::new(file);
///     loop {
///         let bytes = file.fill_buf()?.to_vec();
///         if bytes.is_empty() {
///             return Ok(importer.finish().await?);
///         }
///         importer.feed(&bytes).await?;
///         file.consume(bytes.len());
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Importer {
    store: Arc<dyn List>,
    options: ImportOptions,
    splitter: Splitter,
    state: State,
    report: ImportReport,
}

#[derive(Debug)]
enum State {
    /// A header must follow.
    Begin,
    /// A conversation or the end of the export must follow. The number is that of the conversations since the header.
    Between(u64),
    /// The lines are those of a conversation.
    In(u64, Box<Part>),
    /// The lines of a conversation whose first line was damaged are skipped.
    Skipping(u64),
}

impl Importer {
    /// Creates an importer into this store.
    #[must_use]
    pub fn new(store: Arc<dyn List>, options: ImportOptions) -> Self {
        let splitter = Splitter::new(options.max_line);
        Self { store, options, splitter, state: State::Begin, report: ImportReport::default() }
    }

    /// Imports the next bytes of the file.
    ///
    /// # Errors
    ///
    /// - [`ImportError::File`] if the file does not begin as an export, or if a newer version of this crate wrote it.
    /// - [`ImportError::Store`] if the store cannot be read or written. To continue, import the file again. If it fails
    ///   for one conversation only, that one is skipped, and the report names it.
    pub async fn feed(&mut self, mut bytes: &[u8]) -> Result<(), ImportError> {
        while let Some(line) = self.splitter.next(&mut bytes) {
            self.line(line).await?;
        }
        Ok(())
    }

    /// Imports the pieces of a stream, such as the body of an HTTP request, and ends the import.
    ///
    /// # Errors
    ///
    /// The same as [`feed`](Self::feed), and [`ImportError::Input`] if the stream fails.
    pub async fn read<B, E>(mut self, pieces: impl Stream<Item = Result<B, E>>) -> Result<ImportReport, ImportError>
    where
        B: AsRef<[u8]>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        pin_mut!(pieces);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| ImportError::Input(error.into()))?;
            self.feed(piece.as_ref()).await?;
        }
        self.finish().await
    }

    /// Ends the import, and returns the report.
    ///
    /// # Errors
    ///
    /// The same as [`feed`](Self::feed).
    pub async fn finish(mut self) -> Result<ImportReport, ImportError> {
        if let Some(line) = self.splitter.last() {
            self.line(line).await?;
        }
        let at = self.splitter.lines();
        self.report.is_whole = matches!(self.state, State::Begin) && self.report.exports > 0;
        if let State::In(_, part) = self.state {
            self.report.skip(at, Some(part.id()), Reason::CutOff);
        } else if !self.report.is_whole {
            self.report.skip(at, None, Reason::CutOff);
        }
        Ok(self.report)
    }

    /// Returns the numbers so far.
    #[must_use]
    pub const fn report(&self) -> &ImportReport {
        &self.report
    }

    async fn line(&mut self, line: Result<String, LineError>) -> Result<(), ImportError> {
        let at = self.splitter.lines();
        self.report.lines = at;
        let before = match &self.state {
            State::In(_, part) => part.digest(),
            State::Begin | State::Between(_) | State::Skipping(_) => Digest::default(),
        };
        let line = match line {
            Ok(text) if text.trim().is_empty() => return Ok(()),
            line => line.and_then(|text| Line::parse(&text, before)),
        };
        let state = std::mem::replace(&mut self.state, State::Begin);
        self.state = match (state, line) {
            (_, Err(error @ LineError::Newer { .. })) => return Err(ImportError::File { line: at, source: error }),
            (State::Begin, Ok(Line::Header)) => {
                self.report.exports += 1;
                State::Between(0)
            }
            (State::Begin, Ok(_)) => return Err(ImportError::File { line: at, source: LineError::Format }),
            (State::Begin, Err(source)) => return Err(ImportError::File { line: at, source }),
            (state, Ok(Line::Conversation { conversation, digest })) => {
                let number = self.leave(state, at);
                State::In(number + 1, Box::new(self.begin(conversation, digest, at).await?))
            }
            (state @ (State::Between(_) | State::Skipping(_)), Ok(Line::Done { conversations })) => {
                let number = self.leave(state, at);
                if number != conversations {
                    self.report.skip(at, None, Reason::Missing);
                }
                State::Begin
            }
            (State::Between(number), Ok(Line::Unknown)) => State::Between(number),
            (State::Between(number), Ok(_)) => {
                self.report.skip(at, None, Reason::OutOfPlace);
                State::Skipping(number)
            }
            (State::Between(number), Err(error)) => {
                self.report.skip(at, None, Reason::Damaged(error));
                // It may have been the first line of a conversation.
                State::Skipping(number + 1)
            }
            // The report says why.
            (State::Skipping(number), _) => State::Skipping(number),
            (State::In(number, mut part), line) => {
                let line = line.unwrap_or_else(|error| {
                    part.refuse(at, Reason::Damaged(error), &mut self.report);
                    Line::Unknown
                });
                let is_ended = matches!(line, Line::End(_));
                let put = part.line(&*self.store, line, at, &mut self.report).await;
                put.map_err(|source| ImportError::Store { line: at, source })?;
                if is_ended { State::Between(number) } else { State::In(number, part) }
            }
        };
        Ok(())
    }

    /// Ends the part of a conversation whose last line is missing. Returns the number of conversations so far.
    fn leave(&mut self, state: State, at: u64) -> u64 {
        match state {
            State::In(number, part) => {
                self.report.skip(at, Some(part.id()), Reason::CutOff);
                number
            }
            State::Begin => 0,
            State::Between(number) | State::Skipping(number) => number,
        }
    }

    async fn begin(&mut self, mut first: ConversationLine, digest: Digest, at: u64) -> Result<Part, ImportError> {
        self.report.conversations += 1;
        match self.options.target(&first.id) {
            Ok(id) => first.id = id,
            Err(reason) => {
                self.report.skip(at, Some(&first.id), reason);
                return Ok(Part::refused(first, digest));
            }
        }
        let begun = Part::begin(&*self.store, first, digest, at, &mut self.report).await;
        begun.map_err(|source| ImportError::Store { line: at, source })
    }
}

/// The error for an import that stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file is not an export, or a newer version of this crate wrote it.
    #[error("line {line} is not the beginning of an export: {source}")]
    File {
        /// The line, counted from 1.
        line: u64,
        /// The cause.
        source: LineError,
    },
    /// The store failed.
    #[error("the import stopped at line {line}: {source}")]
    Store {
        /// The line, counted from 1.
        line: u64,
        /// The cause.
        source: StoreError,
    },
    /// The bytes could not be read.
    #[error("the input could not be read: {0}")]
    Input(#[source] Box<dyn std::error::Error + Send + Sync>),
}
