//! Command-line arguments.

use std::path::PathBuf;

use clap::{ArgGroup, CommandFactory as _, Parser, error::ErrorKind};
use examples::Counter;
use tower_chat_history::budget::{Watermark, Watermarks};

/// Replay recorded conversations, and show the prompts that a policy would send, and their cost.
#[derive(Parser)]
#[command(name = "replay")]
#[command(group = ArgGroup::new("limit").required(true))]
#[command(group = ArgGroup::new("policy"))]
pub(crate) struct Args {
    /// Files of conversations, as JSON objects {"id", "messages"} [default: stdin]
    #[arg(conflicts_with = "synthetic")]
    pub(crate) files: Vec<PathBuf>,
    /// Generate a conversation with this many turns instead of reading files
    #[arg(long, value_name = "TURNS")]
    pub(crate) synthetic: Option<usize>,
    /// Size of the generated system message
    #[arg(long, value_name = "TOKENS", default_value_t = 2_000, requires = "synthetic")]
    pub(crate) head: u32,
    /// Seed of the generated conversation
    #[arg(long, default_value_t = 1, requires = "synthetic")]
    pub(crate) seed: u64,

    /// Context window, for prompt and reply together
    #[arg(long, value_name = "TOKENS", group = "limit")]
    pub(crate) context: Option<u32>,
    /// Context window, in addition to the system messages of each conversation
    #[arg(long, value_name = "TOKENS", group = "limit")]
    pub(crate) head_plus: Option<u32>,
    /// Part of the context window that is reserved for the reply
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub(crate) reserve: u32,
    /// Shrink the reserve down to this size before leaving messages out
    #[arg(long, value_name = "TOKENS")]
    pub(crate) shrink_reply_to: Option<u32>,

    /// Compact above HIGH percent of the prompt's limit, down to LOW percent [default: 100/75]
    #[arg(long, value_name = "HIGH/LOW", value_parser = watermarks, group = "policy")]
    pub(crate) watermarks: Option<Percentages>,
    /// Keep at most this many messages; above that, leave out messages until three quarters remain
    #[arg(long, value_name = "MESSAGES", group = "policy")]
    pub(crate) last_messages: Option<usize>,
    /// Keep at most this many turns; above that, leave out turns until three quarters remain
    #[arg(long, value_name = "TURNS", group = "policy")]
    pub(crate) last_turns: Option<usize>,
    /// If the prompt exceeds its limit, keep only this many of the newest messages
    #[arg(long, value_name = "MESSAGES", group = "policy")]
    pub(crate) keep_recent: Option<usize>,
    /// Slide the window: leave out only as much as each call needs (same as --watermarks 100/100)
    #[arg(long, group = "policy")]
    pub(crate) sliding: bool,
    /// Clear old tool results before leaving messages out, except the newest KEEP (3 without =KEEP)
    #[arg(long, value_name = "KEEP", num_args = 0..=1, require_equals = true, default_missing_value = "3")]
    pub(crate) clear_results: Option<usize>,
    /// Summarize messages that leave the window, in extracts of at most TOKENS (400 without =TOKENS)
    #[arg(long, value_name = "TOKENS", num_args = 0..=1, require_equals = true, default_missing_value = "400")]
    pub(crate) summarize: Option<u32>,
    /// Show earlier messages to the model again if a question needs them
    #[arg(long)]
    pub(crate) recall: bool,
    /// Start each call without waiting for the previous summary
    #[arg(long, requires = "summarize")]
    pub(crate) back_to_back: bool,

    /// Token counter
    #[arg(long, value_enum, default_value_t = Counter::O200k)]
    pub(crate) counter: Counter,
    /// Round cached prefixes down as OpenAI does: to multiples of 128 tokens, and to 0 below 1,024
    #[arg(long)]
    pub(crate) provider_cache: bool,
    /// Price of a cached token, as a fraction of the price of an uncached one
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    pub(crate) cached_price: f64,

    /// Print JSON lines; the last line has the totals
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw a chart: prompt tokens and cached prefix of every call, compared with a sliding window
    #[arg(long, value_name = "SVG")]
    pub(crate) plot: Option<PathBuf>,
}

impl Args {
    /// Parses the arguments of this process. Exits with a usage error if they are invalid.
    pub(crate) fn from_command_line() -> Self {
        let args = Self::parse();

        if !(0.0..=1.0).contains(&args.cached_price) {
            Self::command().error(ErrorKind::ValueValidation, "--cached-price must be between 0 and 1").exit();
        }
        if args.summarize.is_some() && args.counter == Counter::Messages {
            Self::command()
                .error(
                    ErrorKind::ArgumentConflict,
                    "--summarize needs a counter that counts tokens: not --counter messages",
                )
                .exit();
        }
        args
    }
}

/// Watermarks in percent, as written on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Percentages {
    pub(crate) text: String,
    pub(crate) watermarks: Watermarks,
}

fn watermarks(text: &str) -> Result<Percentages, String> {
    let (high, low) = text.split_once('/').unwrap_or((text, ""));
    let watermarks = Watermarks::new(percent(high)?, percent(low)?).map_err(|error| error.to_string())?;
    Ok(Percentages { text: text.to_owned(), watermarks })
}

fn percent(text: &str) -> Result<Watermark, String> {
    match text.parse() {
        Ok(percent) => Ok(Watermark::Percent(percent)),
        Err(_) => Err("expected two percentages, such as 100/75".to_owned()),
    }
}
