//! Trims requests and writes the answers.

use std::{
    io::{self, Write},
    sync::Arc,
};

use serde::Serialize;
use serde_json::value::RawValue;
use tower_chat_history::{
    Message,
    tokens::{TokenCounter, count_messages},
    trim::{FitError, Speaker, Trim, fit_messages},
};

use super::{
    args::{Args, LangChain, Mode, Strategy},
    request::Request,
};

/// Answers requests with the same options.
pub(crate) struct Trimmer<'a> {
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
    pub(crate) fn new(args: &'a Args) -> Self {
        Self { args, counter: args.counter.make() }
    }

    /// Writes the answer to one line.
    pub(crate) fn answer(&self, line: &[u8], output: &mut impl Write) -> io::Result<()> {
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
