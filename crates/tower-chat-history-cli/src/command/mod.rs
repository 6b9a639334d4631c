//! The commands.

mod erase;
mod expire;
mod explain;
mod export;
mod import;
mod list;
mod show;
mod stats;
mod verify;

use std::{io::Write, sync::Arc};

use crate::{
    args::Command,
    outcome::{Failure, Outcome},
    store::ManagedStore,
};

/// Executes a command. Its result is written to `out`, and everything else to standard error. Receipts name the
/// database.
pub(crate) async fn run(
    store: &Arc<dyn ManagedStore>,
    command: Command,
    database: String,
    out: &mut (dyn Write + Send),
) -> Result<Outcome, Failure> {
    match command {
        Command::List(args) => list::run(&**store, &args, out).await,
        Command::Show(args) => show::run(&**store, &args, out).await,
        Command::Explain(args) => explain::run(Arc::<dyn ManagedStore>::clone(store), &args, out).await,
        Command::Export(args) => export::run(Arc::<dyn ManagedStore>::clone(store), args, out).await,
        Command::Import(args) => import::run(Arc::<dyn ManagedStore>::clone(store), args, out).await,
        Command::Erase(args) => erase::run(&**store, &args, database, out).await,
        Command::Expire(args) => expire::run(&**store, &args, out).await,
        Command::Verify(args) => verify::run(&**store, &args, out).await,
        Command::Stats(args) => stats::run(&**store, &args, out).await,
    }
}
