//! When summaries are made, and how large they are.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use super::{Summarizer, SummaryError, SummaryReport};

type Hook = Arc<dyn Fn(&SummaryReport) + Send + Sync>;

/// Has what leaves the window summarized. Given to [`HistoryOptions::summaries`](crate::HistoryOptions::summaries).
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

/// When a summary is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SummarizeWhen {
    /// After a reply, when prompt and reply together come near to where a compaction [starts](crate::budget::Watermarks): nobody
    /// waits for it. Only a call that gets there before a summary is made waits, or has one made.
    AfterReply {
        /// How near: that share of the mark, in percent; or so near that another turn of the same size would get there. More than 100 counts as 100, and 0 as 1.
        percent: u8,
    },
    /// Before a call, when the window has to be compacted for it: the call waits.
    BeforeCall,
    /// Before every call that opens a turn: a summary of everything stored stands in place of it. The call waits, and each
    /// turn pays for a second call of a model; if the turn is not stored, its summary is not either. No provider can cache
    /// such prompts.
    BeforeEveryCall,
}

impl Summaries {
    /// Summaries by that summarizer, with the defaults.
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

    /// When they are made. The default is after a reply, at 95% of where a compaction starts.
    #[must_use]
    pub const fn when(mut self, when: SummarizeWhen) -> Self {
        self.when = when;
        self
    }

    /// How large a summary may be, in tokens; 0 counts as 1. So much room is kept for it in every prompt, and that of what stands around it.
    /// The default is 400.
    #[must_use]
    pub const fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = if tokens == 0 { 1 } else { tokens };
        self
    }

    /// Makes no summary where less room than that would be left for it beside what has to be sent, in tokens. The default is
    /// 100.
    #[must_use]
    pub const fn least_room(mut self, tokens: u32) -> Self {
        self.least_room = tokens;
        self
    }

    /// How much one call of the summarizer is given at most, in tokens, with the summary so far: what is to be summarized comes
    /// in as many calls as that takes. Less than four times the summary's size counts as that. What the prompt says around
    /// it, some 350 tokens, and the answer come on top. The default is 8,000.
    #[must_use]
    pub const fn chunk_tokens(mut self, tokens: u32) -> Self {
        self.chunk_tokens = tokens;
        self
    }

    /// How long one summary may take, with all its calls; none is made in no time. A call that waits for one goes on without it
    /// then. The default is 60 seconds.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Is called with the report of every summary that was tried: a turn's own report has only those that the turn waited
    /// for. It runs where the summary ends and must not block. The default is none.
    #[must_use]
    pub fn on_summary(mut self, hook: impl Fn(&SummaryReport) + Send + Sync + 'static) -> Self {
        self.on_summary = Some(Arc::new(hook));
        self
    }

    pub(crate) const fn chunk(&self) -> u32 {
        let least = self.max_tokens.saturating_mul(4);
        if self.chunk_tokens < least { least } else { self.chunk_tokens }
    }

    /// Returns what a log event says of a failure. A summarizer's own error may quote what it was given: it is told by
    /// the name that the summarizer [has for it](Summarizer::error_type).
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
