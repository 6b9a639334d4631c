//! The error for headers that cannot be used.

use http::HeaderName;
use tower_chat_history_core::{ConversationIdError, ExchangeIdError};

/// The error for a header that names a conversation or sets an option of a call, and cannot be used (feature `http`).
/// The model was not called.
///
/// The error names the header, and never shows its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The header is set more than once, so it is not known which value applies.
    #[error("the header {name} is set more than once")]
    Repeated {
        /// The name of the header.
        name: HeaderName,
    },
    /// The value has characters other than visible ASCII.
    #[error("the value of the header {name} has characters that are not visible ASCII")]
    NotAscii {
        /// The name of the header.
        name: HeaderName,
    },
    /// The value is not a conversation id.
    #[error("the value of the header {name} is not a conversation id: {source}")]
    ConversationId {
        /// The name of the header.
        name: HeaderName,
        /// The cause.
        source: ConversationIdError,
    },
    /// The value is not an exchange id.
    #[error("the value of the header {name} is not an exchange id: {source}")]
    ExchangeId {
        /// The name of the header.
        name: HeaderName,
        /// The cause.
        source: ExchangeIdError,
    },
    /// The value is neither `true` nor `false`.
    #[error("the value of the header {name} is neither true nor false")]
    NotBoolean {
        /// The name of the header.
        name: HeaderName,
    },
    /// The value is not a decimal number, or the number is too large.
    #[error("the value of the header {name} is not a decimal number, or is too large")]
    NotANumber {
        /// The name of the header.
        name: HeaderName,
    },
}
