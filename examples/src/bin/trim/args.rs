//! Command-line arguments.

use clap::{
    ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, ValueEnum, error::ErrorKind,
    parser::ValueSource,
};
use examples::Counter;
use tower_chat_history::trim::Speaker;

/// Trim lists of messages to a token budget: JSON lines in, JSON lines out.
#[derive(Parser)]
#[command(name = "trim")]
pub(crate) struct Args {
    /// Rules for trimming
    #[arg(long, value_enum, default_value_t = Mode::Fit)]
    pub(crate) mode: Mode,
    /// Token counter
    #[arg(long, value_enum, default_value_t = Counter::O200k)]
    pub(crate) counter: Counter,
    #[command(flatten)]
    pub(crate) langchain: LangChain,
}

/// The options of LangChain's rules.
#[derive(clap::Args)]
#[command(next_help_heading = "Options for --mode langchain")]
pub(crate) struct LangChain {
    /// Part of the list to keep
    #[arg(long, value_enum, default_value_t = Strategy::Last)]
    pub(crate) strategy: Strategy,
    /// Leave out messages before the first one with one of these roles, for example human,ai
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) start_on: Vec<Name>,
    /// Leave out messages after the last one with one of these roles, for example human,tool
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) end_on: Vec<Name>,
    /// Keep a system message at the beginning of the list
    #[arg(long)]
    pub(crate) include_system: bool,
    /// Keep part of the first message that does not fit
    #[arg(long)]
    pub(crate) allow_partial: bool,
    /// Keep or leave out a tool call and its results together; false trims exactly as LangChain does
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub(crate) keep_pairs: bool,
}

/// The rules for trimming.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The layer's rules: keep system messages, the question and the newest turns. The result is a valid prompt, or an
    /// error if none fits
    Fit,
    /// The rules of LangChain's trim_messages
    Langchain,
}

/// The part of the list that is kept.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// The newest messages
    Last,
    /// The oldest messages
    First,
}

/// A role. Its name is LangChain's, or that of the chat-completions format.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Name {
    #[value(alias = "user")]
    Human,
    #[value(alias = "assistant")]
    Ai,
    #[value(alias = "developer")]
    System,
    Tool,
    Function,
}

impl Args {
    /// Parses the arguments of this process. Exits with a usage error if they are invalid.
    pub(crate) fn from_command_line() -> Self {
        let matches = Self::command().get_matches();
        let args = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());

        if let Some(text) = args.conflict(&matches) {
            Self::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        args
    }

    /// Returns an error text if an option was given that does not exist in the chosen mode or strategy.
    fn conflict(&self, matches: &ArgMatches) -> Option<String> {
        let (names, of) = match (self.mode, self.langchain.strategy) {
            (Mode::Fit, _) => (&LANGCHAIN[..], "--mode langchain"),
            (Mode::Langchain, Strategy::First) => (&LAST[..], "--strategy last"),
            (Mode::Langchain, Strategy::Last) => return None,
        };

        for name in names {
            if matches.value_source(name) == Some(ValueSource::CommandLine) {
                return Some(format!("--{} can only be used with {of}", name.replace('_', "-")));
            }
        }
        None
    }
}

/// The options that only `--mode langchain` has, and those of them that only `--strategy last` has.
const LANGCHAIN: [&str; 6] = ["strategy", "start_on", "end_on", "include_system", "allow_partial", "keep_pairs"];
const LAST: [&str; 2] = ["start_on", "include_system"];

impl From<Name> for Speaker {
    fn from(name: Name) -> Self {
        match name {
            Name::Human => Self::User,
            Name::Ai => Self::Assistant,
            Name::System => Self::System,
            Name::Tool => Self::Tool,
            Name::Function => Self::Function,
        }
    }
}
