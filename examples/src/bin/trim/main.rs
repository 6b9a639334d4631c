//! Trims lists of messages, as a filter: `cargo run -p examples --bin trim < requests.jsonl`.
//!
//! It trims as the layer does: what comes out is a valid prompt within its budget. `--mode langchain` trims as LangChain's
//! `trim_messages` does.
//!
//! Each line in is a request, `{"id": …, "messages": […], "max_tokens": 1000}`; each line out its answer, in the same
//! order: `{"id": …, "messages": […], "tokens": 987}`, or `{"id": …, "error": "…"}` where the line is no request or cannot
//! be made to fit. Kept messages are printed as they came, byte for byte. Other fields of a request are ignored, and so are
//! empty lines.
//!
//! It needs the memory of the longest line, and a cache of counts that is bounded. `scripts/trim_against_langchain.py`
//! compares it with LangChain.

mod args;
mod line;
mod request;
mod trimmer;

use std::{
    io::{self, BufRead as _, BufReader, BufWriter, Write},
    process::ExitCode,
};

use self::{args::Args, trimmer::Trimmer};

const BUFFER: usize = 1 << 16;

fn main() -> ExitCode {
    match run(&Args::from_command_line()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the answers has enough of them.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> io::Result<()> {
    let trimmer = Trimmer::new(args);
    let mut input = BufReader::with_capacity(BUFFER, io::stdin().lock());
    let mut output = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        if !line.trim_ascii().is_empty() {
            trimmer.answer(&line, &mut output)?;
        }
        line.clear();
        // Before it waits: one who sends a line and waits for the answer gets it.
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
    output.flush()
}
