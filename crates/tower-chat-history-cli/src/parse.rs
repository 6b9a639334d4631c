//! Parsing the command line.

use std::process::ExitCode;

use clap::{
    CommandFactory as _, Error, Parser as _,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    args::{Args, Command, Format, Import},
    terminal,
};

/// Returns the arguments of the program. If there are none to execute, prints a text, and returns the program's exit
/// code: help, the version, or an error.
pub(crate) fn args() -> Result<Args, ExitCode> {
    let parsed = Args::try_parse().and_then(|args| match conflict(&args.command) {
        Some(conflict) => Err(Args::command().error(ErrorKind::ArgumentConflict, conflict)),
        None => Ok(args),
    });
    parsed.map_err(|mut error| {
        escape_arguments(&mut error);
        // If the reader of the output is gone, nobody needs the text.
        let _ = error.print();
        u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
    })
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
    let quoted = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(text) => Some((kind, text.clone())),
        _ => None,
    });
    for (kind, text) in quoted.collect::<Vec<(ContextKind, String)>>() {
        error.insert(kind, ContextValue::String(terminal::in_one_line(&text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
