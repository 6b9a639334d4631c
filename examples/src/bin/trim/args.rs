//! The command line.

use clap::{ArgAction, CommandFactory as _, Parser, ValueEnum, error::ErrorKind};
use tower_chat_history::trim::Speaker;

/// Trims lists of messages to a budget of tokens: JSON lines in, JSON lines out.
#[derive(Parser)]
#[command(name = "trim")]
pub(crate) struct Args {
    /// By whose rules.
    #[arg(long, value_enum, default_value_t = Mode::Langchain)]
    pub(crate) mode: Mode,
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
    /// What counts tokens.
    #[arg(long, value_enum, default_value_t = Counter::O200k)]
    pub(crate) counter: Counter,
}

/// By whose rules a list is trimmed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
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

/// What counts tokens.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Counter {
    /// Exactly, for GPT-4o and later.
    O200k,
    /// Exactly, for GPT-4 and GPT-3.5.
    Cl100k,
    /// As LangChain's count_tokens_approximately.
    Approximate,
    /// Each message as one token.
    Messages,
}

impl Args {
    /// The arguments of this process. It ends here if they make no sense.
    pub(crate) fn from_command_line() -> Self {
        let args = Self::parse();
        if let Some(option) = args.only_for_last() {
            let text = format!("{option} is for --strategy last only");
            Self::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        args
    }

    /// The option that is given although the strategy has none such.
    fn only_for_last(&self) -> Option<&'static str> {
        let given = [("--start-on", !self.start_on.is_empty()), ("--include-system", self.include_system)];
        let given = given.into_iter().find_map(|(option, given)| given.then_some(option));
        given.filter(|_| self.strategy == Strategy::First)
    }
}

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
