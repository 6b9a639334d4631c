//! Making one summary of any number of messages, in calls of limited size.

use std::{error::Error, mem};

use crate::context::tokens::{TokenCounter, tokens_of};
use tower_chat_history_core::Message;

use super::{Summarizer, SummaryCost, SummaryError, SummaryRequest, SummaryResponse, transcript::shorten_message};

/// The length limit of the second attempt at a summary that was cut off, as a percentage of the first limit.
const RETRY_PERCENT: u64 = 60;

/// The largest number of times that the input of one summary is halved because the model said that it was too long.
const MAX_HALVINGS: u32 = 3;

/// A summary with its size in tokens: the previous one, or a new one that passed all checks.
#[derive(Clone, Debug)]
pub(crate) struct SizedSummary {
    pub(crate) text: String,
    pub(crate) tokens: u32,
    pub(crate) model: Option<String>,
}

/// Makes one summary from the previous summary and from messages, which are pushed in the order of the log.
///
/// It holds one chunk of messages at a time. It has no timeout: its caller limits the time by dropping a future of
/// `push`, `make_room` or `finish`. After a dropped future or an error, only the cost and the sizes may be read.
pub(crate) struct Rolling<'a> {
    summarizer: &'a dyn Summarizer,
    counter: &'a dyn TokenCounter,
    /// The largest allowed size of the summary, in tokens.
    max_tokens: u32,
    /// The largest input of one call, in tokens, without the instructions.
    chunk_tokens: u32,
    /// The summary so far.
    summary: Option<SizedSummary>,
    /// False while `summary` is the previous one.
    is_new: bool,
    chunk: Vec<Message>,
    chunk_size: u32,
    halvings: u32,
    /// The number of tokens of the previous summary and of all messages, before messages are shortened.
    replaces: u64,
    messages: usize,
    cost: SummaryCost,
}

impl<'a> Rolling<'a> {
    /// Creates a summary in progress, which begins with the previous summary and its number of tokens, if there is
    /// one.
    ///
    /// The input of a call is the summary so far and messages. Together, they have at most `chunk_tokens` tokens,
    /// with one exception: a quarter of `chunk_tokens` is always available for messages. So `chunk_tokens` should be
    /// several times `max_tokens`.
    pub(crate) fn new(
        previous: Option<(String, u32)>,
        summarizer: &'a dyn Summarizer,
        counter: &'a dyn TokenCounter,
        max_tokens: u32,
        chunk_tokens: u32,
    ) -> Self {
        let summary = previous.map(|(text, tokens)| SizedSummary { text, tokens, model: None });
        Self {
            summarizer,
            counter,
            max_tokens,
            chunk_tokens,
            replaces: summary.as_ref().map_or(0, |summary| summary.tokens.into()),
            summary,
            is_new: false,
            chunk: Vec::new(),
            chunk_size: 0,
            halvings: 0,
            messages: 0,
            cost: SummaryCost::default(),
        }
    }

    /// Returns the cost so far, also after an error.
    pub(crate) const fn cost(&self) -> SummaryCost {
        self.cost
    }

    /// Returns the number of messages that were pushed so far, also after an error.
    pub(crate) const fn messages(&self) -> usize {
        self.messages
    }

    /// Returns the number of tokens of the previous summary and of the messages that were pushed so far.
    pub(crate) const fn replaces(&self) -> u64 {
        self.replaces
    }

    /// Summarizes the collected messages if the next messages do not fit into the same call. Returns the summary of
    /// everything before `next`, which the caller can use if a later call fails. Returns `None` if the next messages
    /// fit, or if the summary is not smaller than the text that it replaces.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`push`](Self::push).
    pub(crate) async fn make_room(&mut self, next: &[Message]) -> Result<Option<SizedSummary>, SummaryError> {
        let tokens = next.iter().map(|message| tokens_of(self.counter, message)).fold(0, u32::saturating_add);
        if self.chunk.is_empty() || self.chunk_size.saturating_add(tokens) <= self.room() {
            return Ok(None);
        }
        self.summarize_chunk().await?;
        Ok(self.summary.clone().filter(|summary| u64::from(summary.tokens) < self.replaces))
    }

    /// Adds the next messages. If they do not fit into the current call, summarizes the collected ones first.
    ///
    /// # Errors
    ///
    /// Returns an error if the summary of a chunk fails or is refused.
    pub(crate) async fn push(&mut self, messages: &[Message]) -> Result<(), SummaryError> {
        for message in messages {
            let tokens = tokens_of(self.counter, message);
            self.replaces = self.replaces.saturating_add(tokens.into());
            self.messages = self.messages.saturating_add(1);
            if !self.chunk.is_empty() && self.chunk_size.saturating_add(tokens) > self.room() {
                self.summarize_chunk().await?;
            }
            // The new summary may leave more or less room than the old one.
            let room = self.room();
            if tokens > room {
                let shorter = shorten_message(message, room, self.counter).map_err(SummaryError::Shortened)?;
                self.collect(tokens_of(self.counter, &shorter), shorter);
            } else {
                self.collect(tokens, message.clone());
            }
        }
        Ok(())
    }

    /// Summarizes the remaining messages, and returns the final summary. Nothing may be pushed afterward.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`push`](Self::push), and [`SummaryError::NoGain`] if the summary is not smaller than
    /// the text that it replaces.
    pub(crate) async fn finish(&mut self) -> Result<SizedSummary, SummaryError> {
        if !self.chunk.is_empty() {
            self.summarize_chunk().await?;
        }
        let replaces = self.replaces;
        match &self.summary {
            Some(summary) if self.is_new && u64::from(summary.tokens) < replaces => Ok(summary.clone()),
            summary => {
                let tokens = summary.as_ref().map_or(0, |summary| summary.tokens);
                Err(SummaryError::NoGain { tokens, replaces })
            }
        }
    }

    /// Returns the number of tokens that are available for messages in a call, in addition to the summary so far.
    fn room(&self) -> u32 {
        let summary = self.summary.as_ref().map_or(0, |summary| summary.tokens);
        self.chunk_tokens.saturating_sub(summary).max(self.chunk_tokens / 4).max(1)
    }

    fn collect(&mut self, tokens: u32, message: Message) {
        self.chunk_size = self.chunk_size.saturating_add(tokens);
        self.chunk.push(message);
    }

    /// Summarizes the collected messages: in one call, or in more if the model says that one was too long.
    async fn summarize_chunk(&mut self) -> Result<(), SummaryError> {
        let mut rest = mem::take(&mut self.chunk);
        self.chunk_size = 0;
        let mut len = rest.len();
        while !rest.is_empty() {
            len = len.min(rest.len());
            match self.summarize_part(rest[..len].to_vec()).await {
                Ok(()) => drop(rest.drain(..len)),
                Err(SummaryError::Failed(error)) if self.halvings < MAX_HALVINGS && self.is_too_long(&*error) => {
                    self.halvings += 1;
                    self.chunk_tokens /= 2;
                    if len > 1 {
                        len = len.div_ceil(2);
                    } else {
                        let half = tokens_of(self.counter, &rest[0]) / 2;
                        rest[0] = shorten_message(&rest[0], half, self.counter).map_err(SummaryError::Shortened)?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_too_long(&self, error: &(dyn Error + 'static)) -> bool {
        self.summarizer.is_too_long(error)
    }

    async fn summarize_part(&mut self, messages: Vec<Message>) -> Result<(), SummaryError> {
        let size = messages.iter().map(|message| u64::from(tokens_of(self.counter, message))).sum::<u64>();
        let summary = self.summary.as_ref();
        let given = size.saturating_add(summary.map_or(0, |summary| summary.tokens.into()));
        let mut request = SummaryRequest::new(summary.map(|summary| summary.text.clone()), messages, self.max_tokens);

        let mut response = self.call(request.clone(), given).await?;
        if !response.finished {
            let shorter = u64::from(self.max_tokens) * RETRY_PERCENT / 100;
            request.max_tokens = u32::try_from(shorter).unwrap_or(self.max_tokens).max(1);
            response = self.call(request, given).await?;
        }

        self.summary = Some(self.accept(response)?);
        self.is_new = true;
        Ok(())
    }

    async fn call(&mut self, request: SummaryRequest, given: u64) -> Result<SummaryResponse, SummaryError> {
        self.cost.calls = self.cost.calls.saturating_add(1);
        let response = self.summarizer.summarize(request).await.map_err(SummaryError::Failed)?;
        let (input, output) = match response.usage {
            Some(usage) => (usage.input_tokens, usage.output_tokens),
            None => (given, self.counter.count_text(&response.text).into()),
        };
        self.cost.input_tokens = self.cost.input_tokens.saturating_add(input);
        self.cost.output_tokens = self.cost.output_tokens.saturating_add(output);
        Ok(response)
    }

    fn accept(&self, response: SummaryResponse) -> Result<SizedSummary, SummaryError> {
        if !response.finished {
            return Err(SummaryError::CutOff);
        }

        let text = printable(&response.text, |c| matches!(c, '\n' | '\r' | '\t'));
        let text = text.trim();
        if text.is_empty() {
            return Err(SummaryError::Empty);
        }

        let tokens = self.counter.count_text(text);
        if tokens > self.max_tokens {
            return Err(SummaryError::TooLong { tokens, allowed: self.max_tokens });
        }
        let model = response.model.map(|model| printable(&model, |_| false));
        Ok(SizedSummary { text: text.to_owned(), tokens, model })
    }
}

/// Removes control characters, which databases and providers refuse, except for those that are `kept`.
fn printable(text: &str, kept: fn(char) -> bool) -> String {
    text.chars().filter(|c| !c.is_control() || kept(*c)).collect()
}
