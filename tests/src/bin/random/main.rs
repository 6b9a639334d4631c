//! Random tests for a given time: all scenarios, with new seeds, in child processes.
//!
//! ```text
//! cargo run --release -p tests --bin random -- --seconds 3600
//! cargo run -p tests --bin random -- --scenario engine --seed 7           # one case again
//! cargo run -p tests --bin random -- --seconds 60 --without hostile-usage
//! ```
//!
//! The program prints what the scenarios did, and each violation with its scenario and seed. It fails if
//! there is a violation. A case that aborts its process, or does not end, is also a violation.

#![allow(clippy::unwrap_used)] // A failed setup fails the run.

mod pool;
mod work;

use std::{
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use tests::random::{Ingredient, Ingredients, SCENARIOS};

#[derive(Clone, Debug, Parser)]
#[command(name = "random", about = "Random tests, for a given time or over given seeds")]
struct Args {
    /// The scenarios to run [default: all].
    #[arg(long = "scenario", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Runs cases with these seeds instead of new ones.
    #[arg(long = "seed", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// The number of cases with new seeds, for each scenario.
    #[arg(long)]
    cases: Option<u64>,
    /// The time in seconds for which new seeds are tried.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first new seed [default: the time in milliseconds].
    #[arg(long)]
    first: Option<u64>,
    /// The number of processes that run at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// The longest time of one case, in seconds.
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Continues after a violation.
    #[arg(long)]
    keep_going: bool,
    /// Kinds of hostile behavior to leave out.
    #[arg(long, value_delimiter = ',')]
    without: Vec<Ingredient>,
    /// The only kinds of hostile behavior to mix in.
    #[arg(long, value_delimiter = ',', conflicts_with = "without")]
    only: Option<Vec<Ingredient>>,
    /// Runs as one of the child processes.
    #[arg(long, hide = true)]
    worker: bool,
    /// Lists the scenarios and the kinds of hostile behavior.
    #[arg(long)]
    list: bool,
}

impl Args {
    fn ingredients(&self) -> Ingredients {
        match &self.only {
            Some(only) => Ingredients::only(only.iter().copied()),
            None => Ingredients::all().without(self.without.iter().copied()),
        }
    }
}

fn main() -> ExitCode {
    let mut args = Args::parse();
    if args.list {
        SCENARIOS.iter().for_each(|scenario| println!("{:<12}{}", scenario.name, scenario.about));
        Ingredient::ALL.iter().for_each(|one| println!("    {one}"));
        return ExitCode::SUCCESS;
    }
    if args.scenarios.is_empty() {
        args.scenarios = SCENARIOS.iter().map(|scenario| scenario.name.to_owned()).collect();
    }
    if args.worker {
        work::work(&args.ingredients());
        return ExitCode::SUCCESS;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let first = args.first.unwrap_or_else(|| u64::try_from(now).unwrap_or_default());
    pool::run(&args, first)
}
