//! Summaries: what leaves the window leaves its facts behind.
//!
//! A [`Summarizer`] makes one text of the summary so far and of the messages that came next: mostly by another model,
//! called through any tower service ([`ServiceSummarizer`], [`json_summarizer`]), with its own timeout, limit and retries. The
//! old messages stay in the log; the summary stands for them in the prompt, as a [`SummaryFormat`] says.
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
//! A summary is made of the one before and of every message since, oldest first, none skipped and none twice. What is too
//! much for one call is given in chunks, each with the outcome of the one before. A message that is larger than a chunk is
//! shortened in its middle.
//!
//! # Accepted only if sound
//!
//! Control characters but line ends and tabs are dropped. After each call the text must be there, be finished, and have
//! no more tokens than it may have; at the end it must have fewer than what it replaces. A text that was cut off by its
//! length is asked for once more, shorter. [`SummaryError`] lists what is not accepted. [`SummaryCost`] says what was
//! spent, also for nothing.
//!
//! # Old messages are data
//!
//! A summary carries text of users and tools to a place where instructions stand. The default [`SummaryPrompt`]
//! delimits the messages and says that nothing in them is to be followed; the default [`SummaryFormat`] says the same
//! of the summary. Both delimiters have a mark that does not stand in the text between them, so no text can close its
//! own delimiter, however it spells it. What a model makes of it is no guarantee: do not let a summary decide what is
//! allowed.

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

/// Makes summaries. Mostly a model does it, see [`ServiceSummarizer`]; any function of a text will do.
///
/// It may be called several times for one summary and for many conversations at once. Its time is limited by whoever calls it:
/// it may be dropped at any await.
#[async_trait]
pub trait Summarizer: fmt::Debug + Send + Sync + 'static {
    /// The model that it asks, for spans. The default is that nobody knows.
    fn model(&self) -> Option<&str> {
        None
    }

    /// Who serves that model, by OpenTelemetry's name (`gen_ai.provider.name`). The default is that nobody knows.
    fn provider(&self) -> Option<&'static str> {
        None
    }

    /// What one of its errors is called in spans (`error.type`): a constant name, or a status code, and no text that came from a
    /// provider. The default is [`telemetry::error_type`](crate::telemetry::error_type).
    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        error_type(error)
    }

    /// Makes one summary of the previous one and these messages.
    ///
    /// # Errors
    ///
    /// Any error; the summary is then not made, and what it was to replace stays in the log. A summary that is not sound need
    /// not be an error: it is found out.
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

/// What is to be summarized. `Debug` shows sizes, not text.
#[derive(Clone)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// The summary of everything before these messages, if there is something before them. What it says has to be kept.
    pub previous: Option<String>,
    /// The messages, oldest first, as the log has them. They need not be a prompt that a provider accepts: a chunk may end
    /// between a tool call and its result, and what was too large is shortened, also the arguments of calls.
    pub messages: Vec<Message>,
    /// How many tokens the summary may have.
    pub max_tokens: u32,
}

impl SummaryRequest {
    /// The summary of `previous` and these messages, in at most `max_tokens` tokens.
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

/// What a summarizer made. `Debug` shows sizes, not text.
#[derive(Clone)]
#[non_exhaustive]
pub struct Summarized {
    /// The summary.
    pub text: String,
    /// Whether it ends where it was meant to; `false` where it was cut off by its length. It is then asked for once more,
    /// shorter. The default is `true`.
    pub finished: bool,
    /// The model that wrote it. The default is none.
    pub model: Option<String>,
    /// What the provider reported. The default is nothing: the tokens are counted.
    pub usage: Option<Usage>,
}

impl Summarized {
    /// A finished summary.
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
