//! What is exported.

use std::{fmt, str::FromStr, sync::Arc};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tower_chat_history_core::ConversationId;

/// What is exported of turns. Given to [`HistoryOptions::telemetry`](crate::HistoryOptions::telemetry); see the
/// [module docs](super).
///
/// The default is all spans with sizes, counts and constant names, and neither conversation ids nor content.
#[derive(Clone)]
pub struct Telemetry {
    pub(super) spans: bool,
    pub(super) chat_span: bool,
    pub(super) ids: Ids,
    pub(super) content: CaptureContent,
    #[cfg(feature = "otel")]
    pub(super) meter: Option<opentelemetry::metrics::Meter>,
}

/// How conversations are named.
#[derive(Clone)]
pub(super) enum Ids {
    Off,
    Hashed(Arc<Hmac<Sha256>>),
    Raw,
}

impl Telemetry {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            spans: true,
            chat_span: true,
            ids: Ids::Off,
            content: CaptureContent::NoContent,
            #[cfg(feature = "otel")]
            meter: None,
        }
    }

    /// Sets whether turns have spans. With `false`, events (warnings and errors) and metrics stay. The default is
    /// `true`.
    #[must_use]
    pub const fn spans(mut self, spans: bool) -> Self {
        self.spans = spans;
        self
    }

    /// Whether the model's call has a span `chat {model}`, and the calls of a summarizer. The default is that it has; say `false`
    /// where the client makes one itself: its tokens would be counted twice. Content goes with it.
    #[must_use]
    pub const fn chat_span(mut self, chat_span: bool) -> Self {
        self.chat_span = chat_span;
        self
    }

    /// Names the conversation by a keyed hash of its id: HMAC-SHA-256 of the [text form](ConversationId::as_str), in lower-case
    /// hexadecimal digits. Whoever has the key finds a conversation's turns, also without this crate
    /// (`printf acme/user-42 | openssl dgst -sha256 -hmac "$KEY"`); nobody else learns whose they are. The default is no name.
    #[must_use]
    pub fn hashed_conversation_ids(mut self, key: impl AsRef<[u8]>) -> Self {
        // HMAC takes keys of any length.
        self.ids = Hmac::new_from_slice(key.as_ref()).map_or(Ids::Off, |mac| Ids::Hashed(Arc::new(mac)));
        self
    }

    /// Names the conversation by the [text form](ConversationId::as_str) of its id. Such ids mostly name users. The default is
    /// no name.
    #[must_use]
    pub fn raw_conversation_ids(mut self) -> Self {
        self.ids = Ids::Raw;
        self
    }

    /// Exports what is said. The default is not to.
    #[must_use]
    pub const fn content(mut self, capture: CaptureContent) -> Self {
        self.content = capture;
        self
    }

    /// Where metrics are recorded. The default is the global meter of the name `tower-chat-history`, as it is when an engine is
    /// made.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn meter(mut self, meter: opentelemetry::metrics::Meter) -> Self {
        self.meter = Some(meter);
        self
    }

    /// What the conversation is called.
    pub(super) fn name_of(&self, id: &ConversationId) -> Option<String> {
        match &self.ids {
            Ids::Off => None,
            Ids::Raw => Some(id.as_str().to_owned()),
            Ids::Hashed(mac) => {
                let mut mac = Hmac::clone(mac);
                mac.update(id.as_str().as_bytes());
                let hash = mac.finalize().into_bytes();
                Some(hash.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(hexadecimal).collect())
            }
        }
    }
}

fn hexadecimal(digit: u8) -> Option<char> {
    char::from_digit(digit.into(), 16)
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

// The key is a secret.
impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = match self.ids {
            Ids::Off => "off",
            Ids::Hashed(_) => "hashed",
            Ids::Raw => "raw",
        };
        f.debug_struct("Telemetry")
            .field("spans", &self.spans)
            .field("chat_span", &self.chat_span)
            .field("conversation_ids", &ids)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// Whether and how content is exported: what was sent, what was answered, system messages and tool definitions, in the JSON
/// that OpenTelemetry's conventions prescribe. The levels are theirs too.
///
/// [Parsed](FromStr) from what stands in the conventional variable `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, if a
/// program wants to leave it to that:
///
/// ```
/// use tower_chat_history::telemetry::{CaptureContent, Telemetry};
///
/// let capture = std::env::var("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").unwrap_or_default();
/// let telemetry = Telemetry::new().content(capture.parse().unwrap_or_default());
/// assert_eq!("SPAN_ONLY".parse(), Ok(CaptureContent::SpanOnly));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaptureContent {
    /// None of it (`NO_CONTENT`).
    #[default]
    NoContent,
    /// As attributes of the span (`SPAN_ONLY`).
    SpanOnly,
    /// As an event (`EVENT_ONLY`).
    EventOnly,
    /// Both (`SPAN_AND_EVENT`).
    SpanAndEvent,
}

impl CaptureContent {
    pub(super) const fn on_span(self) -> bool {
        matches!(self, Self::SpanOnly | Self::SpanAndEvent)
    }

    pub(super) const fn as_event(self) -> bool {
        matches!(self, Self::EventOnly | Self::SpanAndEvent)
    }
}

/// A text that is no level of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a level of content: NO_CONTENT, SPAN_ONLY, EVENT_ONLY and SPAN_AND_EVENT are")]
pub struct CaptureContentError;

impl FromStr for CaptureContent {
    type Err = CaptureContentError;

    /// In capital or small letters; an empty text is `NO_CONTENT`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().to_ascii_uppercase().as_str() {
            "" | "NO_CONTENT" => Ok(Self::NoContent),
            "SPAN_ONLY" => Ok(Self::SpanOnly),
            "EVENT_ONLY" => Ok(Self::EventOnly),
            "SPAN_AND_EVENT" => Ok(Self::SpanAndEvent),
            _ => Err(CaptureContentError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ConversationId {
        ConversationId::new(["acme", "user 42"]).unwrap()
    }

    #[test]
    fn a_conversation_has_no_name_unless_it_is_asked_for() {
        assert_eq!(Telemetry::new().name_of(&id()), None);
        assert_eq!(Telemetry::new().raw_conversation_ids().name_of(&id()).as_deref(), Some("acme/user%2042"));
    }

    #[test]
    fn a_hashed_name_is_an_hmac_of_the_text_form() {
        // printf 'acme/user%%2042' | openssl dgst -sha256 -hmac key
        let expected = "bb6e0eab4b9ec03c8fb49beb2340c395c502ad0acb4adf4d930355f45a0074d9";
        assert_eq!(Telemetry::new().hashed_conversation_ids("key").name_of(&id()).as_deref(), Some(expected));
        let other = Telemetry::new().hashed_conversation_ids("other").name_of(&id());
        assert_ne!(other.as_deref(), Some(expected));
    }

    #[test]
    fn debug_shows_no_key() {
        let telemetry = Telemetry::new().hashed_conversation_ids("secret-key");
        assert!(format!("{telemetry:?}").contains("hashed") && !format!("{telemetry:?}").contains("secret"));
    }

    #[test]
    fn levels_of_content_are_read_as_the_conventions_write_them() {
        for (text, level) in [
            ("", CaptureContent::NoContent),
            ("no_content", CaptureContent::NoContent),
            ("SPAN_ONLY", CaptureContent::SpanOnly),
            ("EVENT_ONLY", CaptureContent::EventOnly),
            (" span_and_event ", CaptureContent::SpanAndEvent),
        ] {
            assert_eq!(text.parse(), Ok(level));
        }
        assert_eq!("true".parse::<CaptureContent>(), Err(CaptureContentError));
    }
}
