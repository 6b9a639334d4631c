//! The places at which listings continue.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::conversation_id::ConversationId;

/// The version of the text form.
const VERSION: char = '1';

/// The place at which a [listing](crate::List::list) continues. It can be sent to a client and come back with the next
/// request: a forged cursor can skip conversations, but never shows one outside of the requested prefix.
///
/// The text form fits into a URL. It is opaque, but not secret: it contains the id of the last conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor(ConversationId);

impl Cursor {
    /// Creates the cursor that continues after this conversation. Stores use it.
    #[must_use]
    pub const fn after(last: ConversationId) -> Self {
        Self(last)
    }

    /// Returns the conversation after which the listing continues.
    #[must_use]
    pub const fn last(&self) -> &ConversationId {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}{}", URL_SAFE_NO_PAD.encode(self.0.as_str()))
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = text.strip_prefix(VERSION).ok_or(CursorError)?;
        let id = URL_SAFE_NO_PAD.decode(id).map_err(|_| CursorError)?;
        let id = String::from_utf8(id).map_err(|_| CursorError)?;
        id.parse().map(Self).map_err(|_| CursorError)
    }
}

/// The error for a text that is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid cursor: expected the text of a cursor that a listing returned")]
pub struct CursorError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_of_cursors_parse() {
        let cursor = Cursor::after(ConversationId::new(["acme", "user 42"]).unwrap());
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for wrong in ["", "1", "2YWNtZQ", "acme", "1YWNtZQ==", "1/w", "1_w"] {
            assert_eq!(wrong.parse::<Cursor>(), Err(CursorError), "{wrong}");
        }
    }
}
