//! `chat-history`: lists, shows, explains, exports, imports, erases and checks the conversations of a store.

mod args;
mod command;
mod outcome;
mod store;
mod terminal;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use self::{
    args::{Args, Command},
    outcome::{Failure, Outcome},
    store::Settings,
};

#[tokio::main]
async fn main() -> ExitCode {
    let mut out = io::BufWriter::with_capacity(64 << 10, io::stdout());
    let args = match args::parse() {
        Ok(args) => args,
        Err(code) => return code,
    };

    let mut outcome = run(args, &mut out).await;
    if let Err(error) = out.flush()
        && outcome.is_ok()
    {
        outcome = Err(error.into());
    }
    match outcome {
        Ok(outcome) => outcome.into(),
        // The reader of the output has seen enough.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // An error of a database may quote what is in its file.
            eprintln!("chat-history: {}", terminal::escaped(&failure.to_string()));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    if args.command.output().is_some_and(|path| args.store.has_file(path)) {
        let why = io::Error::new(io::ErrorKind::InvalidInput, "this is a file of the store");
        return Err(Failure::file("--output", why));
    }

    let imports = matches!(args.command, Command::Import(_));
    let places = [Some(args.store.place()), args.schema.clone(), args.key_prefix.clone()];
    let database = places.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let settings = Settings { schema: args.schema, key_prefix: args.key_prefix, imports };
    let opened = args.store.open(&settings).await?;
    let outcome = command::run(&opened.store, args.command, database, out).await;

    // The error of the command says more than one of closing.
    let closed = opened.close().await;
    let outcome = outcome?;
    closed?;
    Ok(outcome)
}
