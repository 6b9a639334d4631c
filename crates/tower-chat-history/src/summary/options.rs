//! Options of summaries.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use super::{Summarizer, SummaryError, SummaryReport};

type Hook = Arc<dyn Fn(&SummaryReport) + Send + Sync>;

/// Enables summaries of the messages that leave the window. Pass it to
/// [`HistoryOptions::summaries`](crate::HistoryOptions::summaries).
#[derive(Clone)]
pub struct Summaries {
    pub(crate) summarizer: Arc<dyn Summarizer>,
    pub(crate) when: SummarizeWhen,
    pub(crate) max_tokens: u32,
    pub(crate) least_room: u32,
    pub(crate) chunk_tokens: u32,
    pub(crate) timeout: Duration,
    pub(crate) on_summary: Option<Hook>,
}

/// The time at which a summary is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SummarizeWhen {
    /// After a reply, if the size of prompt and reply is close to the size at which a compaction
    /// [starts](crate::budget::Watermarks). No caller waits for it, except for a call that reaches that size
    /// before a summary has been made: it waits for the summary, or makes one.
    AfterReply {
        /// The threshold, as a percentage of the high watermark. A summary is also made if another turn of the
        /// same size would reach the watermark. Values above 100 count as 100, and 0 counts as 1.
        percent: u8,
    },
    /// Before a call that needs a compaction of the window. The call waits.
    BeforeCall,
    /// Before every call that opens a turn. The summary covers everything stored and replaces it in the prompt.
    /// The call waits, and each turn costs a second model call. If the turn is not stored, neither is its
    /// summary. Providers cannot cache such prompts.
    BeforeEveryCall,
}

impl Summaries {
    /// Returns the default options, with this summarizer.
    pub fn new(summarizer: impl Summarizer) -> Self {
        Self {
            summarizer: Arc::new(summarizer),
            when: SummarizeWhen::AfterReply { percent: 95 },
            max_tokens: 400,
            least_room: 100,
            chunk_tokens: 8_000,
            timeout: Duration::from_secs(60),
            on_summary: None,
        }
    }

    /// Sets when summaries are made. The default is after a reply, at 95% of the high watermark.
    #[must_use]
    pub const fn when(mut self, when: SummarizeWhen) -> Self {
        self.when = when;
        self
    }

    /// Sets the maximum size of a summary, in tokens. 0 counts as 1. Every prompt reserves this many tokens,
    /// and those of the text around the summary. The default is 400.
    #[must_use]
    pub const fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = if tokens == 0 { 1 } else { tokens };
        self
    }

    /// Sets the minimum room for a summary, in tokens, next to the parts of the prompt that must be sent. If
    /// less room is left, no summary is made. The default is 100.
    #[must_use]
    pub const fn least_room(mut self, tokens: u32) -> Self {
        self.least_room = tokens;
        self
    }

    /// Sets the maximum input of one call of the summarizer, in tokens, including the previous summary. Larger
    /// inputs take several calls. Values below four times [`max_tokens`](Self::max_tokens) count as that. The
    /// prompt's instructions, about 350 tokens, and the answer are not included. The default is 8,000.
    #[must_use]
    pub const fn chunk_tokens(mut self, tokens: u32) -> Self {
        self.chunk_tokens = tokens;
        self
    }

    /// Sets the timeout of one summary, including all its model calls. A call that waits for a summary proceeds
    /// without it after the timeout. With a timeout of zero, no summary is made. The default is 60 seconds.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets a function that is called with the report of every attempted summary. A turn's own report contains
    /// only the summaries that the turn waited for. The function runs where the summary ends and must not
    /// block. The default is none.
    #[must_use]
    pub fn on_summary(mut self, hook: impl Fn(&SummaryReport) + Send + Sync + 'static) -> Self {
        self.on_summary = Some(Arc::new(hook));
        self
    }

    pub(crate) const fn chunk(&self) -> u32 {
        let least = self.max_tokens.saturating_mul(4);
        if self.chunk_tokens < least { least } else { self.chunk_tokens }
    }

    /// Returns the text of a failure for a log event. A summarizer's own error may quote its input, so only the
    /// [name](Summarizer::error_type) of that error is used.
    pub(crate) fn cause(&self, error: &SummaryError) -> String {
        let SummaryError::Failed(source) = error else { return error.to_string() };
        let name = catch_unwind(AssertUnwindSafe(|| self.summarizer.error_type(&**source)));
        format!("{error}: {}", name.as_deref().unwrap_or("_OTHER"))
    }

    pub(crate) fn report(&self, report: &SummaryReport) {
        if let Some(hook) = &self.on_summary
            && catch_unwind(AssertUnwindSafe(|| hook(report))).is_err()
        {
            tracing::error!("the on_summary hook panicked");
        }
    }
}

impl fmt::Debug for Summaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summaries")
            .field("summarizer", &self.summarizer)
            .field("when", &self.when)
            .field("max_tokens", &self.max_tokens)
            .field("least_room", &self.least_room)
            .field("chunk_tokens", &self.chunk_tokens)
            .field("timeout", &self.timeout)
            .field("on_summary", &self.on_summary.is_some())
            .finish()
    }
}
