//! The command line.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{
    Args as ClapArgs, CommandFactory as _, Error, Parser, Subcommand, ValueEnum,
    error::{ContextValue, ErrorKind},
};
use tower_chat_history_core::{ConversationId, Cursor, Prefix, Profile, Seq};

use crate::{store::StoreUrl, terminal};

/// Lists, shows, explains, exports, imports, erases and checks stored conversations
///
/// A conversation is named by the text form of its id: its parts, percent-encoded and joined by slashes, for example
/// acme/user-42/support-7. A prefix is the first parts of ids: acme/user-42 stands for this conversation and for all
/// whose ids begin with acme/user-42/, but not for acme/user-421.
#[derive(Debug, Parser)]
#[command(
    name = "chat-history",
    version,
    after_help = "Exit codes: 0 if everything was done, 1 if something failed, is damaged, was skipped, is left or is \
                  not known, and 2 if the command line is wrong or --yes is missing."
)]
pub(crate) struct Args {
    /// URL of the store: sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, env = "CHAT_HISTORY_STORE", hide_env_values = true, global = true, value_name = "URL")]
    #[arg(default_value = "sqlite:chat.db", help_heading = "Store")]
    pub(crate) store: StoreUrl,
    /// Schema in PostgreSQL [default: that of the library]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Store")]
    pub(crate) schema: Option<String>,
    /// Beginning of the keys in Redis [default: that of the library]
    #[arg(long, global = true, value_name = "PREFIX", help_heading = "Store")]
    pub(crate) key_prefix: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List conversations in the order of their ids
    List(List),
    /// Show the messages of a conversation
    Show(Show),
    /// Explain what the model saw when it made a reply: which messages were sent, changed or left out, and why
    ///
    /// The prompt is made again from the log. The digest that is stored with the reply proves that it is the prompt
    /// that was sent. This command uses the default options of the library, except those that you set. The prompt is
    /// not known if your service had other options when it made the prompt, for example a summary format or a trimmer
    /// of its own, or if a message or the summary of the prompt is not stored anymore. Instructions and tools are not
    /// stored.
    Explain(Explain),
    /// Write conversations as JSON lines
    Export(Export),
    /// Read conversations from JSON lines, or from other libraries
    Import(Import),
    /// Erase conversations, and print a receipt as JSON
    Erase(Erase),
    /// Erase conversations that are idle or old, and print a receipt as JSON
    Expire(Expire),
    /// Read everything and report damage, without changing anything
    Verify(Verify),
    /// Count what is stored
    Stats(Stats),
}

impl Command {
    /// Returns the file to which the command writes, if there is one.
    pub(crate) fn output(&self) -> Option<&Path> {
        match self {
            Self::Export(export) => export.output.as_deref(),
            _ => None,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// Prefix of the conversations [default: all]
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: Prefix,
    /// Largest number of conversations
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Continue at the cursor that the last listing printed
    #[arg(long, value_name = "CURSOR", conflicts_with = "newest")]
    pub(crate) after: Option<Cursor>,
    /// List the conversations that were updated last, newest first
    #[arg(long)]
    pub(crate) newest: bool,
    /// Print a JSON object for each conversation
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// Conversation
    pub(crate) id: ConversationId,
    /// Number of exchanges, from the end of the conversation
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) last: usize,
    /// Show the whole conversation
    #[arg(long, conflicts_with = "last")]
    pub(crate) all: bool,
    /// Begin at this position
    #[arg(long, value_name = "POSITION", value_parser = position, conflicts_with_all = ["last", "all"])]
    pub(crate) from: Option<Seq>,
    /// Show calls, results and reasoning in full
    #[arg(long)]
    pub(crate) long: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// Conversation
    pub(crate) id: ConversationId,
    /// Position of the exchange with the reply [default: the newest one that has a reply]
    #[arg(value_parser = position)]
    pub(crate) position: Option<Seq>,
    /// Profile of the service
    #[arg(long, value_name = "PROFILE", default_value = "default")]
    pub(crate) profile: Profile,
    /// Text that the service sends in place of cleared tool results [default: that of the library]
    #[arg(long, value_name = "TEXT")]
    pub(crate) placeholder: Option<String>,
    /// Tool whose results the service never clears. It can be repeated
    #[arg(long = "exclude-tool", value_name = "NAME")]
    pub(crate) excluded_tools: Vec<String>,
    /// Print a JSON object, with the messages that were sent
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Export {
    /// Prefix of the conversations [default: all]
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: Prefix,
    /// File to write, which only its owner can read if it is new [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also write the compactions of this profile, with their summaries. It can be repeated
    #[arg(long = "compactions", value_name = "PROFILE", num_args = 0..=1, default_missing_value = "default")]
    pub(crate) profiles: Vec<Profile>,
    /// Also write recalled messages, and the origin of signed reasoning
    #[arg(long)]
    pub(crate) recall_data: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Import {
    /// File to read, or URL of a Redis server for langchain-redis [default: standard input]
    #[arg(value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Format of the file
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Export)]
    pub(crate) from: Format,
    /// Prefix under which the conversations are stored [default: their own ids]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) into: Option<Prefix>,
    /// With --into: prefix of the conversations in the export, which is replaced [default: none]
    #[arg(long, value_name = "PREFIX", requires = "into")]
    pub(crate) rename: Option<Prefix>,
    /// With another format: text at which its ids are split into parts, for example / or :
    #[arg(long, value_name = "TEXT")]
    pub(crate) separator: Option<String>,
    /// With langchain-redis and a server: beginning of its keys
    #[arg(long, value_name = "TEXT", default_value = "message_store:")]
    pub(crate) keys: String,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// JSON lines of `chat-history export`
    Export,
    /// SQLite file of LangChain's SQLChatMessageHistory
    LangchainSqlite,
    /// LangChain's RedisChatMessageHistory: URL of the server (redis://…), or a dump (see the documentation)
    LangchainRedis,
    /// SQLite file of LangGraph's SqliteSaver
    LanggraphSqlite,
    /// SQLite file of the SQLiteSession of openai-agents
    AgentsSqlite,
    /// Lists of messages of OpenAI's Assistants API
    Assistants,
    /// JSON lines of {"messages": [..]}
    ChatMl,
    /// Text with <|im_start|> and <|im_end|>
    ChatMlText,
    /// JSON of {"conversations": [{"from": .., "value": ..}]}
    ShareGpt,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Erase {
    /// Prefix of the conversations
    #[arg(required_unless_present = "all", value_parser = narrow)]
    pub(crate) prefix: Option<Prefix>,
    /// Erase everything that is stored
    #[arg(long, conflicts_with = "prefix")]
    pub(crate) all: bool,
    /// Erase. Without this option, only the numbers are shown
    #[arg(long)]
    pub(crate) yes: bool,
    /// Then remove what the conversations under this prefix quote of others, with their summaries. Use it if recall
    /// covers several conversations
    #[arg(long, value_name = "PREFIX", value_parser = narrow)]
    pub(crate) quotes_under: Option<Prefix>,
    /// Then remove what the store still has in its files, as far as it can. It may take long
    #[arg(long)]
    pub(crate) scrub: bool,
}

#[derive(Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("rule").required(true))]
#[command(group = clap::ArgGroup::new("mode").required(true))]
pub(crate) struct Expire {
    /// Prefix of the conversations
    #[arg(required_unless_present = "all", value_parser = narrow)]
    pub(crate) prefix: Option<Prefix>,
    /// Look at everything that is stored
    #[arg(long, conflicts_with = "prefix")]
    pub(crate) all: bool,
    /// Erase conversations whose newest exchange is at least this old, for example 30d
    #[arg(long, value_name = "TIME", value_parser = duration, group = "rule")]
    pub(crate) idle: Option<Duration>,
    /// Erase conversations that were created at least this long ago, for example 90d
    #[arg(long, value_name = "TIME", value_parser = duration, group = "rule")]
    pub(crate) older_than: Option<Duration>,
    /// Erase
    #[arg(long, group = "mode")]
    pub(crate) yes: bool,
    /// Only count the conversations that would be erased
    #[arg(long, group = "mode")]
    pub(crate) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Verify {
    /// Prefix of the conversations [default: all]
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: Prefix,
    /// Also read the compactions of this profile. It can be repeated
    #[arg(long = "profile", value_name = "PROFILE", default_value = "default")]
    pub(crate) profiles: Vec<Profile>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Stats {
    /// Prefix of the conversations [default: all]
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: Prefix,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads a prefix that does not stand for everything. An empty argument is usually the value of a variable that was not
/// set.
fn narrow(text: &str) -> Result<Prefix, String> {
    let prefix: Prefix = text.parse().map_err(|error| format!("{error}"))?;
    if prefix.is_all() { Err("an empty prefix stands for everything: use --all".to_owned()) } else { Ok(prefix) }
}

fn position(text: &str) -> Result<Seq, std::num::ParseIntError> {
    text.parse().map(Seq::new)
}

/// Reads a number with a unit: s, m, h, d or w.
fn duration(text: &str) -> Result<Duration, String> {
    seconds(text)
        .map(Duration::from_secs)
        .ok_or_else(|| "expected a number with a unit: s, m, h, d or w, for example 30d".to_owned())
}

fn seconds(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    number.checked_mul(seconds)
}

/// Returns the arguments of the program. If there are none to execute, prints a text, and returns the program's exit
/// code: help, the version, or an error.
pub(crate) fn parse() -> Result<Args, ExitCode> {
    let mut error = match Args::try_parse() {
        Ok(args) => match conflict(&args.command) {
            Some(conflict) => Args::command().error(ErrorKind::ArgumentConflict, conflict),
            None => return Ok(args),
        },
        Err(error) => error,
    };

    escape_arguments(&mut error);
    // If the reader of the output is gone, nobody needs the text.
    let _ = error.print();
    Err(u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Returns the reason if options do not fit together.
fn conflict(command: &Command) -> Option<&'static str> {
    let Command::Import(import) = command else { return None };
    let is_export = import.from == Format::Export;
    match import {
        Import { separator: Some(_), .. } if is_export => Some("--separator needs another format than an export"),
        Import { rename: Some(_), .. } if !is_export => Some("--rename needs an export"),
        _ => None,
    }
}

/// Replaces what a terminal would obey, also line breaks, in the arguments that the error quotes. They may come from
/// elsewhere.
fn escape_arguments(error: &mut Error) {
    let mut quoted = Vec::new();
    for (kind, value) in error.context() {
        if let ContextValue::String(text) = value {
            quoted.push((kind, terminal::in_one_line(text)));
        }
    }
    for (kind, text) in quoted {
        error.insert(kind, ContextValue::String(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(duration("2w"), Ok(Duration::from_secs(14 * 86_400)));
        for wrong in ["", "d", "30", "-1d", "1.5h", "30 d", "30ä", "99999999999999999999d", "9999999999999999999w"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn arguments_in_errors_are_in_one_line_that_a_terminal_does_not_obey() {
        let wrong = "list\nDone.\u{1b}[2J";
        let arguments = [vec![wrong], vec!["list", "--limit", wrong], vec!["list", "a", wrong], vec!["--x\ny\u{9b}"]];
        for arguments in arguments {
            let mut error = Args::try_parse_from(["chat-history"].into_iter().chain(arguments)).unwrap_err();
            escape_arguments(&mut error);
            let shown = error.to_string();
            assert!(!shown.lines().any(|line| line.starts_with("Done") || line.starts_with('y')), "{shown}");
            assert!(!shown.chars().any(|one| one.is_control() && one != '\n'), "{shown}");
        }
    }
}
