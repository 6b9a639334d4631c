//! `chat-history export`

use std::{
    io::{self, BufWriter, IsTerminal as _, Write},
    sync::Arc,
};

use tower_chat_history::transfer::{Export as Lines, ExportOptions, ExportReport};
use tower_chat_history_core::Erase;

use crate::{
    args::Export,
    file,
    outcome::{Failure, Outcome},
    progress::Progress,
    terminal::{count, escaped, escaped_json, size},
};

pub(crate) async fn run(store: Arc<dyn Erase>, args: Export, out: &mut (dyn Write + Send)) -> Result<Outcome, Failure> {
    let options = ExportOptions::new().compactions(args.profiles).recall_data(args.recall_data);
    let lines = Lines::new(store, args.prefix, options);
    let report = match &args.output {
        None => write(lines, out, io::stdout().is_terminal()).await?,
        Some(path) => {
            let what = path.display().to_string();
            let created = file::create(path).map_err(|error| Failure::file(&what, error))?;
            let mut output = BufWriter::new(created);
            let report = match write(lines, &mut output, false).await {
                Err(Failure::Output(error)) => return Err(Failure::file(&what, error)),
                report => report?,
            };
            let written = output.into_inner().map_err(|error| Failure::file(&what, error.into_error()))?;
            file::sync(&written).map_err(|error| Failure::file(&what, error))?;
            report
        }
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
