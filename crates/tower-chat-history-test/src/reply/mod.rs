//! The replies of the mocks.

#[cfg(feature = "server")]
mod apis;
mod choice;
mod failure;
mod transcript;
mod wire;

use std::time::Duration;

use serde_json::Value;
use tower_chat_history_core::Usage;

#[cfg(feature = "server")]
pub(crate) use self::{apis::Api, wire::CREATED};
pub use self::{
    choice::{Call, Choice},
    failure::ApiFailure,
};
pub(crate) use self::{
    transcript::{End, Frame, Transcript, play},
    wire::{NoReply, RequestParams},
};

/// The reply of a mock model to one request: whole or in chunks, delayed, broken or missing.
///
/// The same reply serves unary and streaming requests, and requests of all APIs of a
/// [`MockServer`](crate::MockServer). In Anthropic's Messages API and in OpenAI's Responses API, the events of a stream
/// are those of the API, and a reply with [several choices](Self::choices) is an error. The next paragraph is about
/// chat completions.
///
/// For a unary request, a mock sends one JSON document. For a
/// stream, it sends the same content in chunks, as OpenAI does: first the role, then pieces of the reasoning, of the
/// text, of the refusal and of each call's arguments, then the finish reason, then the usage if the request asks for
/// it. The first delta of a call has its id, type and name. The deltas of parallel calls and of several choices
/// alternate.
///
/// ```
/// use std::time::Duration;
///
/// use tower_chat_history_test::{ApiFailure, Reply};
///
/// let plain = Reply::text("It is sunny.");
/// let parallel = Reply::calls([("call_1", "weather", r#"{"city":"Oslo"}"#), ("call_2", "time", "not JSON")]);
/// let slow = Reply::text("…").latency(Duration::from_secs(5)).chunk_delay(Duration::from_millis(100));
/// let broken = Reply::text("a longer answer").chunk_chars(3).abort_after(2);
/// let failed = Reply::error(ApiFailure::server_error());
/// ```
///
/// # Streams that break
///
/// [`end_after`](Self::end_after), [`abort_after`](Self::abort_after), [`error_after`](Self::error_after) and
/// [`panic_after`](Self::panic_after) break a stream after a number of chunks, including the first one (which has the
/// role). If several of them are called, the last one applies. In response to a unary request, such a reply is whole
/// (`end_after`), an aborted connection (`abort_after`), the error (`error_after`) or a panic (`panic_after`).
#[derive(Clone, Debug)]
#[must_use]
pub struct Reply {
    outcome: Outcome,
    /// `None` if it is derived from the sizes of prompt and reply.
    usage: Option<Usage>,
    model: Option<String>,
    latency: Duration,
    chunk_chars: usize,
    chunk_delay: Duration,
    wire_bytes: Option<usize>,
    passing_error: Option<(usize, ApiFailure)>,
    break_off: Option<(usize, BreakOff)>,
}

#[derive(Clone, Debug)]
enum Outcome {
    /// One choice, repeated as often as the request's `n` says.
    Each(Choice),
    /// These choices, whatever the request's `n` says.
    Exactly(Vec<Choice>),
    Failure(ApiFailure),
    Panic(String),
}

#[derive(Clone, Debug)]
enum BreakOff {
    End,
    Abort,
    Error(ApiFailure),
    Panic(String),
}

impl Reply {
    /// Creates a reply with this text. If the request's `n` asks for several choices, all are the same.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Outcome::Each(Choice::text(text)))
    }

    /// Creates a refusal with this text.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self::new(Outcome::Each(Choice::refusal(text)))
    }

    /// Creates a reply with tool calls and without text. Several calls are parallel.
    ///
    /// ```
    /// # use tower_chat_history_test::Reply;
    /// let one = Reply::calls([("call_1", "weather", r#"{"city":"Oslo"}"#)]);
    /// ```
    pub fn calls(calls: impl IntoIterator<Item = impl Into<Call>>) -> Self {
        Self::new(Outcome::Each(Choice::calls(calls)))
    }

    /// Creates an empty reply: its content is null.
    pub fn empty() -> Self {
        Self::new(Outcome::Each(Choice::empty()))
    }

    /// Creates a reply without any choice.
    pub fn no_choices() -> Self {
        Self::new(Outcome::Exactly(Vec::new()))
    }

    /// Creates a reply with exactly these choices, whatever the request's `n` says. Anthropic's Messages API and
    /// OpenAI's Responses API have no choices: if there are several, their requests are answered with status 400 and
    /// the code `several_choices`.
    pub fn choices(choices: impl IntoIterator<Item = Choice>) -> Self {
        Self::new(Outcome::Exactly(choices.into_iter().collect()))
    }

    /// Creates a reply that is an error of the API.
    pub fn error(failure: ApiFailure) -> Self {
        Self::new(Outcome::Failure(failure))
    }

    /// Creates a reply that panics. The panic of a [`MockLlm`](crate::MockLlm) reaches its caller. The HTTP server
    /// drops the connection, as if its handler had panicked.
    pub fn panic(message: impl Into<String>) -> Self {
        Self::new(Outcome::Panic(message.into()))
    }

    fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            usage: None,
            model: None,
            latency: Duration::ZERO,
            chunk_chars: 8,
            chunk_delay: Duration::ZERO,
            wire_bytes: None,
            passing_error: None,
            break_off: None,
        }
    }

    /// Adds tool calls to every choice.
    pub fn with_calls(self, calls: impl IntoIterator<Item = impl Into<Call>>) -> Self {
        let calls: Vec<Call> = calls.into_iter().map(Into::into).collect();
        self.map_choices(|choice| choice.with_calls(calls.iter().cloned()))
    }

    /// Sets the finish reason of every choice, to any text. The default is `tool_calls` with calls, and `stop` without.
    ///
    /// async-openai's types have OpenAI's reasons only: any other reason is an error for its callers.
    pub fn finish(self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        self.map_choices(|choice| choice.finish(reason.clone()))
    }

    /// Adds a field to the message of every choice, such as a provider's `reasoning_content`. In a stream, it is in
    /// the first chunk.
    ///
    /// In Anthropic's Messages API, it is a field of the message, and in a stream it is in the first event. In OpenAI's
    /// Responses API, it is a field of the response, and in a stream it is in every event with the response. There, the
    /// fields `content` and `output` are left out: they have the blocks or items of the reply.
    pub fn field(self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let name = name.into();
        let value = value.into();
        self.map_choices(|choice| choice.field(name.clone(), value.clone()))
    }

    /// Adds a piece of reasoning to every choice. The mock's [provider](crate::ChatProvider) determines the field and
    /// its signature. [`ChatProvider::OpenAi`](crate::ChatProvider::OpenAi) does not send it. In Anthropic's Messages
    /// API, it is a signed block. In OpenAI's Responses API, it is an encrypted item with this text as its summary.
    ///
    /// ```
    /// use tower_chat_history_test::{ChatProvider, Replies, Reply};
    ///
    /// let reply = Reply::calls([("call_1", "weather", "{}")]).thinking("The user asks about the weather.");
    /// let replies = Replies::script([reply]).provider(ChatProvider::OpenRouter);
    /// ```
    pub fn thinking(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.map_choices(|choice| choice.thinking(text.clone()))
    }

    /// Adds a piece of reasoning that the provider encrypts to every choice. OpenRouter and LiteLLM send it without a
    /// text, DeepSeek with an empty one.
    pub fn redacted_thinking(self) -> Self {
        self.map_choices(Choice::redacted_thinking)
    }

    fn map_choices(mut self, change: impl Fn(Choice) -> Choice) -> Self {
        match &mut self.outcome {
            Outcome::Each(choice) => *choice = change(std::mem::take(choice)),
            Outcome::Exactly(choices) => choices.iter_mut().for_each(|c| *c = change(std::mem::take(c))),
            Outcome::Failure(_) | Outcome::Panic(_) => {}
        }
        self
    }

    /// Sets the model that the reply names. The default is the model of the request.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the reported usage. The default is one token for each 4 bytes, rounded up, of the prompt's JSON and of each
    /// choice.
    pub const fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets the delay before the reply. The default is 0. It uses tokio's timer, so a [paused clock](crate#time) works.
    pub const fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Sets the number of characters of text or arguments in a chunk of a stream, at least 1. The default is 8.
    pub const fn chunk_chars(mut self, chars: usize) -> Self {
        self.chunk_chars = if chars == 0 { 1 } else { chars };
        self
    }

    /// Sets the delay between two chunks of a stream. The default is 0. It uses tokio's timer, so a [paused
    /// clock](crate#time) works.
    pub const fn chunk_delay(mut self, delay: Duration) -> Self {
        self.chunk_delay = delay;
        self
    }

    /// Makes the HTTP server send a stream in writes of this many bytes, at least 1. A small number splits events and
    /// characters, a large one joins events. The default is one write for each event.
    pub const fn wire_bytes(mut self, bytes: usize) -> Self {
        self.wire_bytes = Some(if bytes == 0 { 1 } else { bytes });
        self
    }

    /// Ends the stream cleanly after `chunks` chunks, without `[DONE]` or an error. The finish reason is missing
    /// unless it was in these chunks.
    pub fn end_after(mut self, chunks: usize) -> Self {
        self.break_off = Some((chunks, BreakOff::End));
        self
    }

    /// Aborts the connection after `chunks` chunks of the stream.
    pub fn abort_after(mut self, chunks: usize) -> Self {
        self.break_off = Some((chunks, BreakOff::Abort));
        self
    }

    /// Sends an error event after `chunks` chunks of the stream, and ends the stream.
    pub fn error_after(mut self, chunks: usize, failure: ApiFailure) -> Self {
        self.break_off = Some((chunks, BreakOff::Error(failure)));
        self
    }

    /// Panics after `chunks` chunks of the stream. The HTTP server aborts the connection.
    pub fn panic_after(mut self, chunks: usize, message: impl Into<String>) -> Self {
        self.break_off = Some((chunks, BreakOff::Panic(message.into())));
        self
    }

    /// Sends an error event after `chunks` chunks of the stream, and then the rest of the stream.
    pub fn passing_error_after(mut self, chunks: usize, failure: ApiFailure) -> Self {
        self.passing_error = Some((chunks, failure));
        self
    }
}

impl From<ApiFailure> for Reply {
    fn from(failure: ApiFailure) -> Self {
        Self::error(failure)
    }
}
