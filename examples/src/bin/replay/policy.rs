//! The policy that the command line describes, and the cost of its summaries.

use std::sync::{Arc, Mutex, PoisonError};

use examples::Extract;
use serde::Serialize;
use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryOptions, MemoryStore, Message, Summaries,
    budget::{ClearResults, Watermark, Watermarks},
    recall::{LogRecall, RecallOptions},
    summary::SummaryReport,
    tokens::{TokenCounter, count_messages},
};

use super::args::Args;

/// The name of the policy that every run is compared with.
pub(crate) const SLIDING: &str = "sliding window";

/// The rules that make the prompts of a run fit, and the token counter that measures the prompts.
#[derive(Clone)]
pub(crate) struct Policy {
    /// A name for people.
    pub(crate) name: String,
    window: Window,
    reserve: u32,
    shrink_reply_to: Option<u32>,
    watermarks: Watermarks,
    clear_results: Option<ClearResults>,
    /// The maximum size of a summary, in tokens.
    pub(crate) summarize: Option<u32>,
    /// True if earlier messages are shown again.
    recall: bool,
    /// True if a call does not wait for the previous summary.
    pub(crate) back_to_back: bool,
    pub(crate) counter: Arc<dyn TokenCounter>,
    pub(crate) provider_cache: bool,
}

/// The context window, in tokens.
#[derive(Clone, Copy)]
enum Window {
    Fixed(u32),
    /// In addition to the conversation's own head.
    HeadPlus(u32),
}

impl Policy {
    pub(crate) fn of(args: &Args) -> Self {
        let window = match (args.context, args.head_plus) {
            (Some(tokens), _) => Window::Fixed(tokens),
            (None, tokens) => Window::HeadPlus(tokens.unwrap_or_default()),
        };
        Self {
            name: name(args),
            window,
            reserve: args.reserve,
            shrink_reply_to: args.shrink_reply_to,
            watermarks: watermarks(args),
            clear_results: args.clear_results.map(|results| ClearResults::new().keep(results)),
            summarize: args.summarize,
            recall: args.recall,
            back_to_back: args.back_to_back,
            counter: args.counter.make(),
            provider_cache: args.provider_cache,
        }
    }

    /// Returns the policy of a sliding window under the same limit, without summaries and recall.
    pub(crate) fn sliding(&self) -> Self {
        Self {
            name: SLIDING.to_owned(),
            watermarks: sliding(),
            clear_results: None,
            summarize: None,
            recall: false,
            ..self.clone()
        }
    }

    /// Returns the options for a conversation with this head in this store. The cost of summaries is added to the
    /// ledger.
    pub(crate) fn options(&self, head: &[Message], store: &MemoryStore, ledger: &Ledger) -> HistoryOptions {
        let window = match self.window {
            Window::Fixed(tokens) => tokens,
            Window::HeadPlus(tokens) => {
                tokens.saturating_add(u32::try_from(count_messages(&self.counter, head)).unwrap_or(u32::MAX))
            }
        };

        let mut budget = ContextBudget::tokens(window).reply_reserve(self.reserve);
        if let Some(tokens) = self.shrink_reply_to {
            budget = budget.shrink_reply_to(tokens);
        }

        let mut context =
            ContextOptions::new().budget(budget).watermarks(self.watermarks).token_counter(Arc::clone(&self.counter));
        if let Some(clear) = &self.clear_results {
            context = context.clear_results(clear.clone());
        }

        let mut options = HistoryOptions::new().context(context);
        if self.recall {
            options = options.recall(RecallOptions::new(LogRecall::new(store.clone())));
        }

        let Some(tokens) = self.summarize else { return options };
        let summaries = Summaries::new(Extract::new(Arc::clone(&self.counter))).max_tokens(tokens);
        let ledger = ledger.clone();
        options.summaries(summaries.on_summary(move |report| ledger.add(report)))
    }
}

fn name(args: &Args) -> String {
    let window = match (args.last_messages, args.last_turns, args.keep_recent) {
        _ if args.sliding => SLIDING.to_owned(),
        (Some(messages), ..) => format!("last {messages} messages"),
        (_, Some(turns), _) => format!("last {turns} turns"),
        (.., Some(messages)) => format!("{messages} recent messages"),
        _ => format!("watermarks {}", args.watermarks.as_ref().map_or("100/75", |percentages| &percentages.text)),
    };
    let clear = if args.clear_results.is_some() { ", old tool results cleared" } else { "" };
    let summarize = if args.summarize.is_some() { ", with summaries" } else { "" };
    let recall = if args.recall { ", with recall" } else { "" };
    format!("{window}{clear}{summarize}{recall}")
}

fn watermarks(args: &Args) -> Watermarks {
    let chosen = [
        args.watermarks.as_ref().map(|percentages| percentages.watermarks),
        args.last_messages.map(Watermarks::last_messages),
        args.last_turns.map(Watermarks::last_turns),
        args.keep_recent.map(Watermarks::keep_recent),
        args.sliding.then(sliding),
    ];
    chosen.into_iter().flatten().next().unwrap_or_default()
}

/// Returns the watermarks of a sliding window: every call that exceeds the limit compacts the window, down to the
/// limit.
fn sliding() -> Watermarks {
    Watermarks::new(Watermark::Percent(100), Watermark::Percent(100)).unwrap_or_default()
}

/// The price of an output token of the summarizer, in uncached input tokens.
pub(crate) const OUTPUT_PRICE: u64 = 4;

/// The summaries of a run, and what they cost.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct SummaryCost {
    /// Summaries that later prompts contain.
    pub(crate) stored: usize,
    /// Attempts that produced no stored summary.
    pub(crate) not_stored: usize,
    /// The summarizer's calls, for stored and failed summaries.
    pub(crate) calls: u64,
    /// The summarizer's input, including its instructions.
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl SummaryCost {
    /// Returns the price in uncached input tokens. The summarizer's input is never cached.
    pub(crate) const fn cost(&self) -> u64 {
        self.input_tokens + OUTPUT_PRICE * self.output_tokens
    }
}

/// Adds up the reports of the summary hook. Clones share the sum.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<SummaryCost>>);

impl Ledger {
    pub(crate) fn add(&self, report: &SummaryReport) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if report.is_summarized() {
            sum.stored += 1;
        } else {
            sum.not_stored += 1;
        }
        sum.calls += u64::from(report.cost.calls);
        sum.input_tokens += report.cost.input_tokens;
        sum.output_tokens += report.cost.output_tokens;
    }

    pub(crate) fn sum(&self) -> SummaryCost {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
