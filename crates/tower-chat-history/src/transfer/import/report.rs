//! The reports and the errors of imports.

use std::{fmt, io};

use serde::{Serialize, Serializer};
use tower_chat_history_core::{ConversationId, ConversationIdError, Profile, Seq, StoreError};

use crate::{
    error::BoxError,
    transfer::line::{ExportCut, LineError},
};

/// The largest number of skipped parts that a report names.
const MAX_NAMED: usize = 1_000;

/// The numbers of an import.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ImportReport {
    /// The lines of the file.
    pub lines: u64,
    /// The exports in the file. Several files can be joined to one.
    pub exports: u64,
    /// The conversations in the file.
    pub conversations: u64,
    /// The exchanges that were stored.
    pub stored: u64,
    /// The exchanges that were already there.
    pub present: u64,
    /// The exchanges that the store has pruned since they were exported. They are not stored again.
    pub pruned: u64,
    /// The compactions that were stored.
    pub compactions: u64,
    /// The conversations whose labels were stored.
    pub labels: u64,
    /// The instructions at the beginnings of conversations of other formats. They are not stored, because they belong
    /// to each request.
    pub instructions: u64,
    /// The parts of messages of other formats that have no counterpart and were left out.
    pub left_out: u64,
    /// `true` if the file has the last line of each export.
    pub is_whole: bool,
    /// The number of parts that were skipped.
    pub skipped: u64,
    /// The first 1,000 of them.
    pub named: Vec<SkippedPart>,
}

impl ImportReport {
    pub(crate) fn skip(&mut self, line: u64, conversation: Option<&ConversationId>, reason: Reason) {
        self.skipped += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push(SkippedPart { line, conversation: conversation.cloned(), reason });
        }
    }
}

/// A part of a file that was not imported.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct SkippedPart {
    /// The line at which it was noticed, counted from 1. In a database, it is the number of the row.
    pub line: u64,
    /// The conversation, if it is known.
    pub conversation: Option<ConversationId>,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for SkippedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(conversation) = &self.conversation {
            write!(f, ", conversation {conversation}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// The reason why a part of a file was not imported. In JSON, it is a text for people.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The line cannot be read, was changed, or does not follow the line before it. The rest of the conversation is
    /// skipped.
    #[error("the line is damaged ({0}), so the rest of the conversation is skipped")]
    Damaged(LineError),
    /// The line does not belong here.
    #[error("the line is out of place, so the lines up to the next conversation are skipped")]
    OutOfPlace,
    /// The file ends before its last line, or the conversation before its last line.
    #[error("the file is cut off")]
    CutOff,
    /// The file lacks lines, or has lines twice. If the line after them has a digest, this is noticed there, and is
    /// [`Damaged`](Self::Damaged).
    #[error("the numbers or the digest at the end do not match: lines are missing or were added")]
    Missing,
    /// The export has only the beginning of the log.
    #[error("the export has only the beginning: {0}")]
    Cut(ExportCut),
    /// The store has another exchange at this position. The rest of the conversation is skipped.
    #[error("the store has another exchange at position {0}, so the rest of the conversation is skipped")]
    Other(Seq),
    /// The log ends before this position. The rest of the conversation is skipped.
    #[error("the log in the store ends before position {0}, so the rest of the conversation is skipped")]
    Gap(Seq),
    /// The exchange id is in the log at another position. The rest of the conversation is skipped.
    #[error(
        "the store has the exchange of position {0} at another position, so the rest of the conversation is skipped"
    )]
    Elsewhere(Seq),
    /// Somebody wrote to the conversation, deleted or erased it. The rest of the conversation is skipped.
    #[error("the conversation was changed during the import, so the rest of it is skipped")]
    Changed,
    /// The store refuses the exchange. The rest of the conversation is skipped.
    #[error("the store refuses the exchange at position {0}, so the rest of the conversation is skipped")]
    Refused(Seq),
    /// The store fails for this conversation, for example because it is damaged there. The rest of the conversation is
    /// skipped.
    #[error("the store failed at position {seq}, so the rest of the conversation is skipped: {source}")]
    Store {
        /// The position.
        seq: Seq,
        /// The error.
        source: StoreError,
    },
    /// The store has other labels, which stay.
    #[error("the store has other labels, which stay")]
    Labels,
    /// The store has another compaction of this profile, which stays, or the one in the file does not fit the log.
    #[error(
        "the store has another compaction of profile {0}, which stays, or the one in the file does not fit the log"
    )]
    Compaction(Profile),
    /// The conversation is not under the prefix that is imported.
    #[error("the conversation is not under the prefix to rename")]
    OtherPrefix,
    /// The id cannot be used.
    #[error("{0}")]
    Id(ConversationIdError),
    /// A conversation of another format cannot be read.
    #[error("{0}")]
    Foreign(ForeignError),
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The error for an import that stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file is not an export, or a newer version of this library wrote it.
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
    Input(#[source] BoxError),
}

/// The error of a reader of another format. It never quotes the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// A conversation cannot be read. The reader continues with the next one.
    #[error("record {record}: {problem}")]
    Conversation {
        /// The number of the line or record, counted from 1. In a database, it is the number of the row.
        record: u64,
        /// The name of the conversation, if it is known.
        name: Option<String>,
        /// The problem.
        problem: Problem,
    },
    /// The input cannot be read. The reader ends.
    #[error("the input could not be read: {0}")]
    Input(#[from] io::Error),
    /// The database cannot be read. The reader ends.
    #[cfg(feature = "transfer-sqlite")]
    #[error("the database could not be read: {0}")]
    Database(#[from] rusqlite::Error),
}

impl ForeignError {
    pub(crate) const fn conversation(record: u64, name: Option<String>, problem: Problem) -> Self {
        Self::Conversation { record, name, problem }
    }
}

/// The reason why a conversation of another format cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not JSON.
    #[error("it is not valid JSON (column {column})")]
    Json {
        /// The column, in bytes, counted from 1.
        column: usize,
    },
    /// The record has more bytes than the reader allows.
    #[error("it has more than {limit} bytes (write one conversation in each line)")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The text is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The record does not have the fields of the format.
    #[error("it does not have the form of this format: {0}")]
    Form(&'static str),
    /// A message is not valid.
    #[error("message {0} is not a valid message")]
    Message(usize),
}
