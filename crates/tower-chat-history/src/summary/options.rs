//! When summaries are made, and how large they are.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use super::{Summarizer, SummaryReport};

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
    /// After a reply, when prompt and reply together are over that share of the prompt's limit, in percent: nobody waits for
    /// it. Only a call that comes over the limit itself before a summary is there waits, or has one made.
    AfterReply {
        /// Of the context window less the reply's reserve. More than 100 counts as 100.
        percent: u8,
    },
    /// Before a call, when the window has to be compacted for it: the call waits.
    BeforeCall,
    /// Before every call that opens a turn: a summary of everything stored stands in place of it. The call waits, and each
    /// turn pays for a second call of a model. No provider can cache such prompts.
    BeforeEveryCall,
}

impl Summaries {
    /// Summaries by that summarizer, with the defaults.
    pub fn new(summarizer: impl Summarizer) -> Self {
        Self {
            summarizer: Arc::new(summarizer),
            when: SummarizeWhen::AfterReply { percent: 90 },
            max_tokens: 400,
            least_room: 100,
            chunk_tokens: 8_000,
            timeout: Duration::from_secs(60),
            on_summary: None,
        }
    }

    /// When they are made. The default is after a reply, over 90% of the limit.
    #[must_use]
    pub const fn when(mut self, when: SummarizeWhen) -> Self {
        self.when = when;
        self
    }

    /// How large a summary may be, in tokens. So much room is kept for it in every prompt. The default is 400.
    #[must_use]
    pub const fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Makes no summary where less room than that would be left for it beside what has to be sent, in tokens. The default is
    /// 100.
    #[must_use]
    pub const fn least_room(mut self, tokens: u32) -> Self {
        self.least_room = tokens;
        self
    }

    /// How much one call of the summarizer is given at most, in tokens, beside the summary so far: what is to be summarized
    /// comes in as many calls as that takes. The default is 8,000.
    #[must_use]
    pub const fn chunk_tokens(mut self, tokens: u32) -> Self {
        self.chunk_tokens = tokens;
        self
    }

    /// How long one summary may take, with all its calls. A call that waits for one goes on without it then. The default is
    /// 60 seconds.
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

    pub(crate) fn tell(&self, report: &SummaryReport) {
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
