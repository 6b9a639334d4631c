//! The error for a call over a limit.

use std::{fmt, time::Duration};

/// The error for a call that was refused because of a limit. The model was not called, and nothing was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitExceeded {
    /// The limit that the call exceeds.
    pub kind: LimitKind,
    /// The largest number that is allowed, in the [unit](LimitKind::unit) of the limit.
    pub limit: u64,
    /// The number that the call has or would lead to, in the same unit. For a rate, it is the limit plus 1.
    pub found: u64,
    /// The number of parts of the conversation's id, if the limit applies to all conversations together whose ids begin
    /// with these parts. `None` if it applies to the conversation alone.
    pub parts: Option<usize>,
    /// The time after which the call can succeed, if a rate was reached. `None` for other limits, and for a rate of 0.
    pub retry_after: Option<Duration>,
}

/// A kind of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// [`Limits::max_message_bytes`](super::Limits::max_message_bytes).
    MessageBytes,
    /// [`Limits::max_input_bytes`](super::Limits::max_input_bytes).
    InputBytes,
    /// [`Limits::max_tool_rounds`](super::Limits::max_tool_rounds).
    ToolRounds,
    /// [`Limits::max_exchanges`](super::Limits::max_exchanges).
    Exchanges,
    /// [`Limits::max_conversation_bytes`](super::Limits::max_conversation_bytes).
    ConversationBytes,
    /// [`ConversationQuota`](super::ConversationQuota).
    Conversations,
    /// [`Limits::calls_per_minute`](super::Limits::calls_per_minute) and
    /// [`Limits::calls_per_minute_under`](super::Limits::calls_per_minute_under).
    CallsPerMinute,
}

impl LimitKind {
    /// Returns a short constant name, for metrics and spans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MessageBytes => "max_message_bytes",
            Self::InputBytes => "max_input_bytes",
            Self::ToolRounds => "max_tool_rounds",
            Self::Exchanges => "max_exchanges",
            Self::ConversationBytes => "max_conversation_bytes",
            Self::Conversations => "max_conversations",
            Self::CallsPerMinute => "calls_per_minute",
        }
    }

    /// Returns the unit of the numbers.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::MessageBytes | Self::InputBytes | Self::ConversationBytes => "bytes",
            Self::ToolRounds => "rounds",
            Self::Exchanges => "exchanges",
            Self::Conversations => "conversations",
            Self::CallsPerMinute => "calls per minute",
        }
    }
}

impl LimitExceeded {
    /// Returns the status of an HTTP response for this error:
    ///
    /// - 413 for a message or an input that is too large.
    /// - 429 for a rate. Send [`retry_after`](Self::retry_after) as `Retry-After`, in seconds rounded up.
    /// - 403 for limits that time does not lift, including a rate of 0. Clients of the providers repeat 409 and 429 by
    ///   themselves.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        match self.kind {
            LimitKind::MessageBytes | LimitKind::InputBytes => 413,
            LimitKind::CallsPerMinute if self.retry_after.is_some() => 429,
            _ => 403,
        }
    }

    /// Creates the error for a limit of one conversation.
    pub(crate) const fn new(kind: LimitKind, limit: u64, found: u64) -> Self {
        Self { kind, limit, found, parts: None, retry_after: None }
    }
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, limit, found, parts, retry_after } = self;
        let unit = kind.unit();
        match kind {
            LimitKind::MessageBytes => write!(f, "a message has {found} {unit}")?,
            LimitKind::InputBytes => write!(f, "the input has {found} {unit}")?,
            LimitKind::ToolRounds => write!(f, "the number of the turn's {unit} of tool calls would be {found}")?,
            LimitKind::Exchanges | LimitKind::ConversationBytes => {
                write!(f, "the conversation would have {found} {unit}")?;
            }
            LimitKind::Conversations => write!(f, "there would be {found} {unit}")?,
            LimitKind::CallsPerMinute => write!(f, "there would be more {unit}")?,
        }
        match parts {
            Some(0) => f.write_str(" in total")?,
            Some(1) => f.write_str(" in total with the same first part of the id")?,
            Some(parts) => write!(f, " in total with the same first {parts} parts of the id")?,
            None => {}
        }
        write!(f, ", and the limit is {limit}")?;
        match retry_after {
            Some(after) => write!(f, "; the call can be repeated after {} ms", millis(*after)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for LimitExceeded {}

/// Returns the duration in milliseconds, rounded up.
const fn millis(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000)
}
