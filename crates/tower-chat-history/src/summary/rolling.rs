//! One summary of any number of messages, by calls of bounded size.

use std::{mem, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;
use tower_chat_history_context::tokens::{TokenCounter, tokens_of};
use tower_chat_history_core::Message;

use super::{Summarized, Summarizer, SummaryCost, SummaryError, SummaryRequest, shorten::shorten_message};

/// What a text that was cut off is asked for again in, as a part of what it may have, in percent.
const RETRY_PERCENT: u64 = 60;

/// A sound summary.
#[derive(Debug)]
pub(crate) struct Rolled {
    pub(crate) text: String,
    pub(crate) tokens: u32,
    pub(crate) model: Option<String>,
}

/// Makes a summary of the previous one and of messages that are pushed in the order of the log.
///
/// It holds one chunk of messages at a time. It knows no time: whoever drives it limits that by dropping what it polls, and
/// then asks for the cost. After an error, or a push that was dropped, only the cost is of use.
pub(crate) struct Rolling<'a> {
    summarizer: &'a dyn Summarizer,
    counter: &'a dyn TokenCounter,
    /// How many tokens the summary may have.
    max_tokens: u32,
    /// How many tokens a call may be given, without the prompt around them.
    chunk_tokens: u32,
    /// The outcome so far.
    summary: Option<SummarySoFar>,
    chunk: Vec<Message>,
    chunk_size: u32,
    /// The tokens of the previous summary and of all messages, as the log has them.
    replaces: u64,
    messages: usize,
    cost: SummaryCost,
}

struct SummarySoFar {
    text: String,
    tokens: u32,
    model: Option<String>,
    /// True if it was made here, and is not the previous one.
    new: bool,
}

impl SummarySoFar {
    fn rolled(&self) -> Rolled {
        Rolled { text: self.text.clone(), tokens: self.tokens, model: self.model.clone() }
    }
}

impl<'a> Rolling<'a> {
    /// Begins with the stored summary and its tokens, if there is one.
    ///
    /// A call is given the summary so far and messages, in at most `chunk_tokens` tokens together. A quarter of them at least
    /// is for messages, even if the summary leaves less, so they should be several times `max_tokens`.
    pub(crate) fn new(
        previous: Option<(String, u32)>,
        summarizer: &'a dyn Summarizer,
        counter: &'a dyn TokenCounter,
        max_tokens: u32,
        chunk_tokens: u32,
    ) -> Self {
        let summary = previous.map(|(text, tokens)| SummarySoFar { text, tokens, model: None, new: false });
        Self {
            summarizer,
            counter,
            max_tokens,
            chunk_tokens,
            replaces: summary.as_ref().map_or(0, |summary| summary.tokens.into()),
            summary,
            chunk: Vec::new(),
            chunk_size: 0,
            messages: 0,
            cost: SummaryCost::default(),
        }
    }

    /// What was spent so far, also after an error.
    pub(crate) const fn cost(&self) -> SummaryCost {
        self.cost
    }

    /// How many messages were taken so far, also after an error.
    pub(crate) const fn messages(&self) -> usize {
        self.messages
    }

    /// The tokens of the previous summary and of the messages that were taken so far.
    pub(crate) const fn replaces(&self) -> u64 {
        self.replaces
    }

    /// Summarizes what was collected, if the next messages do not fit beside it. The outcome is then a summary of everything
    /// before them: what there is to keep, should a later call fail.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub(crate) async fn make_room(&mut self, next: &[Message]) -> Result<Option<Rolled>, SummaryError> {
        let tokens = next.iter().map(|message| tokens_of(self.counter, message)).fold(0, u32::saturating_add);
        if self.chunk.is_empty() || self.chunk_size.saturating_add(tokens) <= self.room() {
            return Ok(None);
        }
        self.summarize_chunk().await?;
        let made = self.summary.as_ref().filter(|made| u64::from(made.tokens) < self.replaces);
        Ok(made.map(SummarySoFar::rolled))
    }

    /// Takes the next messages. Where they do not fit one call any more, what was collected is summarized.
    ///
    /// # Errors
    ///
    /// When a chunk's summary failed or is not sound.
    pub(crate) async fn push(&mut self, messages: &[Message]) -> Result<(), SummaryError> {
        for message in messages {
            let tokens = tokens_of(self.counter, message);
            self.replaces = self.replaces.saturating_add(tokens.into());
            self.messages = self.messages.saturating_add(1);
            if !self.chunk.is_empty() && self.chunk_size.saturating_add(tokens) > self.room() {
                self.summarize_chunk().await?;
            }
            // By the room there is now, beside the new outcome.
            let room = self.room();
            if tokens > room {
                let shorter = shorten_message(message, room, self.counter);
                self.collect(tokens_of(self.counter, &shorter), shorter);
            } else {
                self.collect(tokens, message.clone());
            }
        }
        Ok(())
    }

    /// Summarizes what is left. Nothing is to be pushed afterwards.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push), and when the summary is not smaller than what it replaces.
    pub(crate) async fn finish(&mut self) -> Result<Rolled, SummaryError> {
        if !self.chunk.is_empty() {
            self.summarize_chunk().await?;
        }
        let replaces = self.replaces;
        match &self.summary {
            Some(made) if made.new && u64::from(made.tokens) < replaces => Ok(made.rolled()),
            made => Err(SummaryError::NoGain { tokens: made.as_ref().map_or(0, |made| made.tokens), replaces }),
        }
    }

    /// How many tokens of messages a call may be given beside the summary so far.
    fn room(&self) -> u32 {
        let summary = self.summary.as_ref().map_or(0, |summary| summary.tokens);
        self.chunk_tokens.saturating_sub(summary).max(self.chunk_tokens / 4).max(1)
    }

    fn collect(&mut self, tokens: u32, message: Message) {
        self.chunk_size = self.chunk_size.saturating_add(tokens);
        self.chunk.push(message);
    }

    async fn summarize_chunk(&mut self) -> Result<(), SummaryError> {
        let (messages, size) = (mem::take(&mut self.chunk), mem::take(&mut self.chunk_size));
        let summary = self.summary.as_ref();
        let given = u64::from(size).saturating_add(summary.map_or(0, |summary| summary.tokens.into()));
        let mut request = SummaryRequest::new(summary.map(|summary| summary.text.clone()), messages, self.max_tokens);
        let mut made = self.call(request.clone(), given).await?;
        if !made.finished {
            let shorter = u64::from(self.max_tokens) * RETRY_PERCENT / 100;
            request.max_tokens = u32::try_from(shorter).unwrap_or(self.max_tokens).max(1);
            made = self.call(request, given).await?;
        }
        self.summary = Some(self.accept(made)?);
        Ok(())
    }

    async fn call(&mut self, request: SummaryRequest, given: u64) -> Result<Summarized, SummaryError> {
        self.cost.calls = self.cost.calls.saturating_add(1);
        // In a block of its own: the future may be made by a function that panics before there is one.
        let call = async { self.summarizer.summarize(request).await };
        let answer = AssertUnwindSafe(call).catch_unwind().await.map_err(|_| SummaryError::Panicked)?;
        let made = answer.map_err(SummaryError::Failed)?;
        let (input, output) = match made.usage {
            Some(usage) => (usage.input_tokens, usage.output_tokens),
            None => (given, self.counter.count_text(&made.text).into()),
        };
        self.cost.input_tokens = self.cost.input_tokens.saturating_add(input);
        self.cost.output_tokens = self.cost.output_tokens.saturating_add(output);
        Ok(made)
    }

    fn accept(&self, made: Summarized) -> Result<SummarySoFar, SummaryError> {
        if !made.finished {
            return Err(SummaryError::CutOff);
        }
        let text = printable(&made.text, |c| matches!(c, '\n' | '\r' | '\t'));
        let text = text.trim();
        if text.is_empty() {
            return Err(SummaryError::Empty);
        }
        let tokens = self.counter.count_text(text);
        if tokens > self.max_tokens {
            return Err(SummaryError::TooLong { tokens, allowed: self.max_tokens });
        }
        let model = made.model.map(|model| printable(&model, |_| false));
        Ok(SummarySoFar { text: text.to_owned(), tokens, model, new: true })
    }
}

/// The text without control characters, which databases and providers refuse, but for those that are `kept`.
fn printable(text: &str, kept: fn(char) -> bool) -> String {
    text.chars().filter(|c| !c.is_control() || kept(*c)).collect()
}
