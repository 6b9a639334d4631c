//! `chat-history`: lists, shows, exports, imports, erases and checks the conversations of a store.

mod args;
mod command;
mod outcome;
mod progress;
mod store;
mod terminal;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;

use self::{
    args::{Args, Command},
    outcome::{Failure, Outcome},
    store::Settings,
};

#[tokio::main]
async fn main() -> ExitCode {
    let mut out = io::BufWriter::with_capacity(64 << 10, io::stdout());
    let outcome = run(Args::parse(), &mut out).await;
    let outcome = match (outcome, out.flush()) {
        (Ok(_), Err(error)) => Err(error.into()),
        (outcome, _) => outcome,
    };
    match outcome {
        Ok(outcome) => outcome.into(),
        // The reader of the output has seen enough.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("chat-history: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    let creates = matches!(args.command, Command::Import(_));
    let settings = Settings { schema: args.schema, key_prefix: args.key_prefix, creates };
    let opened = args.store.open(&settings).await?;
    let outcome = command::run(&opened.store, args.command, out).await;
    let closed = opened.close().await;
    let outcome = outcome?;
    closed?;
    Ok(outcome)
}
