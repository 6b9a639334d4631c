//! The error for a value that cannot be made.

/// The error for an id, a name, labels or another small value that its constructor refuses. It never quotes the text.
///
/// A [`ConversationId`](crate::ConversationId) has an error of its own, because its text often comes from a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidValue {
    /// An exchange id is empty, too long, or has other bytes than visible ASCII.
    #[error("invalid exchange id: expected 1 to {max} bytes of visible ASCII, got {len} bytes")]
    ExchangeId {
        /// The length of the text, in bytes.
        len: usize,
        /// The largest allowed length.
        max: usize,
    },
    /// A profile name is empty, too long, or has other bytes than visible ASCII.
    #[error("invalid profile name of {len} bytes, expected 1 to {max} bytes of visible ASCII")]
    Profile {
        /// The length of the text, in bytes.
        len: usize,
        /// The largest allowed length.
        max: usize,
    },
    /// A text is not a revision.
    #[error("invalid revision: expected `<32 hex digits>.<version>` or `<32 hex digits>.<version>.<first>`")]
    Revision,
    /// A text is not a cursor.
    #[error("invalid cursor: expected the text of a cursor that a listing returned")]
    Cursor,
    /// The name of a label is empty.
    #[error("invalid labels: a name is empty")]
    EmptyLabelName,
    /// There are too many labels.
    #[error("invalid labels: expected at most {max} labels")]
    TooManyLabels {
        /// The largest allowed number.
        max: usize,
    },
    /// The stored text of labels is not a JSON object of valid labels.
    #[error("invalid labels: the stored text is malformed (column {column})")]
    MalformedLabels {
        /// The column in the text, in bytes, counted from 1.
        column: usize,
    },
    /// The names and values of labels are too long.
    #[error("invalid labels: the names and values have {bytes} bytes, which is more than the limit")]
    LargeLabels {
        /// The size of the names and values, in bytes.
        bytes: usize,
    },
    /// Metadata is not JSON.
    #[error("invalid metadata: it is not JSON (line {line}, column {column})")]
    MalformedMetadata {
        /// The line in the text, counted from 1.
        line: usize,
        /// The column in the line, in bytes, counted from 1.
        column: usize,
    },
    /// Metadata is JSON, but not an object.
    #[error("invalid metadata: it is not a JSON object")]
    MetadataNotAnObject,
    /// Metadata is too large.
    #[error("invalid metadata: it has {bytes} bytes, and at most {max} are allowed")]
    LargeMetadata {
        /// The size of the object, in bytes.
        bytes: usize,
        /// The largest allowed size.
        max: usize,
    },
    /// Encrypted content has sizes that it cannot have.
    #[error(
        "invalid sizes of encrypted content: {messages} messages of {bytes} bytes, of which {media_bytes} are media, in a \
         text of {text} bytes"
    )]
    Sealed {
        /// The number of messages.
        messages: usize,
        /// The size of their JSON, in bytes.
        bytes: usize,
        /// The bytes of them that are media.
        media_bytes: usize,
        /// The size of the encrypted text, in bytes.
        text: usize,
    },
}
