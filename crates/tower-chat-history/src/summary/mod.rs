//! Summaries of the messages that leave the window.
//!
//! A [`Summarizer`] makes one text from the previous summary and the messages after it. Usually it calls another
//! model through a tower service ([`ServiceSummarizer`], [`json_summarizer`]), which may have its own timeout, limits
//! and retries. In the prompt, the summary replaces the messages, in the form that [`SummaryFormat`] defines. The
//! messages stay in the log.
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
//! let sent = SummaryFormat::new("Summary: ", "").message(&summary.text);
//! assert_eq!(sent.text(), "Summary: The user is Nemo.");
//! # Ok(())
//! # }
//! ```
//!
//! # Rolling and complete
//!
//! A summary is made from the previous one and from each later message, exactly once and in order. If the messages
//! are too many for one call of the summarizer, they are divided into chunks. Each call receives one chunk and the
//! summary of everything before it. If a message is larger than a chunk, a part in its middle is left out. If the model
//! says that a call was too long, the chunk is halved, at most three times for one summary.
//!
//! # Checks
//!
//! Control characters are removed from summaries, except for line ends and tabs. The answer of each call must be
//! complete, must not be empty, and must not exceed the limit of tokens. If an answer is incomplete because of its
//! token limit, a shorter one is requested once. The final summary must have fewer tokens than the text that it
//! replaces: the previous summary and the messages. [`SummaryError`] lists the reasons for refusing a summary.
//! [`SummaryCost`] has the tokens that were spent, also for refused summaries.
//!
//! # Old messages are data
//!
//! A summary contains text from users and tools. It is sent as a message of the user, and so gets no operator's
//! authority. The default [`SummaryPrompt`] delimits the messages, and instructs the model not to follow instructions
//! in them. The default [`SummaryFormat`] does the same for the summary. Both delimiters contain a mark that does not
//! occur in the text between them, so no text can contain its own closing delimiter, in any spelling. A model may
//! follow such instructions nevertheless: do not base permissions on a summary.

mod delimit;
mod format;
mod options;
mod prompt;
mod rolling;
mod service;
#[cfg(test)]
mod tests;
mod transcript;
#[cfg(test)]
mod transcript_tests;

use std::{borrow::Cow, error::Error, fmt, sync::Arc};

use async_trait::async_trait;
use tower_chat_history_core::{Message, Usage};

#[cfg(feature = "config")]
pub(crate) use self::options::SummaryOptions;
pub(crate) use self::rolling::{Rolling, SizedSummary};
pub use self::{
    format::SummaryFormat,
    options::{Summaries, SummarizeWhen},
    prompt::SummaryPrompt,
    service::{ServiceSummarizer, json_summarizer},
};
use crate::error::{BoxError, error_type};
pub use crate::report::{SummaryCost, SummaryError, SummaryOutcome, SummaryReport};

/// Makes summaries, usually by calling a model (see [`ServiceSummarizer`]). Any other way to make a text is possible
/// too.
///
/// It may be called several times for one summary, and for many conversations concurrently. The caller limits the
/// time of a call by dropping its future.
#[async_trait]
pub trait Summarizer: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the summarizer's model, for spans. The default is `None`.
    fn model(&self) -> Option<&str> {
        None
    }

    /// Returns the provider of that model, by its OpenTelemetry name (`gen_ai.provider.name`). The default is
    /// `None`.
    fn provider(&self) -> Option<&'static str> {
        None
    }

    /// Returns the name of an error of [`summarize`](Self::summarize), for spans (`error.type`): a constant name, or
    /// a status code. It must not contain text from a provider. The default is
    /// [`error::error_type`](crate::error::error_type).
    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        error_type(error)
    }

    /// Returns `true` if an error of [`summarize`](Self::summarize) says that the request was too long for the model. It's
    /// then made again with half of the messages, and the summary of these is the beginning of the next call. The
    /// default is `false`.
    fn is_too_long(&self, error: &(dyn Error + 'static)) -> bool {
        let _ = error;
        false
    }

    /// Makes one summary from the previous summary and the messages of the request.
    ///
    /// # Errors
    ///
    /// Returns any error. No summary is then made, and the window is trimmed without it. A summarizer need not check
    /// the length of its answer: the caller checks it.
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError>;
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

    fn is_too_long(&self, error: &(dyn Error + 'static)) -> bool {
        (**self).is_too_long(error)
    }

    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        (**self).summarize(request).await
    }
}

/// The input of a summarizer. Its `Debug` output shows sizes, not text.
#[derive(Clone)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// The summary of everything before these messages, if there is one. The new summary must preserve its content.
    pub previous: Option<String>,
    /// The messages in the order of the log, in the [dialect](crate::dialect) of the conversation. They do not always
    /// form a prompt that a provider accepts: a chunk can end between a tool call and its result, and the texts and
    /// tool arguments of large messages are shortened. In other dialects than chat completions, a large message becomes
    /// a message with one text, in which calls and results stand in brackets.
    pub messages: Vec<Message>,
    /// The largest allowed size of the summary, in tokens.
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
pub struct SummaryResponse {
    /// The summary.
    pub text: String,
    /// True if the text is complete. False if the answer reached its token limit: the caller then requests a shorter
    /// summary once. The default is `true`.
    pub finished: bool,
    /// The model that wrote it. The default is `None`.
    pub model: Option<String>,
    /// The usage that the provider reported. The default is `None`: the caller then counts the tokens.
    pub usage: Option<Usage>,
}

impl SummaryResponse {
    /// Returns a finished summary.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), finished: true, model: None, usage: None }
    }
}

impl fmt::Debug for SummaryResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummaryResponse")
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
        assert!(!format!("{:?}", SummaryResponse::new("secret")).contains("secret"));
    }
}
