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
        AgentsSqlite, AssistantsThreads, ChatMl, ChatMlText, ForeignConversation, ForeignError, ForeignOptions,
        LangChainRedis, LangChainSqlite, LangGraphSqlite, ShareGpt, import_foreign,
    },
};
use tower_chat_history_core::{Erase, Prefix};

use super::write_json;
use crate::{
    args::{Format, Import},
    outcome::{Failure, Outcome},
    progress::Progress,
    store::StoreUrl,
    terminal::{count, escaped},
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
    let what = path.map_or_else(|| "standard input".into(), |path| path.display().to_string());
    let failed = |error| Failure::file(&what, error);
    let (mut input, progress): (Box<dyn Read + Send>, Progress) = match path {
        Some(path) => {
            let file = File::open(path).map_err(failed)?;
            let total = file.metadata().map_err(failed)?.len();
            (Box::new(file), Progress::bar(total))
        }
        None => (Box::new(io::stdin()), Progress::spinner()),
    };
    let mut piece = vec![0; PIECE];
    let mut read = 0;
    loop {
        let len = match input.read(&mut piece) {
            Ok(0) => return Ok(importer.finish().await?),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        importer.feed(&piece[..len]).await?;
        read += len as u64;
        progress.set(read);
        progress.say(count(importer.report().conversations, "conversation", "conversations"));
    }
}

type Conversations = Box<dyn Iterator<Item = Result<ForeignConversation, ForeignError>> + Send>;

/// Imports a file of another format.
async fn foreign(store: &dyn Erase, format: Format, args: &Import) -> Result<ImportReport, Failure> {
    let path = args.input.as_deref();
    let server = server(format, path);
    if server.is_none() && format == Format::LangchainRedis && path.is_some_and(is_like_a_url) {
        return Err(Failure::file("FILE", io::Error::other("expected the name of a file, or redis://…")));
    }
    let what = match path {
        // A URL may contain a password.
        _ if server.is_some() => "the Redis server".into(),
        Some(path) => path.display().to_string(),
        None => "standard input".into(),
    };
    let unread = |error: ForeignError| Failure::file(&what, io::Error::other(error));
    let text = || -> Result<Box<dyn BufRead + Send>, Failure> {
        match path {
            Some(path) => Ok(Box::new(BufReader::new(File::open(path).map_err(|error| Failure::file(&what, error))?))),
            None => Ok(Box::new(BufReader::new(io::stdin()))),
        }
    };
    let file = || path.ok_or_else(|| Failure::file("--from", io::Error::other("this format needs the name of a file")));
    let conversations: Conversations = match format {
        Format::LangchainSqlite => Box::new(LangChainSqlite::open(file()?).map_err(unread)?),
        Format::LanggraphSqlite => Box::new(LangGraphSqlite::open(file()?).map_err(unread)?),
        Format::AgentsSqlite => Box::new(AgentsSqlite::open(file()?).map_err(unread)?),
        Format::LangchainRedis => match server {
            Some(url) => {
                let dump = dump(&url, &args.keys).map_err(|error| Failure::file(&what, error))?;
                Box::new(LangChainRedis::new(BufReader::new(dump)))
            }
            None => Box::new(LangChainRedis::new(text()?)),
        },
        Format::Assistants => Box::new(AssistantsThreads::new(text()?)),
        Format::ChatMl => Box::new(ChatMl::new(text()?)),
        Format::ChatMlText => Box::new(ChatMlText::new(text()?)),
        Format::Export | Format::ShareGpt => Box::new(ShareGpt::new(text()?)),
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
