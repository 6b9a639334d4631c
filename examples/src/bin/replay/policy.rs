//! The policy that the command line describes.

use std::sync::Arc;

use examples::Extract;
use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryOptions, MemoryStore, Message, Summaries,
    budget::{ClearResults, Watermark, Watermarks},
    recall::{LogRecall, RecallOptions},
    tokens::{TokenCounter, count_messages},
};

use super::{args::Args, summaries::Ledger};

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
        let budget = ContextBudget::tokens(window).reply_reserve(self.reserve);
        let budget = match self.shrink_reply_to {
            Some(tokens) => budget.shrink_reply_to(tokens),
            None => budget,
        };
        let context =
            ContextOptions::new().budget(budget).watermarks(self.watermarks).token_counter(Arc::clone(&self.counter));
        let context = match &self.clear_results {
            Some(clear) => context.clear_results(clear.clone()),
            None => context,
        };
        let mut options = HistoryOptions::new().context(context);
        if self.recall {
            options = options.recall(RecallOptions::new(LogRecall::new(store.clone())));
        }
        let Some(tokens) = self.summarize else { return options };
        let ledger = ledger.clone();
        let summaries = Summaries::new(Extract::new(Arc::clone(&self.counter))).max_tokens(tokens);
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
    let clear = args.clear_results.map_or("", |_| ", old tool results cleared");
    let summarize = args.summarize.map_or("", |_| ", with summaries");
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
