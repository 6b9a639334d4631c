//! The shapes of responses that cannot be read.

use std::fmt;

/// The shape of a response that an adapter cannot read as a chat completion. It contains no text of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResponseShape {
    /// A message or an event of Anthropic's Messages API.
    AnthropicMessage,
    /// A response or an event of Gemini's own API.
    GeminiResponse,
    /// A response or an event of OpenAI's Responses API.
    OpenAiResponse,
    /// A response of Amazon Bedrock's Converse API.
    BedrockConverse,
    /// A response of Ollama's own chat API.
    OllamaChat,
    /// An error, of the whole response or of the choice that would be stored.
    Error,
    /// JSON of an unknown kind, without choices.
    NoChoices,
    /// A choice without a message.
    NoMessage,
    /// A value with more than [128 levels](crate::adapt::nested::MAX_LEVELS) of lists and objects.
    TooDeep,
    /// A body that is not JSON.
    NotJson,
    /// A body whose content type is neither that of JSON nor that of events.
    ContentType,
    /// A body with a content encoding that the HTTP client has not decoded.
    Encoded,
    /// A body that is larger than the adapter reads.
    TooLarge,
    /// A response to a call of which the adapter does not know how its response is read.
    UnknownCall,
}

impl ResponseShape {
    /// Returns a short constant name for logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AnthropicMessage => "Anthropic message",
            Self::GeminiResponse => "Gemini response",
            Self::OpenAiResponse => "OpenAI response",
            Self::BedrockConverse => "Bedrock Converse response",
            Self::OllamaChat => "Ollama chat response",
            Self::Error => "error",
            Self::NoChoices => "JSON without choices",
            Self::NoMessage => "choice without a message",
            Self::TooDeep => "JSON of too many levels",
            Self::NotJson => "not JSON",
            Self::ContentType => "body of another content type",
            Self::Encoded => "encoded body",
            Self::TooLarge => "body over the size limit",
            Self::UnknownCall => "response to an unknown call",
        }
    }
}

impl fmt::Display for ResponseShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
