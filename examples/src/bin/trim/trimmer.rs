//! From a request to its answer.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::value::RawValue;
use tower_chat_history::{
    Message,
    tokens::{CountMessages as _, TokenCounter},
    trim::{Speaker, Trim},
};

use super::{
    args::{Args, Mode, Strategy},
    counter::counter,
    request::Request,
};

/// Answers requests, all of them by the same options.
pub(crate) struct Trimmer<'a> {
    args: &'a Args,
    counter: Box<dyn TokenCounter>,
}

/// A line out.
#[derive(Serialize)]
struct Answer<'a> {
    /// As it came; null where there is none.
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
        Self { args, counter: counter(args.counter) }
    }

    /// Writes the answer to one line.
    pub(crate) fn answer(&self, line: &[u8], output: &mut impl Write) -> io::Result<()> {
        let (id, request) = Request::read(line);
        let outcome = match request {
            Ok(request) => {
                let messages = self.trim(&request);
                let tokens = self.counter.count(&messages);
                Outcome::Trimmed { messages, tokens }
            }
            Err(error) => Outcome::Failed { error: error.to_string() },
        };
        serde_json::to_writer(&mut *output, &Answer { id, outcome })?;
        output.write_all(b"\n")
    }

    fn trim(&self, request: &Request) -> Vec<Message> {
        match self.args.mode {
            Mode::Langchain => self.langchain(request),
        }
    }

    fn langchain(&self, Request { messages, max_tokens }: &Request) -> Vec<Message> {
        match self.args.strategy {
            Strategy::First => self.apply(Trim::first(*max_tokens), messages),
            Strategy::Last => {
                let trim = Trim::last(*max_tokens).start_on(self.args.start_on.iter().copied().map(Speaker::from));
                self.apply(if self.args.include_system { trim.include_system() } else { trim }, messages)
            }
        }
    }

    /// With the options that both strategies have.
    fn apply<S>(&self, trim: Trim<S>, messages: &[Message]) -> Vec<Message> {
        let trim =
            trim.end_on(self.args.end_on.iter().copied().map(Speaker::from)).keep_tool_pairs(self.args.keep_pairs);
        let trim = if self.args.allow_partial { trim.allow_partial() } else { trim };
        trim.apply(messages, &*self.counter)
    }
}
