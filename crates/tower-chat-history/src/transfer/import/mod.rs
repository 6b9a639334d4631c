//! Import of conversations.

mod log;
mod part;
mod report;

use std::sync::Arc;

use futures_core::Stream;
use futures_util::{StreamExt, pin_mut};
use tower_chat_history_core::{ConversationId, Digest, List, Prefix};

pub(crate) use self::log::{Log, Put, may_concern_one_conversation};
use self::part::Part;
pub use self::report::{ForeignError, ImportError, ImportReport, Problem, Reason, SkippedPart};
use crate::{
    error::BoxError,
    transfer::line::{ConversationLine, Line, LineError},
};

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
    /// - [`ImportError::File`] if the file does not begin as an export, or if a newer version of this library wrote it.
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
        E: Into<BoxError>,
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
        let part = Part::begin(&*self.store, first, digest, at, &mut self.report).await;
        part.map_err(|source| ImportError::Store { line: at, source })
    }
}

/// The options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    max_line: usize,
    renamed: Option<(Prefix, Prefix)>,
}

impl ImportOptions {
    /// The default maximum size of a line: 128 MiB.
    pub const MAX_LINE: usize = 128 << 20;

    /// Creates options with the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { max_line: Self::MAX_LINE, renamed: None }
    }

    /// Sets the maximum size of a line, in bytes. A longer line counts as damaged and is not kept in memory. The
    /// default is [`MAX_LINE`](Self::MAX_LINE).
    #[must_use]
    pub const fn max_line(mut self, bytes: usize) -> Self {
        self.max_line = bytes;
        self
    }

    /// Imports the conversations under the prefix `from` under the prefix `to`, with the same further parts. By
    /// default, ids stay as they are. Conversations that are not under `from` are skipped.
    #[must_use]
    pub fn rename(mut self, from: Prefix, to: Prefix) -> Self {
        self.renamed = Some((from, to));
        self
    }

    /// Returns the id under which a conversation is imported.
    fn target(&self, id: &ConversationId) -> Result<ConversationId, Reason> {
        let Some((from, to)) = &self.renamed else { return Ok(id.clone()) };
        if !from.contains(id) {
            return Err(Reason::OtherPrefix);
        }
        let rest = id.as_str().strip_prefix(from.as_str()).unwrap_or_default().trim_start_matches('/');
        let parts: Vec<&str> = [to.as_str(), rest].into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("/").parse().map_err(Reason::Id)
    }
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Splits pieces of bytes into lines. It keeps at most one line.
#[derive(Debug)]
struct Splitter {
    limit: usize,
    line: Vec<u8>,
    /// The line exceeded the limit, and the rest of it is dropped.
    is_too_long: bool,
    lines: u64,
}

impl Splitter {
    const fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), is_too_long: false, lines: 0 }
    }

    /// Returns the number of lines so far.
    const fn lines(&self) -> u64 {
        self.lines
    }

    /// Takes bytes from the front of the piece. Returns a line if it is complete.
    fn next(&mut self, piece: &mut &[u8]) -> Option<Result<String, LineError>> {
        let Some(end) = piece.iter().position(|byte| *byte == b'\n') else {
            self.take(std::mem::take(piece));
            return None;
        };
        self.take(&piece[..end]);
        *piece = &piece[end + 1..];
        Some(self.complete())
    }

    /// Returns the last line, if it has no line break at its end.
    fn last(&mut self) -> Option<Result<String, LineError>> {
        (self.is_too_long || !self.line.is_empty()).then(|| self.complete())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.line.len() + bytes.len() > self.limit;
        if self.is_too_long {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn complete(&mut self) -> Result<String, LineError> {
        self.lines += 1;
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            return Err(LineError::TooLong { limit: self.limit });
        }
        String::from_utf8(line).map_err(|_| LineError::NotUtf8)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(pieces: &[&[u8]], limit: usize) -> Vec<Option<String>> {
        let mut splitter = Splitter::new(limit);
        let mut lines = Vec::new();
        for piece in pieces {
            let mut piece = *piece;
            while !piece.is_empty() {
                lines.extend(splitter.next(&mut piece).map(Result::ok));
            }
        }
        lines.extend(splitter.last().map(Result::ok));
        assert_eq!(splitter.lines(), lines.len() as u64);
        lines
    }

    #[test]
    fn lines_over_the_limit_are_dropped_and_counted() {
        let lines = split(&[b"abc\nab", b"cd\n\xff\nx"], 3);
        assert_eq!(lines, [Some("abc".into()), None, None, Some("x".into())]);
    }

    proptest! {
        #[test]
        fn the_pieces_make_no_difference(text in "[ab\n]{0,40}", sizes in prop::collection::vec(1_usize..9, 0..40)) {
            let mut rest = text.as_bytes();
            let mut pieces = Vec::new();
            for size in sizes {
                let (piece, others) = rest.split_at(size.min(rest.len()));
                pieces.push(piece);
                rest = others;
            }
            pieces.push(rest);
            prop_assert_eq!(split(&pieces, 5), split(&[text.as_bytes()], 5));
        }
    }
}
