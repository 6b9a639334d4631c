//! The error for messages in another dialect than that of the call.

use std::fmt;

use tower_chat_history_core::{Dialect, DialectName, Message, Seq};

/// The error for a message in another [dialect](crate::dialect) than that of the call. Without
/// [`OnOtherDialect::Translate`](crate::policy::OnOtherDialect::Translate), one conversation has one dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} is in {}, and the call is in the dialect {called}", Found(.found.as_ref()))]
#[non_exhaustive]
pub struct OtherDialect {
    /// The place of the message.
    pub place: DialectPlace,
    /// The dialect of the message, or `None` if it was not read in a dialect before and cannot be read in that of the
    /// call.
    pub found: Option<DialectName>,
    /// The dialect of the call.
    pub called: DialectName,
}

/// The place of a message in another dialect. Positions are indexes in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialectPlace {
    /// The stored exchange at this position.
    Stored(Seq),
    /// The stored exchange at this position, whose tool calls the input answers, or whose results wait for the model's
    /// reply. A turn has one dialect, also under
    /// [`OnOtherDialect::Translate`](crate::policy::OnOtherDialect::Translate).
    OpenTurn(Seq),
    /// This message of the input, or of the results to store.
    Input(usize),
    /// This message of the transcript that the caller resends.
    Transcript(usize),
    /// This message of those that are [stored instead](crate::CallOptions::store_instead) of the input.
    Instead(usize),
    /// This message of the reply.
    Reply(usize),
}

impl fmt::Display for DialectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenTurn(seq) => write!(f, "exchange {seq} of the open turn"),
            Self::Stored(seq) => write!(f, "exchange {seq} of the conversation"),
            Self::Input(position) => write!(f, "message {position} of the input"),
            Self::Transcript(position) => write!(f, "message {position} of the transcript"),
            Self::Instead(position) => write!(f, "message {position} of `store_instead`"),
            Self::Reply(position) => write!(f, "message {position} of the reply"),
        }
    }
}

struct Found<'a>(Option<&'a DialectName>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(found) => write!(f, "the dialect {found}"),
            None => f.write_str("an unknown dialect"),
        }
    }
}

/// Checks that these messages are in this dialect. Messages that were not read before are read.
pub(crate) fn check_dialect(
    dialect: &'static dyn Dialect,
    messages: &[Message],
    place: fn(usize) -> DialectPlace,
) -> Result<(), OtherDialect> {
    let is_other = |message: &Message| {
        // A dialect that is not known is an error of the read.
        message.read_in(dialect).is_err() || message.dialect().is_none_or(|found| found.name() != dialect.name())
    };
    let Some(position) = messages.iter().position(is_other) else { return Ok(()) };
    Err(OtherDialect {
        place: place(position),
        found: messages[position].dialect().map(DialectName::of),
        called: DialectName::of(dialect),
    })
}
