//! The command line.

use clap::{
    ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, ValueEnum, error::ErrorKind,
    parser::ValueSource,
};
use examples::Counter;
use tower_chat_history::trim::Speaker;

/// Trims lists of messages to a budget of tokens: JSON lines in, JSON lines out.
#[derive(Parser)]
#[command(name = "trim")]
pub(crate) struct Args {
    /// By whose rules.
    #[arg(long, value_enum, default_value_t = Mode::Fit)]
    pub(crate) mode: Mode,
    /// What counts tokens.
    #[arg(long, value_enum, default_value_t = Counter::O200k)]
    pub(crate) counter: Counter,
    #[command(flatten)]
    pub(crate) langchain: LangChain,
}

/// The options of LangChain's rules.
#[derive(clap::Args)]
#[command(next_help_heading = "For --mode langchain only")]
pub(crate) struct LangChain {
    /// Which messages to keep.
    #[arg(long, value_enum, default_value_t = Strategy::Last)]
    pub(crate) strategy: Strategy,
    /// Leave out what comes before the first message of these, such as human,ai
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) start_on: Vec<Name>,
    /// Leave out what comes behind the last message of these, such as human,tool
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) end_on: Vec<Name>,
    /// Keep the system message that the list starts with.
    #[arg(long)]
    pub(crate) include_system: bool,
    /// Keep a part of the message that fits no longer.
    #[arg(long)]
    pub(crate) allow_partial: bool,
    /// Keep a tool call and its results together; LangChain does not.
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub(crate) keep_pairs: bool,
}

/// By whose rules a list is trimmed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The layer's: system messages, question and newest calls stay, and what comes out is a valid prompt. A list that cannot
    /// be made to fit is answered with an error.
    Fit,
    /// Those of LangChain's trim_messages.
    Langchain,
}

/// Which messages are kept.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// The newest.
    Last,
    /// The oldest.
    First,
}

/// Who speaks, by LangChain's names and those of the wire.
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
    /// The arguments of this process. It ends here if they make no sense.
    pub(crate) fn from_command_line() -> Self {
        let matches = Self::command().get_matches();
        let args = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        if let Some(text) = args.nonsense(&matches) {
            Self::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        args
    }

    /// The option that was given although the mode or the strategy has none such.
    fn nonsense(&self, matches: &ArgMatches) -> Option<String> {
        let given = |name: &&&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let (names, of) = match (self.mode, self.langchain.strategy) {
            (Mode::Fit, _) => (&LANGCHAIN[..], "--mode langchain"),
            (Mode::Langchain, Strategy::First) => (&LAST[..], "--strategy last"),
            (Mode::Langchain, Strategy::Last) => return None,
        };
        names.iter().find(given).map(|name| format!("--{} is for {of} only", name.replace('_', "-")))
    }
}

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
