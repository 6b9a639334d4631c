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
mod request;

use std::{
    io::{self, BufRead as _, BufReader, BufWriter, Write},
    process::ExitCode,
    sync::Arc,
};

use serde::Serialize;
use serde_json::value::RawValue;
use tower_chat_history::{
    Message,
    tokens::{TokenCounter, count_messages},
    trim::{FitError, Speaker, Trim, fit_messages},
};

use self::{
    args::{Args, LangChain, Mode, Strategy},
    request::Request,
};

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

/// Answers requests with the same options.
struct Trimmer<'a> {
    args: &'a Args,
    counter: Arc<dyn TokenCounter>,
}

/// An output line.
#[derive(Serialize)]
struct Answer<'a> {
    /// The id of the request, unchanged; null if it has none.
    id: Option<&'a RawValue>,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Trimmed { messages: Vec<Message>, tokens: u64 },
    Failed { error: String },
}

impl<'a> Trimmer<'a> {
    fn new(args: &'a Args) -> Self {
        Self { args, counter: args.counter.make() }
    }

    /// Writes the answer to one line.
    fn answer(&self, line: &[u8], output: &mut impl Write) -> io::Result<()> {
        let (id, request) = Request::read(line);
        let outcome = match request.map(|request| self.trim(&request)) {
            Ok(Ok(messages)) => Outcome::Trimmed { tokens: count_messages(&self.counter, &messages), messages },
            Ok(Err(error)) => Outcome::Failed { error: error.to_string() },
            Err(error) => Outcome::Failed { error: error.to_string() },
        };

        serde_json::to_writer(&mut *output, &Answer { id, outcome })?;
        output.write_all(b"\n")
    }

    fn trim(&self, Request { messages, max_tokens }: &Request) -> Result<Vec<Message>, FitError> {
        match self.args.mode {
            Mode::Fit => fit_messages(messages, *max_tokens, &*self.counter),
            Mode::Langchain => Ok(self.langchain(messages, *max_tokens)),
        }
    }

    fn langchain(&self, messages: &[Message], max_tokens: u64) -> Vec<Message> {
        let LangChain { strategy, start_on, include_system, .. } = &self.args.langchain;
        match strategy {
            Strategy::First => self.apply(Trim::first(max_tokens), messages),
            Strategy::Last => {
                let trim = Trim::last(max_tokens).start_on(start_on.iter().copied().map(Speaker::from));
                self.apply(if *include_system { trim.include_system() } else { trim }, messages)
            }
        }
    }

    /// Applies the options that both strategies have.
    fn apply<S>(&self, trim: Trim<S>, messages: &[Message]) -> Vec<Message> {
        let LangChain { end_on, allow_partial, keep_pairs, .. } = &self.args.langchain;
        let trim = trim.end_on(end_on.iter().copied().map(Speaker::from)).keep_tool_pairs(*keep_pairs);
        let trim = if *allow_partial { trim.allow_partial() } else { trim };
        trim.apply(messages, &*self.counter)
    }
}
