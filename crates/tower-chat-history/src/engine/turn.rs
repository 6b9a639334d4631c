//! A turn between its load and its commit.

use std::{fmt, sync::Arc};

use futures_core::Stream;
use futures_util::StreamExt as _;
use tower_chat_history_core::{Compact, Exchange, Expect, Message, Seq};

use super::{CallOptions, Commit, Engine, Reply, input::Keep, queue::QueuePermit};
use crate::{
    BoxError, NotStored, OnInterruption, OnSaveFailure, Outcome, SaveError, SaveFailed, adapt::FoldReply,
    report::TurnReport, stream::RecordedStream,
};

/// A turn that has begun: its context is ready to be sent, nothing is stored yet.
///
/// Dropping it leaves the conversation as it was.
pub struct Turn(Box<Begun>);

pub(super) struct Begun {
    pub(super) engine: Engine,
    /// Window, then input.
    pub(super) context: Vec<Message>,
    pub(super) window_len: usize,
    pub(super) choices: usize,
    pub(super) options: CallOptions,
    pub(super) target: Target,
    pub(super) report: TurnReport,
    /// Held until the exchange is stored or the turn is dropped.
    pub(super) permit: Option<QueuePermit>,
}

/// Where and on what condition the exchange is appended.
pub(super) struct Target {
    pub(super) expect: Expect,
    pub(super) continues: Option<Seq>,
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

    /// How many choices the request asks for.
    #[must_use]
    pub fn choices(&self) -> usize {
        self.0.choices
    }

    /// Notes how many of the window's messages the request's types could not carry whole.
    pub fn note_downgraded(&mut self, messages: usize) {
        self.0.report.downgraded = messages;
    }

    /// Stores the exchange: input and reply, as one record.
    ///
    /// The returned future is polled in place. If it is dropped before it is done, the save goes on where the
    /// [spawner](crate::Spawn) puts it.
    ///
    /// # Errors
    ///
    /// When the exchange could not be stored. What is not an error: the reply has no message, or the caller asked not to
    /// store (see [`Outcome`]).
    pub async fn commit(self, reply: Reply) -> Result<Arc<TurnReport>, Arc<SaveError>> {
        let report = self.into_commit(reply).await;
        match &report.outcome {
            Outcome::Failed(error) => Err(Arc::clone(error)),
            Outcome::Stored { .. } | Outcome::Duplicate { .. } | Outcome::NotStored(_) => Ok(report),
        }
    }

    /// Stores the exchange and hands the response on, for adapters: a failed save becomes [`SaveFailed`] with the response
    /// in it, or stays in the report, by [policy](OnSaveFailure).
    ///
    /// # Errors
    ///
    /// [`SaveFailed`], if the policy says so.
    pub async fn record<R>(self, response: R, reply: Reply) -> Result<R, BoxError>
    where
        R: Send + Sync + 'static,
    {
        let policy = self.0.engine.options().on_save_failure;
        match self.commit(reply).await {
            Err(error) if policy == OnSaveFailure::Fail => Err(SaveFailed::new(response, error).into()),
            Ok(_) | Err(_) => Ok(response),
        }
    }

    /// Passes a stream's items on untouched while it folds them into a reply, and stores the exchange when it is complete.
    pub fn record_stream<T, E>(
        self,
        stream: impl Stream<Item = Result<T, E>> + Send + 'static,
        fold: impl FoldReply<T>,
    ) -> RecordedStream<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        RecordedStream::new(stream.boxed(), Box::new(fold), self)
    }

    /// Registers the reply as complete. From here on it will be stored, whoever polls or drops what.
    pub(crate) fn into_commit(self, reply: Reply) -> Commit {
        let engine = self.0.engine.clone();
        Commit::new(&engine, self, reply)
    }

    /// The turn ends without anything to store.
    pub(crate) fn end(self, why: NotStored) -> Arc<TurnReport> {
        self.ended(Outcome::NotStored(why))
    }

    pub(crate) fn on_interruption(&self) -> OnInterruption {
        self.0.engine.options().on_interruption
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(super) fn conversation(&self) -> &tower_chat_history_core::ConversationId {
        &self.0.report.conversation
    }

    /// Takes apart what is to be stored, or says why there is nothing to store.
    pub(super) fn exchange(&mut self, reply: Reply) -> Result<(Expect, Exchange, Option<Compact>), NotStored> {
        let Begun { context, window_len, options, target, report, .. } = &mut *self.0;
        let mut messages = match std::mem::take(&mut options.store) {
            Keep::Nothing => return Err(NotStored::Asked),
            Keep::Instead(kept) => kept,
            Keep::Exchange => context.split_off(*window_len),
        };
        messages.push(reply.message.ok_or(NotStored::NoReply)?);
        let mut exchange = Exchange::new(report.exchange.clone(), messages);
        exchange.continues = target.continues;
        exchange.model = reply.model;
        exchange.finish_reason = reply.finish_reason;
        exchange.usage = reply.usage;
        exchange.incomplete = reply.incomplete;
        Ok((target.expect, exchange, target.compact.take()))
    }

    /// The report, if that is what becomes of the exchange.
    pub(super) fn report_of(&self, outcome: Outcome) -> TurnReport {
        TurnReport { outcome, ..self.0.report.clone() }
    }

    /// Closes the turn: tells the hook and the caller's handle, and lets the next one in the queue go on.
    pub(super) fn ended(self, outcome: Outcome) -> Arc<TurnReport> {
        let Begun { engine, options, mut report, permit, .. } = *self.0;
        report.outcome = outcome;
        let report = Arc::new(report);
        drop(permit);
        if let Some(hook) = &engine.options().on_turn {
            hook(&report);
        }
        if let Some(handle) = options.report {
            // Whoever asked for the report may have left.
            let _ = handle.send(Arc::clone(&report));
        }
        report
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("conversation", &self.0.report.conversation)
            .field("exchange", &self.0.report.exchange)
            .field("messages", &self.0.context.len())
            .finish_non_exhaustive()
    }
}
