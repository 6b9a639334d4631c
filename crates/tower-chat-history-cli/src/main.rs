//! `chat-history`: lists, shows, exports, imports, erases and checks the conversations of a store.

mod args;
mod audit;
mod command;
mod file;
mod interrupt;
mod outcome;
mod parse;
mod progress;
mod store;
mod terminal;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use tower_chat_history::audit::AuditedStore;

use self::{
    args::{Args, Command},
    audit::AuditFile,
    outcome::{Failure, Outcome},
    store::{ManagedStore, Settings},
};

#[tokio::main]
async fn main() -> ExitCode {
    let mut out = io::BufWriter::with_capacity(64 << 10, io::stdout());
    let args = match parse::args() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let outcome = run(args, &mut out).await;
    let outcome = match (outcome, out.flush()) {
        (Ok(_), Err(error)) => Err(error.into()),
        (outcome, _) => outcome,
    };
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
    let refused = |option, why| Failure::file(option, io::Error::new(io::ErrorKind::InvalidInput, why));
    for (option, path) in [("--output", args.command.output()), ("--audit", args.audit.as_deref())] {
        if path.is_some_and(|path| args.store.has_file(path)) {
            return Err(refused(option, "this is a file of the store"));
        }
    }
    let is_audit = |path: Option<&Path>| {
        path.zip(args.audit.as_deref()).is_some_and(|(one, other)| file::is_same_file(one, other))
    };
    if is_audit(args.command.input()) || args.command.reads_stdin() && args.audit.as_deref().is_some_and(file::is_stdin)
    {
        return Err(refused("--audit", "this is the file to import"));
    }
    // Before the store is opened: a command that cannot be recorded touches nothing.
    let audit = match &args.audit {
        Some(path) => Some(AuditFile::open(path).map_err(|error| Failure::file("--audit", error))?),
        None => None,
    };
    // The file exists now, so links to it can be followed.
    if is_audit(args.command.output()) {
        return Err(refused("--output", "this is the file of the audit"));
    }
    let audit = audit.map(Arc::new);
    let imports = matches!(args.command, Command::Import(_));
    let places = [Some(args.store.place()), args.schema.clone(), args.key_prefix.clone()];
    let database = places.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let settings = Settings { schema: args.schema, key_prefix: args.key_prefix, imports };
    let opened = args.store.open(&settings).await?;
    let store: Arc<dyn ManagedStore> = match &audit {
        Some(audit) => {
            let actor = args.actor.unwrap_or_else(audit::user);
            let audit: Arc<AuditFile> = Arc::clone(audit);
            Arc::new(AuditedStore::new(Arc::clone(&opened.store), audit, actor).purpose(args.command.name()))
        }
        None => Arc::clone(&opened.store),
    };
    let outcome = command::run(&store, args.command, database, out).await;
    drop(store);
    let recorded = audit.map_or(Ok(()), |audit| audit.finish());
    let closed = opened.close().await;
    let outcome = outcome?;
    recorded.map_err(|error| Failure::file("--audit", error))?;
    closed?;
    Ok(outcome)
}
