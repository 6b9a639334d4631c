//! `chat-history import`

#[cfg(feature = "redis")]
mod langchain_redis;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal as _, Read, Write},
    path::Path,
    sync::Arc,
};

use tower_chat_history::transfer::{
    ImportOptions, ImportReport, Importer,
    foreign::{
        ForeignConversation, ForeignError, ForeignOptions, agents_sqlite, assistants_threads, chat_ml, chat_ml_text,
        import_foreign, langchain_redis, langchain_sqlite, langgraph_sqlite, share_gpt,
    },
};
use tower_chat_history_core::{Erase, Prefix};

use crate::{
    args::{Format, Import},
    outcome::{Failure, Outcome, write_json},
    store::StoreUrl,
    terminal::{Progress, count, escaped},
};

/// The number of bytes that are read at once.
const PIECE: usize = 256 << 10;

pub(crate) async fn run(store: Arc<dyn Erase>, args: Import, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    if args.input.is_none() && io::stdin().is_terminal() {
        eprintln!("Reading from the terminal, because no file is named. Ctrl-D ends the input.");
    }
    let report = match args.from {
        Format::Export => {
            let mut options = ImportOptions::new();
            if let Some(into) = &args.into {
                options = options.rename(args.rename.clone().unwrap_or(Prefix::all()), into.clone());
            }
            read(Importer::new(store, options), args.input.as_deref()).await?
        }
        format => foreign(&*store, format, &args).await?,
    };

    if args.json {
        write_json(out, &report)?;
    } else {
        for skipped in &report.named {
            eprintln!("{}", escaped(&skipped.to_string()));
        }
        eprintln!("{}", summary(&report));
    }
    Ok(Outcome::done_if(report.skipped == 0 && report.is_whole))
}

async fn read(mut importer: Importer, path: Option<&Path>) -> Result<ImportReport, Failure> {
    let what = name_of(path);
    let (mut input, progress) = open(path).map_err(|error| Failure::file(&what, error))?;

    let mut piece = vec![0; PIECE];
    let mut read = 0;
    loop {
        let len = match input.read(&mut piece) {
            Ok(0) => return Ok(importer.finish().await?),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::file(&what, error)),
        };

        importer.feed(&piece[..len]).await?;
        read += len as u64;
        progress.set(read);
        progress.say(count(importer.report().conversations, "conversation", "conversations"));
    }
}

/// Opens the file or the standard input, with its progress.
fn open(path: Option<&Path>) -> io::Result<(Box<dyn Read + Send>, Progress)> {
    let Some(path) = path else { return Ok((Box::new(io::stdin()), Progress::spinner())) };
    let file = File::open(path)?;
    let progress = Progress::bar(file.metadata()?.len());
    Ok((Box::new(file), progress))
}

/// Returns the name of the input, for errors.
fn name_of(path: Option<&Path>) -> String {
    path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string())
}

type Conversations = Box<dyn Iterator<Item = Result<ForeignConversation, ForeignError>> + Send>;

/// Imports a file of another format.
async fn foreign(store: &dyn Erase, format: Format, args: &Import) -> Result<ImportReport, Failure> {
    let path = args.input.as_deref();
    let conversations: Conversations = match server(format, path) {
        Some(url) => {
            // A URL may contain a password, so the error does not show it.
            let dump = dump(&url, &args.keys).map_err(|error| Failure::file("the Redis server", error))?;
            Box::new(langchain_redis(BufReader::new(dump)))
        }
        None if format == Format::LangchainRedis && path.is_some_and(is_like_a_url) => {
            return Err(Failure::file("FILE", io::Error::other("expected the name of a file, or redis://…")));
        }
        None => conversations(format, path)?,
    };

    let progress = Progress::spinner();
    let mut read = 0;
    let conversations = conversations.inspect(|_| {
        read += 1;
        progress.say(count(read, "conversation", "conversations"));
    });
    let under = args.into.clone().unwrap_or(Prefix::all());
    let options = ForeignOptions::new(under).separator(args.separator.clone());
    Ok(import_foreign(store, conversations, &options).await?)
}

/// Opens a file of another format.
fn conversations(format: Format, path: Option<&Path>) -> Result<Conversations, Failure> {
    Ok(match format {
        Format::LangchainSqlite => database(path, langchain_sqlite)?,
        Format::LanggraphSqlite => database(path, langgraph_sqlite)?,
        Format::AgentsSqlite => database(path, agents_sqlite)?,
        Format::LangchainRedis => Box::new(langchain_redis(text(path)?)),
        Format::Assistants => Box::new(assistants_threads(text(path)?)),
        Format::ChatMl => Box::new(chat_ml(text(path)?)),
        Format::ChatMlText => Box::new(chat_ml_text(text(path)?)),
        Format::Export | Format::ShareGpt => Box::new(share_gpt(text(path)?)),
    })
}

fn text(path: Option<&Path>) -> Result<Box<dyn BufRead + Send>, Failure> {
    let Some(path) = path else { return Ok(Box::new(BufReader::new(io::stdin()))) };
    let file = File::open(path).map_err(|error| Failure::file(&name_of(Some(path)), error))?;
    Ok(Box::new(BufReader::new(file)))
}

fn database<'p, I>(
    path: Option<&'p Path>,
    open: fn(&'p Path) -> Result<I, ForeignError>,
) -> Result<Conversations, Failure>
where
    I: Iterator<Item = Result<ForeignConversation, ForeignError>> + Send + 'static,
{
    let Some(path) = path else {
        return Err(Failure::file("--from", io::Error::other("this format needs the name of a file")));
    };
    match open(path) {
        Ok(conversations) => Ok(Box::new(conversations)),
        Err(error) => Err(Failure::file(&name_of(Some(path)), io::Error::other(error))),
    }
}

/// Returns `true` if the argument may be a mistyped URL. An error must not show it, because it may contain a password.
fn is_like_a_url(path: &Path) -> bool {
    let text = path.to_string_lossy();
    !path.exists() && (text.contains(":/") || text.contains('@'))
}

/// Returns the URL of the server that the argument names, if it is not a file.
fn server(format: Format, path: Option<&Path>) -> Option<StoreUrl> {
    let url = path.filter(|_| format == Format::LangchainRedis)?.to_str()?.parse().ok()?;
    matches!(url, StoreUrl::Redis(_) | StoreUrl::RedisCluster(_)).then_some(url)
}

/// Returns the lists of a server as a dump.
#[cfg(feature = "redis")]
fn dump(url: &StoreUrl, keys: &str) -> io::Result<impl Read + Send + use<>> {
    let StoreUrl::Redis(url) = url else {
        return Err(io::Error::other("the keys of a cluster are on several servers: import from each of its masters"));
    };
    crate::store::install_crypto_provider();
    langchain_redis::Dump::connect(url, keys).map_err(io::Error::other)
}

#[cfg(not(feature = "redis"))]
fn dump(_: &StoreUrl, _: &str) -> io::Result<io::Empty> {
    Err(io::Error::other("this program was built without Redis: build it with the feature `redis`"))
}

fn summary(report: &ImportReport) -> String {
    let mut text = format!(
        "Read {}: stored {}, and {} already there.",
        count(report.conversations, "conversation", "conversations"),
        count(report.stored, "exchange", "exchanges"),
        count(report.present, "was", "were"),
    );
    if report.pruned > 0 {
        text += &format!(" {} pruned from the store, and not stored again.", count(report.pruned, "was", "were"));
    }
    if report.instructions > 0 {
        let instructions = count(report.instructions, "instruction was", "instructions were");
        text += &format!(" {instructions} left out: send them with each request.");
    }
    if report.left_out > 0 {
        let parts = count(report.left_out, "part of a message has", "parts of messages have");
        text += &format!(" {parts} no counterpart: left out.");
    }
    if report.skipped > 0 {
        text += &format!(" {} skipped.", count(report.skipped, "part was", "parts were"));
    }
    text
}
