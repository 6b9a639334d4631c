//! Reliability under fire: many processes chat over one store and are killed, the server is restarted, its connections are
//! cut. Then every conversation is read back: what was acknowledged is there once, where it was said to be, and whole.
//!
//! ```text
//! cargo run --release -p tests --bin torture -- --store postgres --exchanges 100000 --kills 200 --restarts 10
//! ```
//!
//! It prints a report and fails if anything is not as it must be. The seed that it prints repeats its decisions; what the
//! processes and the network make of them is up to the system.

#![allow(clippy::unwrap_used)] // What cannot be set up fails the run.

mod exchange;
mod place;
mod protocol;
mod proxy;
mod run;
mod store;
mod whole;
mod worker;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use tests::chance;
use tower_chat_history::BoxError;

/// Whose compactions the workers store.
const PROFILES: [&str; 2] = ["limited", "summarized"];
/// How long something may take that should not take long.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Parser)]
#[command(
    name = "torture",
    about = "Has processes chat over one store, kills them, restarts the server, and looks for what was lost"
)]
struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    run: run::Settings,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    /// One of the processes: the parent starts it.
    #[command(hide = true)]
    Worker(worker::Settings),
}

fn main() -> Result<ExitCode, BoxError> {
    let args = Args::parse();
    let mut runtime = match args.part {
        // There are many workers.
        Some(_) => tokio::runtime::Builder::new_current_thread(),
        None => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    match args.part {
        Some(Part::Worker(args)) => runtime.block_on(worker::run(args)).map(|()| ExitCode::SUCCESS),
        None => run::run(&args.run, &runtime),
    }
}
