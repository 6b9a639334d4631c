//! Options of summaries.

use std::{fmt, sync::Arc, time::Duration};

#[cfg(feature = "config")]
use tower_chat_history_core::config::field;

use super::{Summarizer, SummaryError, SummaryReport};

type Hook = Arc<dyn Fn(&SummaryReport) + Send + Sync>;

/// The options of summaries. Pass them to [`HistoryOptions::summaries`](crate::HistoryOptions::summaries) to enable
/// summaries of the messages that leave the window.
#[derive(Clone)]
pub struct Summaries {
    pub(crate) summarizer: Arc<dyn Summarizer>,
    pub(crate) options: SummaryOptions,
    pub(crate) on_summary: Option<Hook>,
}

/// The options that are data.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub(crate) struct SummaryOptions {
    pub(crate) when: SummarizeWhen,
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::positive"))]
    pub(crate) max_tokens: u32,
    #[cfg_attr(feature = "config", serde(rename = "least_room_tokens"))]
    pub(crate) least_room: u32,
    pub(crate) chunk_tokens: u32,
    #[cfg_attr(feature = "config", serde(rename = "timeout_ms", deserialize_with = "field::timeout"))]
    pub(crate) timeout: Duration,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self {
            when: SummarizeWhen::AfterReply { percent: 95 },
            max_tokens: 400,
            least_room: 100,
            chunk_tokens: 8_000,
            timeout: Duration::from_secs(60),
        }
    }
}

/// The time at which summaries are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum SummarizeWhen {
    /// After a reply, in the background, if prompt and reply are close to the high
    /// [watermark](crate::budget::Watermarks), above which a compaction starts. A call waits for a summary only if
    /// its prompt exceeds the watermark before the summary is stored: it waits for the running summary, or makes one.
    #[cfg_attr(
        feature = "config",
        serde(rename = "after_reply_at_percent", deserialize_with = "field::number::<_, _, 1, 100>")
    )]
    AfterReply {
        /// The threshold, as a percentage of the high watermark, if the watermark is in tokens. A summary is also
        /// made if another turn of the same size would exceed the watermark. For watermarks in messages or turns,
        /// only this second rule applies. Values above 100 mean 100, and 0 means 1.
        percent: u8,
    },
    /// Before a call whose prompt needs a compaction of the window. The call waits for the summary.
    BeforeCall,
    /// Before every call that opens a turn. The summary covers all stored exchanges, and the prompt contains it
    /// instead of them. The call waits for the summary, and each turn costs a second model call. If the exchange is
    /// not stored, neither is the summary. Prefix caches cannot serve such prompts.
    BeforeEveryCall,
}

impl Summaries {
    /// Returns the default options, with this summarizer.
    pub fn new(summarizer: impl Summarizer) -> Self {
        Self { summarizer: Arc::new(summarizer), options: SummaryOptions::default(), on_summary: None }
    }

    /// Sets when summaries are made. The default is after a reply, at 95% of the high watermark.
    #[must_use]
    pub const fn when(mut self, when: SummarizeWhen) -> Self {
        self.options.when = when;
        self
    }

    /// Sets the largest allowed size of a summary, in tokens. 0 means 1. If there is a budget, every prompt reserves
    /// this many tokens, and those of the text around the summary. The default is 400.
    #[must_use]
    pub const fn max_tokens(mut self, tokens: u32) -> Self {
        self.options.max_tokens = if tokens == 0 { 1 } else { tokens };
        self
    }

    /// Sets the minimum number of tokens that the required parts of a prompt must leave for a summary. If they leave
    /// fewer, the call does not wait for a summary, and the window is trimmed without one. The setting does not apply
    /// to summaries after a reply. The default is 100.
    #[must_use]
    pub const fn least_room(mut self, tokens: u32) -> Self {
        self.options.least_room = tokens;
        self
    }

    /// Sets the largest input of one call of the summarizer, in tokens. The previous summary is included; the
    /// instructions of the prompt (about 350 tokens) and the answer are not. Larger inputs take several calls. The
    /// smallest value is four times [`max_tokens`](Self::max_tokens): smaller ones are raised to it. The default is
    /// 8,000.
    #[must_use]
    pub const fn chunk_tokens(mut self, tokens: u32) -> Self {
        self.options.chunk_tokens = tokens;
        self
    }

    /// Sets the timeout of one summary, including all calls of the summarizer. After the timeout, a call that waits
    /// for the summary continues without it. With a timeout of zero, no summary is made. The default is 60 seconds.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Sets a hook that receives the report of every attempt to make a summary. (A turn's report contains only the
    /// summary that the turn waited for.) The hook runs on the thread that ends the summary, and must not block. The
    /// default is none.
    #[must_use]
    pub fn on_summary(mut self, hook: impl Fn(&SummaryReport) + Send + Sync + 'static) -> Self {
        self.on_summary = Some(Arc::new(hook));
        self
    }

    pub(crate) const fn chunk(&self) -> u32 {
        let SummaryOptions { max_tokens, chunk_tokens, .. } = self.options;
        let least = max_tokens.saturating_mul(4);
        if chunk_tokens < least { least } else { chunk_tokens }
    }

    /// Returns the text of an error for a log event. Of an error that the summarizer itself returned, only the
    /// [name](Summarizer::error_type) is included, because the error may quote its input.
    pub(crate) fn cause(&self, error: &SummaryError) -> String {
        let SummaryError::Failed(source) = error else { return error.to_string() };
        format!("{error}: {}", self.summarizer.error_type(&**source))
    }

    pub(crate) fn report(&self, report: &SummaryReport) {
        if let Some(hook) = &self.on_summary {
            hook(report);
        }
    }
}

impl fmt::Debug for Summaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summaries")
            .field("summarizer", &self.summarizer)
            .field("options", &self.options)
            .field("on_summary", &self.on_summary.is_some())
            .finish()
    }
}
