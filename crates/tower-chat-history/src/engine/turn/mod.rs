//! A turn, from its load to its commit.

mod call;
mod history;
mod planned;
mod repair;
mod report;
mod save;
mod transcript;
mod translate;

use std::{fmt, time::Duration};

use futures_core::Stream;
use futures_util::StreamExt as _;
use tokio::runtime::Handle;
use tower_chat_history_core::{ConversationId, Dialect, ExchangeId, Message, Seq};
use tracing::Span;

use super::{Commit, Engine, queue::QueuePermit, stream::RecordedStream};
use crate::{
    call::{FoldReply, ReadBy, Reply},
    error::StreamStalled,
    policy::OnSaveFailure,
    report::{NotStored, TurnOutcome},
    telemetry::{CallProperties, ModelCall, fail},
};

pub(super) use self::{
    call::{Call, estimate, runtime},
    history::{LoadedHistory, read_in},
    planned::{PlannedTurn, fit_budget},
    translate::{Called, check_turn, in_dialect, read_each, read_known},
};

/// A turn that has begun: its context is ready to be sent, and nothing is stored yet.
///
/// If it is dropped, the conversation stays as it was.
pub struct Turn(Box<TurnState>);

/// The state of a turn. If it is dropped before it is reported, it reports the turn as abandoned.
struct TurnState {
    call: Box<Call>,
    planned: Box<PlannedTurn>,
    /// The history, if the prompt has encrypted elements that can be left out.
    repairable: Option<Box<LoadedHistory>>,
    /// The position before which encrypted elements were left out because the provider could not read them.
    repaired: Option<Seq>,
    /// The summary, if there is one, then the window, the recalled messages, if there are any, and the input.
    context: Vec<Message>,
    window_len: usize,
    /// The id under which the exchange is stored.
    exchange: ExchangeId,
    /// True if the caller chose that id.
    has_caller_id: bool,
    /// The model call, while it is in progress.
    model_call: Option<ModelCall>,
    is_streamed: bool,
    /// The number of messages that the request's types could not represent without loss.
    downgraded: usize,
    /// Held until the turn is reported.
    permit: Option<QueuePermit>,
    is_reported: bool,
}

impl Turn {
    pub(super) fn new(
        mut call: Box<Call>,
        mut planned: Box<PlannedTurn>,
        permit: Option<QueuePermit>,
        loaded: LoadedHistory,
    ) -> Self {
        let repairable = repair::is_repairable(&loaded, &planned).then(|| Box::new(loaded));
        let (window_len, context) = context(&mut call, &mut planned);
        let has_caller_id = call.exchange.is_some();
        let exchange = call.exchange.take().unwrap_or_else(ExchangeId::generate);
        Self(Box::new(TurnState {
            call,
            planned,
            repairable,
            repaired: None,
            context,
            window_len,
            exchange,
            has_caller_id,
            model_call: None,
            is_streamed: false,
            downgraded: 0,
            permit,
            is_reported: false,
        }))
    }

    /// Returns the messages to send after the head: the summary, if there is one, the window, the
    /// [recalled messages](crate::recall), if there are any, and the input. They obey the chat rules.
    #[must_use]
    pub fn context(&self) -> &[Message] {
        &self.0.context
    }

    /// Returns the messages to send between the head and the input: the summary, if there is one, the window, and the
    /// [recalled messages](crate::recall), if there are any.
    #[must_use]
    pub fn window(&self) -> &[Message] {
        &self.0.context[..self.0.window_len]
    }

    /// Returns the input messages of this call.
    #[must_use]
    pub fn input(&self) -> &[Message] {
        &self.0.context[self.0.window_len..]
    }

    /// Returns the value, in tokens, to which the request's own reply limit must be lowered. Otherwise prompt and
    /// reply would not fit the context window together. `None` means that the request needs no change.
    #[must_use]
    pub fn reply_limit(&self) -> Option<u32> {
        self.0.planned.tokens.and_then(|tokens| tokens.reply_limit)
    }

    /// Returns the provider that is [called](crate::HistoryOptions::origin), or, if it is not known, the one that made
    /// the newest reply of which the provider is recorded.
    #[must_use]
    pub fn provider(&self) -> Option<&str> {
        self.0.planned.history.provider.as_deref()
    }

    /// Returns the value by which the adapter reads the response.
    pub(crate) fn read_by(&self) -> &ReadBy {
        &self.0.call.read_by
    }

    /// Returns the idle timeout of streams.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        self.engine().options().stream_idle_timeout
    }

    /// Returns the number of choices that the request specifies.
    #[must_use]
    pub fn choices(&self) -> usize {
        self.0.call.choices
    }

    /// Returns the dialect of the call.
    #[must_use]
    pub fn dialect(&self) -> &'static dyn Dialect {
        self.0.call.dialect
    }

    /// Sets the number of the window's messages that the request's types could not represent without loss.
    pub fn note_downgraded(&mut self, messages: usize) {
        self.0.downgraded = messages;
    }

    /// Returns the turn's span, which ends with the turn. Code that uses the engine without the layer can do work for
    /// the turn in this span, so that traces show it as part of the turn.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.0.call.span
    }

    /// Begins the span of the model call, as a child of the turn's span. Call the model within it. The span ends with
    /// the [commit](Self::commit) of the reply, or with the last item of a [stream](Self::record_stream). If the turn
    /// is dropped before that, the span records the call as cancelled. The layer calls this method itself.
    ///
    /// ```
    /// use tracing::Instrument as _;
    /// # use tower_chat_history::{ConversationId, Engine, MemoryStore, Message, Reply, TurnInput};
    /// # async fn my_model(context: &[Message]) -> Result<Message, std::io::Error> { Ok(Message::assistant("Mice!")) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::new(MemoryStore::new());
    /// # let id = ConversationId::new(["acme", "user-42"])?;
    ///
    /// let mut turn = engine.begin(TurnInput::new(id, [Message::user("What does Tom chase?")])).await?;
    /// let span = turn.call_span();
    /// match my_model(turn.context()).instrument(span).await {
    ///     Ok(reply) => drop(turn.commit(Reply::new(reply)).await?),
    ///     Err(error) => turn.fail("my_model"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn call_span(&mut self) -> Span {
        let (reply_limit, is_abridged) = (self.reply_limit(), self.0.is_abridged());
        let TurnState { call, context, model_call, .. } = &mut *self.0;
        let properties = CallProperties {
            conversation: Some(&call.conversation),
            request: &call.request,
            choices: call.choices,
            reply_limit,
            context,
            is_abridged,
        };
        model_call.insert(call.engine.recorder().call(&call.span, &properties)).called_in().clone()
    }

    /// Stores the exchange: input and reply, as one record.
    ///
    /// The save continues even if the returned future is dropped: see [`Commit`].
    pub fn commit(mut self, reply: Reply) -> Commit {
        if let Some(call) = self.0.model_call.take() {
            call.ended_now(&reply);
        }
        Commit::new(self, reply)
    }

    /// Returns a stream that yields the items of `stream` unchanged, assembles the reply from them with `fold`, and
    /// stores the exchange when the reply is complete.
    ///
    /// `stalled` makes the error that the stream yields as its last item if the [idle
    /// timeout](crate::HistoryOptions::stream_idle_timeout) ends the stream before its reply is complete. Without
    /// this error, the caller could not distinguish such a stream from a complete one.
    pub fn record_stream<T, E>(
        mut self,
        stream: impl Stream<Item = Result<T, E>> + Send + 'static,
        fold: impl FoldReply<T>,
        stalled: impl FnOnce(StreamStalled) -> E + Send + 'static,
    ) -> RecordedStream<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        self.0.is_streamed = true;
        // A long stream must not hold the loaded history.
        self.0.repairable = None;
        let call = self.0.model_call.take();
        RecordedStream::new(stream.boxed(), Box::new(fold), Box::new(stalled), self, call)
    }

    /// Ends the turn without storing anything. The report contains the reason.
    pub fn end(mut self, why: NotStored) {
        if let Some(call) = self.0.model_call.take() {
            call.ended_now(&Reply::default());
        }
        self.ended(TurnOutcome::NotStored(why));
    }

    /// Ends the turn after a failed model call. Nothing is stored, and the report has [`NotStored::CallFailed`]. In
    /// the spans of turn and model call, `error_type` is recorded as `error.type`: it must be a constant name or a
    /// status code.
    pub fn fail(mut self, error_type: &str) {
        if let Some(call) = self.0.model_call.take() {
            call.failed(error_type);
        }
        fail(self.span(), error_type);
        if let Some(key) = self.0.call.calibration_key() {
            self.engine().shared.calibration.doubt(key);
        }
        // The caller's handle receives no report: the caller has the error, has left, or retries.
        self.0.report(TurnOutcome::NotStored(NotStored::CallFailed));
    }

    pub(crate) fn on_save_failure(&self) -> OnSaveFailure {
        self.engine().options().policies.on_save_failure
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0.call.engine
    }

    /// Returns the runtime in which the turn began.
    pub(super) fn runtime(&self) -> &Handle {
        &self.0.call.runtime
    }

    pub(super) fn conversation(&self) -> &ConversationId {
        &self.0.call.conversation
    }
}

/// Returns the length of the window with the recalled messages, and the messages to send. Takes them from the call and
/// its plan.
fn context(call: &mut Call, planned: &mut PlannedTurn) -> (usize, Vec<Message>) {
    let mut window = std::mem::take(&mut planned.plan.fit.window);
    window.extend(planned.recalled.as_ref().map(|recalled| recalled.message.clone()));
    if let Some(tokens) = planned.tokens.as_mut().filter(|_| call.is_observed()) {
        let messages = window.iter().chain(&call.input);
        let (id, request, sizes) = (&call.conversation, &call.request, tokens.prompt);
        let recorder = call.engine.recorder();
        tokens.cached_prefix = recorder.cached_prefix(id, request, &sizes, messages, &call.counting);
    }
    let (window_len, mut context) = (window.len(), window);
    context.append(&mut call.input);
    (window_len, context)
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("conversation", &self.0.call.conversation)
            .field("exchange", &self.0.exchange)
            .field("messages", &self.0.context.len())
            .finish_non_exhaustive()
    }
}
