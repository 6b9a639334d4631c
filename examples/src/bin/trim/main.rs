//! Trims lists of messages, as a filter: `cargo run -p examples --bin trim < requests.jsonl`.
//!
//! By default it trims as the layer does: the result is a valid prompt within its budget. With `--mode langchain` it
//! trims as LangChain's `trim_messages` does.
//!
//! Each input line is a request: `{"id": …, "messages": […], "max_tokens": 1000}`. Each output line is the answer to
//! one request, in the same order: `{"id": …, "messages": […], "tokens": 987}`, or `{"id": …, "error": "…"}` if the
//! line is not a request or its messages cannot be made to fit. Messages that are kept are printed byte for byte as
//! they were read. Empty lines, and other fields of a request, are ignored.
//!
//! The program needs memory for one line and a cache of token counts. `scripts/trim_against_langchain.py` compares the
//! results with LangChain's.

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
        // The reader of the answers has closed the pipe.
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
        // Flush before waiting for input: the sender may be waiting for this answer.
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
    output.flush()
}
