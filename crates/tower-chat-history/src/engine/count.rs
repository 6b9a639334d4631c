//! Counting tokens, and the budget by their counts. Each message is counted once, and large messages are counted on a
//! blocking thread.

use std::{fmt, sync::Arc, time::Instant};

use tokio::task::spawn_blocking;
use tower_chat_history_core::{Message, TokenCounts};
use tracing::Span;

use crate::{
    context::{
        RequestInfo,
        budget::PromptTokens,
        plan::{CallBudget, FitBudget},
        tokens::{ByteEstimate, CountCache, Estimate, RequestTokens, TokenCounter},
    },
    options::HistoryOptions,
    telemetry,
};

/// The number of bytes to count from which the count runs on a thread for blocking work. A tokenizer takes up to one
/// second per megabyte for adversarial text. Counting fewer bytes therefore takes at most about 60 milliseconds, and
/// usually about 2.
const BLOCKING_THRESHOLD_BYTES: usize = 1 << 16;

/// The number of bytes that each text counts in addition to its own: a tokenizer takes some time for the shortest text,
/// and a window can have a thousand of them.
const BYTES_PER_TEXT: usize = 64;

/// The texts to count.
#[derive(Clone, Copy, Default)]
struct Work {
    texts: usize,
    bytes: usize,
}

impl Work {
    /// Sums up texts of these sizes in bytes.
    fn of(sizes: impl Iterator<Item = usize>) -> Self {
        sizes.fold(Self::default(), |Self { texts, bytes }, size| Self { texts: texts + 1, bytes: bytes + size })
    }

    /// Returns `true` if the work belongs on a thread for blocking work.
    const fn takes_long(self) -> bool {
        self.bytes + self.texts * BYTES_PER_TEXT >= BLOCKING_THRESHOLD_BYTES
    }
}

/// One call's counter and its cache of counts.
///
/// If the counter has no name, its counts are cached for this call only. This cache is needed because a blocking
/// thread may count the messages before the planner reads the counts.
#[derive(Clone)]
pub(super) struct Counting {
    counter: Arc<dyn TokenCounter>,
    cache: Arc<CountCache>,
}

/// The number of counts in the cache of a call that does not share the engine's cache.
const CALL_CACHE_SIZE: usize = 1 << 12;

impl Counting {
    pub(super) fn new(shared: &Arc<CountCache>, counter: Arc<dyn TokenCounter>) -> Self {
        let cache = match counter.name() {
            Some(_) => Arc::clone(shared),
            None => Arc::new(CountCache::new(CALL_CACHE_SIZE)),
        };
        Self { counter, cache }
    }

    /// Returns the name of the counter, if it has one.
    pub(super) fn counter_name(&self) -> Option<&Arc<str>> {
        self.counter.name()
    }

    /// Returns the tokens of a message.
    pub(super) fn message(&self, message: &Message) -> u64 {
        u64::from(self.count_message(message))
    }

    /// Returns the sizes, in tokens, of all parts of the prompt except the window and the summary. Also counts the
    /// messages in `window`, so that the planner finds their counts. If anything has to be counted, the current span
    /// gets the time.
    pub(super) async fn prompt<'a>(
        &self,
        request: &RequestInfo,
        window: impl Iterator<Item = &'a Message>,
        input: &[Message],
    ) -> PromptTokens {
        let began = Instant::now();
        let mut uncounted_window = Vec::new();
        // An inner loop over the exchanges of a window is faster than one `next` for each of its messages.
        window.filter(|message| self.is_uncounted(message)).for_each(|message| uncounted_window.push(message.clone()));

        let others = request.head.iter().chain(input).filter(|message| self.is_uncounted(message));
        let schemas = [&request.tools, &request.response_format].into_iter().flatten();
        let schemas = schemas.filter(|text| !self.cache.knows_text(&*self.counter, text)).map(String::len);
        let work = Work::of(uncounted_window.iter().chain(others).map(Message::bytes).chain(schemas));

        let mut counted = None;
        if work.takes_long() || !self.counter.is_ready() {
            let counting = self.clone();
            let request = request.clone();
            let uncounted = uncounted_window.clone();
            let input = input.to_vec();
            counted = spawn_blocking(move || counting.parts(&request, &uncounted, &input)).await.ok();
        }
        let parts = counted.unwrap_or_else(|| self.parts(request, &uncounted_window, input));
        if work.texts > 0 {
            telemetry::counted(&Span::current(), work.texts, began.elapsed());
        }
        parts
    }

    fn is_uncounted(&self, message: &Message) -> bool {
        self.cache.known(&*self.counter, message).is_none()
    }

    fn parts(&self, request: &RequestInfo, uncounted: &[Message], input: &[Message]) -> PromptTokens {
        // The planner adds these up. It finds their counts in the cache.
        self.sum(uncounted);

        let tools = request.tools.as_deref().into_iter().fold(RequestTokens::new(), RequestTokens::tools);
        PromptTokens {
            head: self.sum(&request.head),
            tools: tools.count(self).into(),
            response_format: request.response_format.as_deref().map_or(0, |text| self.count_text(text).into()),
            input: self.sum(input),
            ..PromptTokens::default()
        }
    }

    /// Returns the tokens of these messages.
    pub(super) fn sum(&self, messages: &[Message]) -> u64 {
        messages.iter().map(|message| self.message(message)).sum()
    }

    /// Returns the counts to store with these messages. Returns `None` if the counter has no name.
    pub(super) async fn exchange(&self, messages: &[Message]) -> Option<TokenCounts> {
        let name = self.counter.name()?;
        let unknown = messages.iter().filter(|message| message.tokens_by(name).is_none());
        let mut counted = None;
        if Work::of(unknown.map(Message::bytes)).takes_long() || !self.counter.is_ready() {
            let counting = self.clone();
            let messages = messages.to_vec();
            counted = spawn_blocking(move || counting.counts(&messages)).await.ok();
        }
        let counts = counted.unwrap_or_else(|| self.counts(messages));
        Some(TokenCounts { counter: Arc::clone(name), counts })
    }

    /// Returns the cached or new counts of messages.
    fn counts(&self, messages: &[Message]) -> Vec<u32> {
        messages.iter().map(|message| self.count_message(message)).collect()
    }
}

/// Returns the cached count of a text or message, or counts it.
#[deny(clippy::missing_trait_methods)]
impl TokenCounter for Counting {
    fn name(&self) -> Option<&Arc<str>> {
        self.counter.name()
    }

    fn count_text(&self, text: &str) -> u32 {
        self.cache.tokens_of_text(&*self.counter, text)
    }

    fn count_message(&self, message: &Message) -> u32 {
        self.cache.tokens_of(&*self.counter, message)
    }

    fn reply_priming(&self) -> u32 {
        self.counter.reply_priming()
    }

    fn tools_priming(&self) -> u32 {
        self.counter.tools_priming()
    }

    fn is_estimate(&self) -> bool {
        self.counter.is_estimate()
    }

    fn is_ready(&self) -> bool {
        self.counter.is_ready()
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").field("counter", &self.counter).finish_non_exhaustive()
    }
}

/// Returns the estimate for a model for which neither the options nor the integration have a counter.
pub(super) fn estimate(model: Option<&str>) -> Arc<dyn TokenCounter> {
    match model.and_then(Estimate::for_model) {
        Some(estimate) => Arc::new(estimate),
        None => Arc::new(ByteEstimate::new()),
    }
}

/// Returns the budget for fitting the window, with the rules of these options.
pub(super) fn fit_budget<'a>(
    call: CallBudget,
    options: &'a HistoryOptions,
    stores: bool,
    cost: &'a dyn Fn(&Message) -> u64,
) -> FitBudget<'a> {
    FitBudget {
        call,
        watermarks: options.context.watermarks,
        clear: options.context.clear_results.as_ref(),
        trimmer: options.context.trimmer.as_deref(),
        stores,
        cost,
    }
}

#[cfg(test)]
#[path = "count_tests.rs"]
mod tests;
