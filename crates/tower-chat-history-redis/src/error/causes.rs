//! The sources of errors of the store contract: damage, newer layouts, limits and contention.

use tower_chat_history_core::{ConversationId, Seq, StoreError};

/// Keys of a conversation are missing, or a value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keys of the conversation are missing or damaged: the server may have evicted some")]
#[non_exhaustive]
pub struct Damaged;

impl Damaged {
    pub(crate) fn error(id: &ConversationId, seq: u64) -> StoreError {
        StoreError::Corrupt { conversation: id.clone(), seq: Seq::new(seq), source: Box::new(Self) }
    }
}

/// A newer version of this store wrote the conversation, in a layout that this version does not know.
///
/// The conversation is intact: the newer version can read it. This error is the source of a [`StoreError::Backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the conversation was written by a newer version of this store: its layout is {found}, and this version supports \
     layouts up to {known}"
)]
#[non_exhaustive]
pub struct NewerLayout {
    /// The layout of the conversation.
    pub found: u32,
    /// The newest layout that this version knows.
    pub known: u32,
}

/// The reply does not have a form that the script returns: the script has a defect, or the server is not compatible.
#[derive(Debug, thiserror::Error)]
#[error("unexpected reply from the server")]
pub(crate) struct UnexpectedReply;

impl UnexpectedReply {
    pub(crate) fn error() -> StoreError {
        StoreError::backend(Self)
    }
}

/// The log has no free position left.
#[derive(Debug, thiserror::Error)]
#[error("a conversation in this store has at most 4294967295 exchanges, at positions below 281474976710655")]
pub(crate) struct LogFull;

/// Other calls kept changing the conversation between the steps of this one.
#[derive(Debug, thiserror::Error)]
#[error("other calls kept changing the conversation")]
pub(crate) struct Contended;

/// A server failed to write its append-only file or its snapshot.
#[derive(Debug, thiserror::Error)]
#[error("a server failed to write its files: see its log")]
pub(crate) struct FilesNotWritten;

/// A server did not finish writing its files in time.
#[derive(Debug, thiserror::Error)]
#[error("a server is still writing its files after ten minutes")]
pub(crate) struct StillWriting;
