//! The command line.

use std::path::PathBuf;

use clap::{ArgGroup, CommandFactory as _, Parser, error::ErrorKind};
use examples::Counter;
use tower_chat_history::budget::{Watermark, Watermarks};

/// Replays recorded conversations under a policy: what would it do to my traffic?
#[derive(Parser)]
#[command(name = "replay")]
#[command(group = ArgGroup::new("limit").required(true))]
#[command(group = ArgGroup::new("policy"))]
pub(crate) struct Args {
    /// Files of conversations, {"id", "messages"}, one behind the other [default: stdin]
    #[arg(conflicts_with = "synthetic")]
    pub(crate) files: Vec<PathBuf>,
    /// Makes up a conversation of so many turns instead.
    #[arg(long, value_name = "TURNS")]
    pub(crate) synthetic: Option<usize>,
    /// The size of its system message, in tokens.
    #[arg(long, value_name = "TOKENS", default_value_t = 2_000, requires = "synthetic")]
    pub(crate) head: u32,
    /// What it is made from: the same seed makes the same conversation.
    #[arg(long, default_value_t = 1, requires = "synthetic")]
    pub(crate) seed: u64,

    /// The context window in tokens, prompt and reply together.
    #[arg(long, value_name = "TOKENS", group = "limit")]
    pub(crate) context: Option<u32>,
    /// The context window in tokens beyond what each conversation's own system messages have.
    #[arg(long, value_name = "TOKENS", group = "limit")]
    pub(crate) head_plus: Option<u32>,
    /// What of it is reserved for the reply.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub(crate) reserve: u32,
    /// Lets the reserve shrink so far before messages are left out.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) shrink_reply_to: Option<u32>,

    /// Compacts over START percent of the prompt's limit, down to TO percent [default: 100/75]
    #[arg(long, value_name = "START/TO", value_parser = watermarks, group = "policy")]
    pub(crate) watermarks: Option<Watermarks>,
    /// At most so many messages; a quarter goes at once.
    #[arg(long, value_name = "MESSAGES", group = "policy")]
    pub(crate) last_messages: Option<usize>,
    /// At most so many turns; a quarter goes at once.
    #[arg(long, value_name = "TURNS", group = "policy")]
    pub(crate) last_turns: Option<usize>,
    /// Over the limit, all but so many messages go.
    #[arg(long, value_name = "MESSAGES", group = "policy")]
    pub(crate) keep_recent: Option<usize>,
    /// Leaves out no more than it must, anew with every call: --marks 100/100
    #[arg(long, group = "policy")]
    pub(crate) sliding: bool,
    /// Clears old tool results first, but for the newest KEEP [default: 3]
    #[arg(long, value_name = "KEEP", num_args = 0..=1, require_equals = true, default_missing_value = "3")]
    pub(crate) clear_results: Option<usize>,
    /// Has what leaves the window summarized, in TOKENS at most, by extracts of it [default: 400]
    #[arg(long, value_name = "TOKENS", num_args = 0..=1, require_equals = true, default_missing_value = "400")]
    pub(crate) summarize: Option<u32>,
    /// Makes each call at once, and not when the summary after the last reply is done.
    #[arg(long, requires = "summarize")]
    pub(crate) back_to_back: bool,

    /// What counts tokens.
    #[arg(long, value_enum, default_value_t = Counter::O200k)]
    pub(crate) counter: Counter,
    /// Counts as warm what OpenAI's cache has: 1,024 tokens or more, in steps of 128.
    #[arg(long)]
    pub(crate) provider_cache: bool,
    /// The price of a warm token, as a share of a cold one's.
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    pub(crate) cached_price: f64,

    /// Prints a JSON object a line; the last one has the totals.
    #[arg(long)]
    pub(crate) json: bool,
    /// Draws the tokens that were sent, and the warm ones, over the calls.
    #[arg(long, value_name = "SVG")]
    pub(crate) plot: Option<PathBuf>,
}

impl Args {
    /// The arguments of this process. It ends here if they make no sense.
    pub(crate) fn from_command_line() -> Self {
        let args = Self::parse();
        if !(0.0..=1.0).contains(&args.cached_price) {
            Self::command().error(ErrorKind::ValueValidation, "--cached-price is a share, from 0 to 1").exit();
        }
        if args.summarize.is_some() && args.counter == Counter::Messages {
            Self::command().error(ErrorKind::ArgumentConflict, "--summarize needs a counter of texts").exit();
        }
        args
    }
}

fn watermarks(text: &str) -> Result<Watermarks, String> {
    let percent =
        |text: &str| text.parse().map(Watermark::Percent).map_err(|_| "two percentages, such as 100/75".to_owned());
    let (start, to) = text.split_once('/').unwrap_or((text, ""));
    Watermarks::new(percent(start)?, percent(to)?).map_err(|error| error.to_string())
}
