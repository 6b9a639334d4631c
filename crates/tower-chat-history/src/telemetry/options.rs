//! The options of telemetry.

use std::{fmt, str::FromStr, sync::Arc};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tower_chat_history_core::ConversationId;

use crate::error::OptionError;

/// The options for the spans, events and metrics of turns. Set them with
/// [`HistoryOptions::telemetry`](crate::HistoryOptions::telemetry). See the [module docs](super).
///
/// By default, all spans are exported, with sizes, counts and constant names, but without conversation ids and content.
///
/// As [data](crate#features), the options have no meter. It is set in code.
#[derive(Clone)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Telemetry {
    pub(super) spans: bool,
    pub(super) chat_span: bool,
    #[cfg_attr(feature = "config", serde(rename = "conversation_ids"))]
    pub(super) ids: Ids,
    pub(super) content: CaptureContent,
    #[cfg(feature = "otel")]
    #[cfg_attr(feature = "config", serde(skip))]
    pub(super) meter: Option<opentelemetry::metrics::Meter>,
}

/// The form in which conversation ids are exported.
#[derive(Clone)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
pub(super) enum Ids {
    Off,
    #[cfg_attr(feature = "config", serde(rename = "hashed_with_key", deserialize_with = "key"))]
    Hashed(Arc<Hmac<Sha256>>),
    Raw,
}

impl Telemetry {
    /// Creates the default options.
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

    /// Sets whether turns have spans. With `false`, events (warnings and errors) and metrics are still exported. The
    /// default is `true`.
    #[must_use]
    pub const fn spans(mut self, spans: bool) -> Self {
        self.spans = spans;
        self
    }

    /// Sets whether each call of the model or of a summarizer has a span `chat {model}`. Set it to `false` if the
    /// client creates such spans itself. Otherwise, tools that add up the tokens of all spans count them twice. With
    /// `false`, content is not captured. The default is `true`.
    #[must_use]
    pub const fn chat_span(mut self, chat_span: bool) -> Self {
        self.chat_span = chat_span;
        self
    }

    /// Exports a keyed hash of the conversation's id: HMAC-SHA-256 of its [text form](ConversationId::as_str), in
    /// lower-case hexadecimal digits. Whoever has the key can compute the hash of an id, also without this crate
    /// (`printf acme/user-42 | openssl dgst -sha256 -hmac "$KEY"`), and find the turns of the conversation. Without
    /// the key, the hash does not reveal the id. By default, no id is exported.
    #[must_use]
    pub fn hashed_conversation_ids(mut self, key: impl AsRef<[u8]>) -> Self {
        // HMAC takes keys of any length.
        self.ids = Hmac::new_from_slice(key.as_ref()).map_or(Ids::Off, |mac| Ids::Hashed(Arc::new(mac)));
        self
    }

    /// Exports the [text form](ConversationId::as_str) of the conversation's id. Such ids often identify users. By
    /// default, no id is exported.
    #[must_use]
    pub fn raw_conversation_ids(mut self) -> Self {
        self.ids = Ids::Raw;
        self
    }

    /// Sets if message content is exported, and if so, as span attributes or as events. The default is
    /// [`CaptureContent::NoContent`].
    #[must_use]
    pub const fn content(mut self, capture: CaptureContent) -> Self {
        self.content = capture;
        self
    }

    /// Sets the meter that records the metrics. The default is the global meter with the name `tower-chat-history`,
    /// which is looked up when an engine is created.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn meter(mut self, meter: opentelemetry::metrics::Meter) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Returns the exported form of the conversation's id, or `None` if ids are not exported.
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

#[cfg(feature = "config")]
fn key<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Arc<Hmac<Sha256>>, D::Error> {
    use serde::{Deserialize as _, de::Error as _};

    let key = String::deserialize(deserializer)?;
    if key.is_empty() {
        return Err(D::Error::custom("invalid key, expected a text that is not empty"));
    }
    Hmac::new_from_slice(key.as_bytes()).map(Arc::new).map_err(D::Error::custom)
}

fn hexadecimal(digit: u8) -> Option<char> {
    char::from_digit(digit.into(), 16)
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

// Not derived, because the key is a secret.
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

/// The places to which content is exported. Content is the sent messages (including system messages), the replies and
/// the tool definitions, in the JSON that OpenTelemetry's conventions define. The variants are also defined by the
/// conventions.
///
/// A program can [parse](FromStr) the value from the conventional environment variable
/// `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`:
///
/// ```
/// use tower_chat_history::telemetry::{CaptureContent, Telemetry};
///
/// let capture = std::env::var("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").unwrap_or_default();
/// let telemetry = Telemetry::new().content(capture.parse().unwrap_or_default());
/// assert_eq!("SPAN_ONLY".parse(), Ok(CaptureContent::SpanOnly));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "SCREAMING_SNAKE_CASE"))]
#[non_exhaustive]
pub enum CaptureContent {
    /// No content is exported (`NO_CONTENT`).
    #[default]
    NoContent,
    /// Content is exported as attributes of the span (`SPAN_ONLY`).
    SpanOnly,
    /// Content is exported as an event (`EVENT_ONLY`).
    EventOnly,
    /// Content is exported as attributes and as an event (`SPAN_AND_EVENT`).
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

impl FromStr for CaptureContent {
    type Err = OptionError;

    /// Parses the name of a variant, in upper or lower case. White space around it is ignored. An empty text is
    /// `NO_CONTENT`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim().to_ascii_uppercase().as_str() {
            "" | "NO_CONTENT" => Ok(Self::NoContent),
            "SPAN_ONLY" => Ok(Self::SpanOnly),
            "EVENT_ONLY" => Ok(Self::EventOnly),
            "SPAN_AND_EVENT" => Ok(Self::SpanAndEvent),
            _ => Err(OptionError::CaptureContent),
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
    fn conversation_ids_are_not_exported_by_default() {
        assert_eq!(Telemetry::new().name_of(&id()), None);
        assert_eq!(Telemetry::new().raw_conversation_ids().name_of(&id()).as_deref(), Some("acme/user%2042"));
    }

    #[test]
    fn a_hashed_id_is_an_hmac_of_the_text_form() {
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
    fn levels_of_content_are_parsed_from_the_names_of_the_conventions() {
        for (text, level) in [
            ("", CaptureContent::NoContent),
            ("no_content", CaptureContent::NoContent),
            ("SPAN_ONLY", CaptureContent::SpanOnly),
            ("EVENT_ONLY", CaptureContent::EventOnly),
            (" span_and_event ", CaptureContent::SpanAndEvent),
        ] {
            assert_eq!(text.parse(), Ok(level));
        }
        assert_eq!("true".parse::<CaptureContent>(), Err(OptionError::CaptureContent));
    }
}
