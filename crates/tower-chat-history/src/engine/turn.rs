//! A turn between its load and its commit.

use std::{fmt, sync::Arc};

use futures_core::Stream;
use futures_util::{StreamExt as _, future};
use tower_chat_history_core::{Compact, ConversationId, Exchange, ExchangeId, Expect, Message, Seq, Usage};

use super::{
    Commit, Engine, Reply, RequestInfo,
    basis::Basis,
    count::Counting,
    ending::Ending,
    input::Stored,
    summaries::{Made, TurnEnd},
};
use crate::{
    BoxError, NotStored, OnSaveFailure, Outcome, StreamStalled,
    adapt::{FoldReply, completion::assistant},
    budget::{CalibrationKey, PromptTokens},
    discard::Kept,
    report::{SinceLast, TurnReport},
    stream::RecordedStream,
    telemetry::ModelCall,
    tokens::has_fixed_cost,
};

/// A turn that has begun: its context is ready to be sent, nothing is stored yet.
///
/// Dropping it leaves the conversation as it was.
pub struct Turn(pub(super) Box<Begun>);

pub(super) struct Begun {
    /// Window, then input.
    pub(super) context: Vec<Message>,
    pub(super) window_len: usize,
    pub(super) choices: usize,
    pub(super) request: RequestInfo,
    /// The model's call, while it is under way.
    pub(super) call: Option<ModelCall>,
    pub(super) counting: Counting,
    pub(super) calibration: Option<CalibrationKey>,
    pub(super) basis: Option<Basis>,
    pub(super) has_gap: bool,
    pub(super) turns: usize,
    pub(super) made: Option<Made>,
    pub(super) keep: Stored,
    pub(super) target: Target,
    pub(super) ending: Ending,
}

/// Where and on what condition the exchange is appended.
pub(super) struct Target {
    pub(super) expect: Expect,
    pub(super) continues: Option<Seq>,
    /// The position that was next when the conversation was loaded, if it was.
    pub(super) next: Option<Seq>,
    /// Whether the caller chose the exchange's id.
    pub(super) has_caller_id: bool,
    pub(super) compact: Option<Compact>,
}

impl Turn {
    pub(super) fn new(begun: Begun) -> Self {
        Self(Box::new(begun))
    }

    /// The messages to send behind the caller's own head: the window, then the input. They obey the chat rules.
    #[must_use]
    pub fn context(&self) -> &[Message] {
        &self.0.context
    }

    /// The messages of the log to send, between the head and the input.
    #[must_use]
    pub fn window(&self) -> &[Message] {
        &self.0.context[..self.0.window_len]
    }

    /// The messages of this call.
    #[must_use]
    pub fn input(&self) -> &[Message] {
        &self.0.context[self.0.window_len..]
    }

    /// What the reply has to be limited to, in tokens, so that it fits behind the prompt: the request's own limit has to be
    /// lowered to it. `None` leaves the request as it is.
    #[must_use]
    pub fn reply_limit(&self) -> Option<u32> {
        self.0.ending.report.tokens.and_then(|tokens| tokens.reply_limit)
    }

    /// How many choices the request asks for.
    #[must_use]
    pub fn choices(&self) -> usize {
        self.0.choices
    }

    /// Notes how many of the window's messages the request's types could not carry whole.
    pub fn note_downgraded(&mut self, messages: usize) {
        self.0.ending.report.downgraded = messages;
    }

    /// Notes what happened to the conversation since this engine last saw it.
    pub(super) fn note_since_last(&mut self, since_last: Option<SinceLast>) {
        self.0.ending.report.since_last = since_last;
    }

    /// Stores the exchange: input and reply, as one record.
    ///
    /// From here on the reply will be stored, whoever polls or drops what: see [`Commit`].
    pub fn commit(mut self, reply: Reply) -> Commit {
        if let Some(call) = self.0.call.take() {
            call.ended_now(&reply);
        }
        let engine = self.engine().clone();
        Commit::new(&engine, self, reply)
    }

    /// Stores the exchange and hands the response on, for adapters: a failed save becomes [`Unsaved`](crate::Unsaved) with the response
    /// in it, or stays in the report, by [policy](OnSaveFailure). The exchange is committed at once, not at the first poll.
    pub fn record<R>(self, response: R, reply: Reply) -> impl Future<Output = Result<R, BoxError>> + Send + use<R>
    where
        R: Send + Sync + 'static,
    {
        let policy = self.engine().options().on_save_failure;
        let commit = self.commit(reply);
        let mut response = Kept::new(response);
        async move {
            let committed = commit.await;
            // It is there: nobody else takes it.
            let Some(response) = response.take() else { return future::pending().await };
            match committed {
                Err(failed) if policy == OnSaveFailure::Fail => Err(failed.with_response(response).into()),
                Ok(_) | Err(_) => Ok(response),
            }
        }
    }

    /// Passes a stream's items on untouched while it folds them into a reply, and stores the exchange when it is complete.
    ///
    /// `stalled` makes the last item of a stream that the [idle timeout](crate::HistoryOptions::stream_idle_timeout)
    /// ends before its reply is complete: without an error the stream would look as if it were.
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
        self.0.ending.report.streamed = true;
        let call = self.0.call.take();
        RecordedStream::new(stream.boxed(), Box::new(fold), Box::new(stalled), self, call)
    }

    /// Ends the turn without anything to store, and says why in its report.
    pub fn end(mut self, why: NotStored) {
        if let Some(call) = self.0.call.take() {
            call.ended_now(&Reply::default());
        }
        self.ended(Outcome::NotStored(why));
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.ending.engine
    }

    /// The position that was next when the conversation was loaded, if it was.
    pub(super) fn next(&self) -> Option<Seq> {
        self.0.target.next
    }

    /// Whether the caller chose the exchange's id.
    pub(super) fn has_caller_id(&self) -> bool {
        self.0.target.has_caller_id
    }

    pub(super) fn counting(&self) -> &Counting {
        &self.0.counting
    }

    /// Compares what was counted with what the provider reports.
    pub(super) fn learn(&mut self, usage: Option<Usage>) {
        let Begun { ending, calibration, request, context, .. } = &mut *self.0;
        let (Some(tokens), Some(usage)) = (&mut ending.report.tokens, usage) else { return };
        tokens.reported = Some(usage.input_tokens);
        // The fixed cost of an attachment is a guess: what the provider counts instead says nothing of the counter.
        let is_counted = || !request.head.iter().chain(&*context).any(has_fixed_cost);
        if let Some(key) = calibration.filter(|_| is_counted()) {
            ending.engine.shared.calibration.learn(key, tokens.prompt.total(), usage.input_tokens);
        }
    }

    /// What a summary needs to know of the turn, if it is over with this reply.
    pub(super) fn end_of_turn(&self, reply: &Message) -> Option<TurnEnd> {
        let Begun { context, basis, counting, has_gap, turns, ending, .. } = &*self.0;
        let basis = (*basis)?;
        // With the room that there is for a summary, as the next prompt will be planned.
        let prompt = PromptTokens { summary: basis.parts.summary, ..ending.report.tokens?.prompt };
        let reply_tokens = counting.message(reply);
        let end = TurnEnd {
            basis,
            counting: counting.clone(),
            tokens: prompt.total().saturating_add(reply_tokens),
            new_tokens: prompt.input.saturating_add(reply_tokens),
            messages: context.len().saturating_add(1),
            new_messages: context.len().saturating_sub(self.0.window_len).saturating_add(1),
            turns: *turns,
            has_gap: *has_gap,
            span: ending.span.clone(),
        };
        reply.tool_calls().is_empty().then_some(end)
    }

    /// The summary that is stored with the exchange.
    pub(super) fn made(&mut self) -> Option<Made> {
        self.0.made.take()
    }

    pub(crate) fn conversation(&self) -> &ConversationId {
        &self.0.ending.report.conversation
    }

    /// Takes apart what is to be stored, or says why there is nothing to store.
    pub(super) fn exchange(&mut self, reply: Reply) -> Result<(Expect, Exchange, Option<Compact>), NotStored> {
        let Begun { context, window_len, keep, target, ending, .. } = &mut *self.0;
        let mut messages = match std::mem::take(keep) {
            Stored::Nothing => return Err(NotStored::Asked),
            Stored::Instead(kept) => kept,
            Stored::Exchange => context.split_off(*window_len),
        };
        let why = reply.unreadable.map_or(NotStored::NoReply, NotStored::UnreadableReply);
        messages.push(assistant(reply.message.ok_or(why)?));
        if reply.incomplete {
            // The caller's id stays free: whoever repeats the call wants the whole reply, not half of it recorded for good.
            ending.report.exchange = ExchangeId::generate();
            target.has_caller_id = false;
        }
        let mut exchange = Exchange::new(ending.report.exchange.clone(), messages);
        exchange.continues = target.continues;
        exchange.model = reply.model;
        exchange.finish_reason = reply.finish_reason;
        exchange.usage = reply.usage;
        exchange.incomplete = reply.incomplete;
        Ok((target.expect, exchange, target.compact.take()))
    }

    /// The report, if that is what becomes of the exchange.
    pub(super) fn report_of(&self, outcome: Outcome) -> TurnReport {
        TurnReport { outcome, ..self.0.ending.report.clone() }
    }

    pub(super) fn ended(self, outcome: Outcome) -> Arc<TurnReport> {
        self.0.ending.tell(outcome)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("conversation", &self.0.ending.report.conversation)
            .field("exchange", &self.0.ending.report.exchange)
            .field("messages", &self.0.context.len())
            .finish_non_exhaustive()
    }
}
