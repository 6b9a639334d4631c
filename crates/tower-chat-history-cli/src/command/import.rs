//! `chat-history import`

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

use tower_chat_history_core::Erase;
use tower_chat_history_transfer::{ImportOptions, ImportReport, Importer};

use super::write_json;
use crate::{
    args::Import,
    outcome::{Failure, Outcome},
    progress::Progress,
    terminal::count,
};

/// The number of bytes that are read at once.
const PIECE: usize = 256 << 10;

pub(crate) async fn run(store: Arc<dyn Erase>, args: Import, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    let mut options = ImportOptions::new();
    if let Some(into) = args.into {
        options = options.rename(args.rename.unwrap_or(tower_chat_history_core::Prefix::all()), into);
    }
    let report = read(Importer::new(store, options), args.input.as_deref()).await?;
    if args.json {
        write_json(out, &report)?;
    } else {
        for skipped in &report.named {
            eprintln!("{skipped}");
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
    if report.skipped > 0 {
        text += &format!(" {} skipped.", count(report.skipped, "part was", "parts were"));
    }
    text
}
