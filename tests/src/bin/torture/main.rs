//! A reliability test. Many processes chat over one store and are killed, the server is restarted, and its
//! connections are cut. Then every conversation is read. Each acknowledged exchange must be in the log once,
//! complete, and at its acknowledged position. Half of the conversations are chat completions. The others are in the
//! [signing dialect](signed), whose provider checks every prompt.
//!
//! ```text
//! cargo run --release -p tests --bin torture -- --store postgres --exchanges 100000 --kills 200 --restarts 10
//! ```
//!
//! The program prints a report, and fails if there is a violation. It also prints its seed, which repeats its
//! decisions. The timing of processes and network differs between runs.
//!
//! Besides, the workers keep conversations of [people], and list, label, expire, delete and erase them. An erased
//! conversation must never return, and what was not erased must stay.

#![allow(clippy::unwrap_used)] // A failed setup fails the run.

mod deployment;
mod exchange;
mod intact;
mod people;
mod protocol;
mod proxy;
mod run;
mod signed;
mod store;
mod text;
mod worker;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use tests::rng;
use tower_chat_history::BoxError;

/// The profiles for which the workers store compactions.
const PROFILES: [&str; 2] = ["limited", "summarized"];
/// The longest time for anything that should be quick.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Parser)]
#[command(
    name = "torture",
    about = "Runs processes that chat over one store, kills them, restarts the server, and finds lost exchanges"
)]
struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    run: run::Settings,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Runs as one of the workers.
    #[command(hide = true)]
    Worker(worker::Settings),
}

fn main() -> Result<ExitCode, BoxError> {
    let args = Args::parse();
    let mut runtime = match args.part {
        // There are many workers: one thread each is enough.
        Some(_) => tokio::runtime::Builder::new_current_thread(),
        None => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    match args.part {
        Some(Part::Worker(args)) => runtime.block_on(worker::run(args)).map(|()| ExitCode::SUCCESS),
        None => run::run(&args.run, &runtime),
    }
}
