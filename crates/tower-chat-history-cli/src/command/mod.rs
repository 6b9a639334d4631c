//! The commands.

mod erase;
mod expire;
mod export;
mod import;
mod list;
mod show;
mod stats;
mod verify;

use std::{io::Write, sync::Arc};

use tower_chat_history_core::Erase;

use crate::{
    args::Command,
    outcome::{Failure, Outcome},
    terminal,
};

/// Executes a command. Its result is written to `out`, and everything else to standard error.
pub(crate) async fn run(
    store: &Arc<dyn Erase>,
    command: Command,
    out: &mut (dyn Write + Send),
) -> Result<Outcome, Failure> {
    match command {
        Command::List(args) => list::run(&**store, &args, out).await,
        Command::Show(args) => show::run(&**store, &args, out).await,
        Command::Export(args) => export::run(Arc::clone(store), args, out).await,
        Command::Import(args) => import::run(Arc::clone(store), args, out).await,
        Command::Erase(args) => erase::run(&**store, &args, out).await,
        Command::Expire(args) => expire::run(&**store, &args, out).await,
        Command::Verify(args) => verify::run(&**store, &args, out).await,
        Command::Stats(args) => stats::run(&**store, &args, out).await,
    }
}

/// Writes a value as JSON with line breaks.
fn write_json(out: &mut (dyn Write + Send), value: &impl serde::Serialize) -> Result<(), Failure> {
    Ok(writeln!(out, "{}", terminal::escaped_json(&serde_json::to_string_pretty(value)?))?)
}
