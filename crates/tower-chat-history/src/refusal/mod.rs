//! Refusals of providers: their meanings, and what would help.
//!
//! # Decisions
//!
//! - **Only a message's beginning is read**, after texts that servers and gateways put before others' errors. A message
//!   can quote what a user wrote, and a user can write what a provider would say.
//! - **A rate is never understood as a size**, even where it is said so: Groq answers 413 with "Request too large" when
//!   a request has more tokens than an account may send in a minute.
//! - **Numbers only help.** An absurd number is left out. The place that learns a limit decides about the others.

mod body;
mod meaning;
mod pattern;
mod wordings;

#[cfg(test)]
mod tests;

use std::fmt;

use tower_chat_history_core::Compat;

/// A change with which a refused call can succeed. It changes the history that is sent, never the caller's input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// The provider cannot read encrypted elements of stored replies. The call is repeated without them.
    WithoutEncrypted,
    /// The prompt has something that the reader does not accept. The call is repeated with a prompt that is adapted
    /// to a reader like this, and to what is known about the reader.
    Adapt(Box<Compat>),
    /// The prompt is too long. The call is repeated with a shorter one.
    Shorten(TooLong),
    /// The body of the request has too many bytes. The call is repeated with fewer media, or else with a shorter
    /// prompt.
    FewerBytes,
}

/// The sizes that a refusal of a prompt that is too long states, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// The largest size of prompt and reply together, or of the prompt.
    pub limit: Option<u32>,
    /// The size of the refused prompt.
    pub prompt: Option<u32>,
}

/// An error as a provider's client has it, whose body isn't there anymore.
#[derive(Clone, Copy, Default)]
pub struct ErrorFields<'a> {
    /// The code, for example `context_length_exceeded`.
    pub code: Option<&'a str>,
    /// The type, for example `invalid_request_error`.
    pub kind: Option<&'a str>,
    /// The message.
    pub message: &'a str,
}

impl fmt::Debug for ErrorFields<'_> {
    /// Leaves the message out, because it can quote a prompt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorFields").field("code", &self.code).field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Remedy {
    /// Returns a short constant name, for spans and logs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::WithoutEncrypted => "without_encrypted",
            Self::Adapt(_) => "adapt",
            Self::Shorten(_) => "shorten",
            Self::FewerBytes => "fewer_bytes",
        }
    }

    /// Returns what would help after a response with this status and body. The body is JSON, or a stream of events
    /// whose first ones have the error.
    ///
    /// Returns `None` if the refusal isn't understood, or cannot be cured with another history.
    ///
    /// ```
    /// use tower_chat_history::refusal::Remedy;
    ///
    /// let body = br#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 201234 tokens > 200000 maximum"}}"#;
    /// let Some(Remedy::Shorten(sizes)) = Remedy::of_body(Some(400), body) else { panic!() };
    /// assert_eq!(sizes.limit, Some(200_000));
    /// ```
    #[must_use]
    pub fn of_body(status: Option<u16>, body: &[u8]) -> Option<Self> {
        body::Refusal::of_body(body).remedy(status)
    }

    /// Returns what would help after an error of a client, with the status of its response if the client has it.
    #[must_use]
    pub fn of_error(status: Option<u16>, error: &ErrorFields<'_>) -> Option<Self> {
        body::Refusal::of_error(error).remedy(status)
    }
}
