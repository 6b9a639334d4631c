//! Random tests for a given time: all scenarios, over new seeds, in processes of their own.
//!
//! ```text
//! cargo run --release -p tests --bin random -- --seconds 3600
//! cargo run -p tests --bin random -- --scenario engine --seed 7           # one case again
//! cargo run -p tests --bin random -- --seconds 60 --without hostile-usage
//! ```
//!
//! It prints what the scenarios did, and each violation with its scenario and seed; with a violation it fails. A case that
//! aborts its process, or does not end, is a violation too.

#![allow(clippy::unwrap_used)] // What cannot be set up fails the run.

mod crew;
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
    /// The scenarios. The default is all of them.
    #[arg(long = "scenario", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Runs cases with these seeds, in place of new ones.
    #[arg(long = "seed", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// How many cases of each scenario with new seeds.
    #[arg(long)]
    cases: Option<u64>,
    /// For how long new seeds are tried, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first of the new seeds. The default is taken from the clock.
    #[arg(long)]
    first: Option<u64>,
    /// How many processes there are at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// How long a single case may take, in seconds.
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Goes on after a violation.
    #[arg(long)]
    keep_going: bool,
    /// Kinds of hostile behavior to leave out.
    #[arg(long, value_delimiter = ',')]
    without: Vec<Ingredient>,
    /// The only kinds of hostile behavior to mix in.
    #[arg(long, value_delimiter = ',', conflicts_with = "without")]
    only: Option<Vec<Ingredient>>,
    /// One of the processes: the parent starts it.
    #[arg(long, hide = true)]
    worker: bool,
    /// Lists scenarios and ingredients.
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
    crew::run(&args, first)
}
