//! `chat-history export`

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, IsTerminal as _, Write},
    path::Path,
    sync::Arc,
};

use tower_chat_history::transfer::{Export as Lines, ExportOptions, ExportReport};
use tower_chat_history_core::Erase;

use crate::{
    args::Export,
    outcome::{Failure, Outcome},
    terminal::{Progress, count, escaped, escaped_json, size},
};

pub(crate) async fn run(store: Arc<dyn Erase>, args: Export, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    let options = ExportOptions::new().compactions(args.profiles).recall_data(args.recall_data);
    let lines = Lines::new(store, args.prefix, options);
    let report = match &args.output {
        None => write(lines, out, io::stdout().is_terminal()).await?,
        Some(path) => match write_file(lines, path).await {
            Err(Failure::Output(error)) => return Err(Failure::file(&path.display().to_string(), error)),
            report => report?,
        },
    };

    for missing in &report.named {
        eprintln!("{}: {}", missing.id, escaped(&missing.reason));
    }
    eprintln!("Exported {}.", summary(&report));
    if report.not_whole > 0 {
        eprintln!("{} not whole.", count(report.not_whole, "conversation is", "conversations are"));
    }
    Ok(Outcome::done_if(report.not_whole == 0))
}

/// Writes the lines to a file, and waits until they are on the disk.
async fn write_file(lines: Lines, path: &Path) -> Result<ExportReport, Failure> {
    let mut output = BufWriter::new(create(path)?);
    let report = write(lines, &mut output, false).await?;
    let file = output.into_inner().map_err(io::IntoInnerError::into_error)?;
    sync(&file)?;
    Ok(report)
}

/// Writes the lines. For a terminal, the characters that it would obey are escaped.
async fn write(mut lines: Lines, out: &mut (dyn Write + Send), is_terminal: bool) -> Result<ExportReport, Failure> {
    // Between lines on the same terminal, a spinner would leave traces.
    let progress = if is_terminal { Progress::hidden() } else { Progress::spinner() };
    while let Some(line) = lines.next_line().await? {
        let line = if is_terminal { escaped_json(&line) } else { line };
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")?;
        progress.say(summary(lines.report()));
    }
    out.flush()?;
    Ok(lines.report().clone())
}

fn summary(report: &ExportReport) -> String {
    let conversations = count(report.conversations, "conversation", "conversations");
    format!("{conversations} with {} ({})", count(report.exchanges, "exchange", "exchanges"), size(report.bytes))
}

/// Creates a file that only its owner can read, where files have owners. An existing file keeps its rights.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Waits until what was written is on the disk. Does nothing for a pipe or a device, because these have no disk.
fn sync(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
}
