//! Summaries of the messages that leave the window.
//!
//! A [`Summarizer`] makes one text of the previous summary and the messages after it. Usually another model
//! does this, called through any tower service ([`ServiceSummarizer`], [`json_summarizer`]) with its own
//! timeout, limit and retries. The old messages stay in the log. In the prompt, the summary replaces them, in
//! the form that a [`SummaryFormat`] sets.
//!
//! ```
//! use serde_json::{Value, json};
//! use tower_chat_history::{BoxError, Message};
//! use tower_chat_history::summary::{Summarizer, SummaryFormat, SummaryRequest, json_summarizer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # let small_llm = tower::service_fn(|request: Value| async move {
//! #     assert_eq!((&request["model"], &request["max_completion_tokens"]), (&json!("small"), &json!(300)));
//! #     Ok::<_, std::io::Error>(json!({"choices": [{
//! #         "message": {"role": "assistant", "content": "The user is Nemo."},
//! #         "finish_reason": "stop",
//! #     }]}))
//! # });
//! let summarizer = json_summarizer(small_llm, "small");
//!
//! let old = vec![Message::user("I am Nemo."), Message::assistant("Hello, Nemo.")];
//! let summary = summarizer.summarize(SummaryRequest::new(None, old, 300)).await?;
//! assert_eq!(summary.text, "The user is Nemo.");
//! assert!(summary.finished);
//!
//! let sent = SummaryFormat::beluga().message(&summary.text);
//! assert_eq!(sent.text(), "Previous conversation summary: The user is Nemo.");
//! # Ok(())
//! # }
//! ```
//!
//! # Rolling and complete
//!
//! A summary is made of the previous one and of every message since then: oldest first, none skipped and none
//! repeated. Messages that are too many for one call are passed in chunks, each with the summary of the chunks
//! before it. A message that is larger than a chunk is shortened in its middle.
//!
//! # Checks
//!
//! Control characters are removed, except for line ends and tabs. After each call, the summary must not be
//! empty, must be finished, and must not exceed its limit of tokens. At the end, it must have fewer tokens than
//! the messages that it replaces. If the limit on the answer cut a summary off, a shorter one is requested
//! once. [`SummaryError`] lists the reasons for which a summary is refused. [`SummaryCost`] counts the tokens
//! spent, also for refused summaries.
//!
//! # Old messages are data
//!
//! A summary carries text of users and tools to a place where models expect instructions. The default
//! [`SummaryPrompt`] therefore delimits the messages and says that instructions in them must not be followed.
//! The default [`SummaryFormat`] says the same of the summary. Both delimiters contain a mark that does not
//! occur in the text between them, so no text can close its own delimiter, in any spelling. This is no
//! guarantee of how a model reads the text: do not base permissions on a summary.

mod delimit;
mod format;
mod mark;
mod options;
mod prompt;
mod rolling;
mod service;
mod shorten;
#[cfg(test)]
mod tests;
mod transcript;

use std::{borrow::Cow, error::Error, fmt, sync::Arc};

use async_trait::async_trait;
use tower_chat_history_core::{Message, Usage};

pub(crate) use self::rolling::{Rolled, Rolling};
pub use self::{
    format::SummaryFormat,
    options::{Summaries, SummarizeWhen},
    prompt::SummaryPrompt,
    service::{ServiceSummarizer, json_summarizer},
};
use crate::error::{BoxError, error_type};
pub use crate::report::{SummaryCost, SummaryError, SummaryOutcome, SummaryReport};

/// Makes summaries. Usually a model does it, see [`ServiceSummarizer`]. Any function that returns a text can do
/// it.
///
/// It may be called several times for one summary, and for many conversations at once. The caller limits its
/// time and may drop its future at any await.
#[async_trait]
pub trait Summarizer: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of its model, for spans. The default is `None`.
    fn model(&self) -> Option<&str> {
        None
    }

    /// Returns the provider of that model, by its OpenTelemetry name (`gen_ai.provider.name`). The default is
    /// `None`.
    fn provider(&self) -> Option<&'static str> {
        None
    }

    /// Returns the name of one of its errors for spans (`error.type`): a constant name, or a status code. It
    /// must not contain text from a provider. The default is
    /// [`error::error_type`](crate::error::error_type).
    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        error_type(error)
    }

    /// Makes one summary of the previous one and these messages.
    ///
    /// # Errors
    ///
    /// Any error. No summary is then made, and the messages that it was to replace stay in the log. A
    /// summarizer need not check its own summaries: the caller checks them.
    async fn summarize(&self, request: SummaryRequest) -> Result<Summarized, BoxError>;
}

#[async_trait]
impl<S: Summarizer + ?Sized> Summarizer for Arc<S> {
    fn model(&self) -> Option<&str> {
        (**self).model()
    }

    fn provider(&self) -> Option<&'static str> {
        (**self).provider()
    }

    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        (**self).error_type(error)
    }

    async fn summarize(&self, request: SummaryRequest) -> Result<Summarized, BoxError> {
        (**self).summarize(request).await
    }
}

/// The input of a summarizer. Its `Debug` output shows sizes, not text.
#[derive(Clone)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// The summary of everything before these messages, if there is anything before them. Its content must be
    /// kept.
    pub previous: Option<String>,
    /// The messages, oldest first, as they are in the log. They need not form a prompt that a provider accepts:
    /// a chunk can end between a tool call and its result, and large messages are shortened, including the
    /// arguments of tool calls.
    pub messages: Vec<Message>,
    /// The largest number of tokens that the summary may have.
    pub max_tokens: u32,
}

impl SummaryRequest {
    /// Returns a request for a summary of `previous` and these messages, in at most `max_tokens` tokens.
    #[must_use]
    pub const fn new(previous: Option<String>, messages: Vec<Message>, max_tokens: u32) -> Self {
        Self { previous, messages, max_tokens }
    }
}

impl fmt::Debug for SummaryRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummaryRequest")
            .field("previous_bytes", &self.previous.as_ref().map(String::len))
            .field("messages", &self.messages.len())
            .field("max_tokens", &self.max_tokens)
            .finish()
    }
}

/// The output of a summarizer. Its `Debug` output shows sizes, not text.
#[derive(Clone)]
#[non_exhaustive]
pub struct Summarized {
    /// The summary.
    pub text: String,
    /// True if the text is complete. If it is false, the limit on the answer cut the text off, and a shorter
    /// one is requested once. The default is `true`.
    pub finished: bool,
    /// The model that wrote it. The default is `None`.
    pub model: Option<String>,
    /// The usage that the provider reported. The default is `None`: the tokens are then counted.
    pub usage: Option<Usage>,
}

impl Summarized {
    /// Returns a finished summary.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), finished: true, model: None, usage: None }
    }
}

impl fmt::Debug for Summarized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summarized")
            .field("bytes", &self.text.len())
            .field("finished", &self.finished)
            .field("model", &self.model)
            .field("usage", &self.usage)
            .finish()
    }
}

#[cfg(test)]
mod debug_tests {
    use super::*;

    #[test]
    fn debug_shows_no_text() {
        let request = SummaryRequest::new(Some("secret".to_owned()), vec![Message::user("secret")], 9);
        assert_eq!(format!("{request:?}"), "SummaryRequest { previous_bytes: Some(6), messages: 1, max_tokens: 9 }");
        assert!(!format!("{:?}", Summarized::new("secret")).contains("secret"));
    }
}
