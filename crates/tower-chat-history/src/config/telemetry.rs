//! The options of telemetry, as data.

use serde::Deserialize;
use tower_chat_history_core::config::{ConfigError, Secret};

use crate::telemetry::Telemetry;

/// The settings of [`Telemetry`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TelemetryConfig {
    /// [`Telemetry::spans`].
    pub spans: Option<bool>,
    /// [`Telemetry::chat_span`].
    pub chat_span: Option<bool>,
    /// The form in which ids of conversations are exported. The default is not at all.
    pub conversation_ids: Option<ConversationIdsConfig>,
    /// [`Telemetry::content`], by its name in OpenTelemetry's conventions, such as `NO_CONTENT`.
    pub content: Option<String>,
}

/// The form in which ids of conversations are exported.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConversationIdsConfig {
    /// Not at all.
    Off,
    /// [`Telemetry::raw_conversation_ids`].
    Raw,
    /// [`Telemetry::hashed_conversation_ids`], with this key.
    HashedWithKey(Secret),
}

impl TelemetryConfig {
    /// Builds the options.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is empty, or if `content` is not one of the names.
    pub fn build(&self) -> Result<Telemetry, ConfigError> {
        let mut telemetry = Telemetry::new();
        if let Some(spans) = self.spans {
            telemetry = telemetry.spans(spans);
        }
        if let Some(chat_span) = self.chat_span {
            telemetry = telemetry.chat_span(chat_span);
        }
        telemetry = match &self.conversation_ids {
            None | Some(ConversationIdsConfig::Off) => telemetry,
            Some(ConversationIdsConfig::Raw) => telemetry.raw_conversation_ids(),
            Some(ConversationIdsConfig::HashedWithKey(key)) => {
                let path = "conversation_ids.hashed_with_key";
                ConfigError::unless(!key.expose().is_empty(), path, "it must not be empty")?;
                telemetry.hashed_conversation_ids(key.expose())
            }
        };
        let Some(content) = &self.content else { return Ok(telemetry) };
        let content = content.parse();
        let content = content
            .map_err(|error: crate::telemetry::CaptureContentError| ConfigError::new("content", error.to_string()))?;
        Ok(telemetry.content(content))
    }
}
