//! The lines of the export format.

mod read;
pub(crate) mod write;

use serde::{Deserialize, Serialize};
use tower_chat_history_core::{
    Compaction, ConversationId, Cuts, Digest, Exchange, Labels, Profile, Seq, StoreError, Timestamp,
    backend::RecordError,
};

/// The name of the format, in its first line.
pub const FORMAT: &str = "tower-chat-history";

/// The version of the format that this crate writes, and the newest that it reads.
pub const VERSION: u64 = 1;

/// A line of an export. The page about the [format](mod@crate::transfer::format) lists the lines and their fields.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // A value lives only until the next line.
pub(crate) enum Line {
    /// The beginning of an export.
    Header,
    /// The beginning of a conversation.
    Conversation {
        /// Its fields.
        conversation: ConversationLine,
        /// The digest of the line, with which that of the next line continues.
        digest: Digest,
    },
    /// An exchange of the conversation.
    Exchange {
        /// Its position.
        seq: Seq,
        /// The exchange.
        exchange: Box<Exchange>,
        /// The digest of the conversation's lines up to this one.
        digest: Digest,
    },
    /// A compaction of the conversation.
    Compaction {
        /// The profile whose compaction it is.
        profile: Profile,
        /// The cuts in it. Its version is not in the line, because each store has its own.
        cuts: Cuts,
        /// The digest of the conversation's lines up to this one.
        digest: Digest,
    },
    /// The end of the conversation.
    End(EndLine),
    /// The end of the export.
    Done {
        /// The number of conversations.
        conversations: u64,
    },
    /// A line of a type that this version does not have. Readers skip it.
    Unknown,
}

impl Line {
    /// Returns the digest of the conversation's lines up to this one, with which that of the next line continues.
    /// Returns `None` for lines that are in no chain: the beginning and the end of an export, the end of a
    /// conversation, and lines of types that are not known.
    pub(crate) const fn digest(&self) -> Option<Digest> {
        match self {
            Self::Conversation { digest, .. } | Self::Exchange { digest, .. } | Self::Compaction { digest, .. } => {
                Some(*digest)
            }
            Self::Header | Self::End(_) | Self::Done { .. } | Self::Unknown => None,
        }
    }
}

/// The line at the beginning of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConversationLine {
    /// The conversation.
    pub(crate) id: ConversationId,
    /// The position of the log's first exchange. It is 0, unless the log was pruned.
    #[serde(default)]
    pub(crate) first: Seq,
    /// The time at which the conversation was created, in milliseconds since the Unix epoch, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<Timestamp>,
    /// The time of the newest exchange, in milliseconds since the Unix epoch, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) updated_at: Option<Timestamp>,
    /// The labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(crate) labels: Labels,
}

/// The line at the end of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndLine {
    /// The number of exchange lines.
    pub(crate) exchanges: u64,
    /// The number of compaction lines.
    #[serde(default)]
    pub(crate) compactions: u64,
    /// The reason why the log is not complete in this export, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<ExportCut>,
    /// The digest of the conversation's lines before this one. If it is absent, it is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<Digest>,
}

/// The reason why an export has only the beginning of a conversation's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExportCut {
    /// The log was deleted, truncated or pruned while it was exported. Export the conversation again.
    Changed,
    /// The next exchange of the log cannot be read.
    Damaged,
}

impl std::fmt::Display for ExportCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Changed => "the log was deleted, truncated or pruned while it was exported",
            Self::Damaged => "the next exchange of the log cannot be read",
        })
    }
}

/// The error for a line that cannot be read. It never quotes the line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line is not a JSON object of its type.
    #[error("it is malformed (column {column})")]
    Malformed {
        /// The column, in bytes, counted from 1.
        column: usize,
    },
    /// The line has more bytes than the reader allows.
    #[error("it has more than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The line is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The file has another format.
    #[error("the format is not {FORMAT}")]
    Format,
    /// A newer version of this crate wrote the file.
    #[error("the format has version {version}, but this program reads versions up to {VERSION}")]
    Newer {
        /// The version of the file.
        version: u64,
    },
    /// The record of the line cannot be read.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// The digest is not that of the lines up to this one: it was changed, or lines before it are missing or belong to
    /// another conversation.
    #[error("its digest does not match: it was changed, or it is not the next line of this conversation")]
    Digest,
}

/// Returns the digest of a conversation's lines up to one with these texts. `before` is that of the lines before it.
fn digest_of<'t>(before: Digest, texts: impl IntoIterator<Item = &'t str>) -> Digest {
    texts.into_iter().fold(before, |digest, text| digest.then(Digest::of(text.as_bytes())))
}

fn conversation_digest(line: &ConversationLine) -> Digest {
    let ConversationLine { id, first, created_at, updated_at, labels } = line;
    let first = first.to_string();
    let created = millis(*created_at);
    let updated = millis(*updated_at);
    digest_of(Digest::default(), [id.as_str(), &first, &created, &updated, &labels.encode()])
}

fn millis(time: Option<Timestamp>) -> String {
    time.map_or(String::new(), |time| time.as_unix_millis().to_string())
}

fn exchange_digest(before: Digest, seq: Seq, record: &str, recalled: Option<&str>, provenance: Option<&str>) -> Digest {
    digest_of(before, [&*seq.to_string(), record, recalled.unwrap_or_default(), provenance.unwrap_or_default()])
}

/// Reads the cuts in the compaction of a profile. An error says that the compaction is corrupt.
pub(crate) fn read_cuts(compaction: &Compaction, id: &ConversationId, profile: &Profile) -> Result<Cuts, StoreError> {
    Cuts::read(compaction).map_err(|error| StoreError::CorruptCompaction {
        conversation: id.clone(),
        profile: profile.clone(),
        source: Box::new(error),
    })
}
