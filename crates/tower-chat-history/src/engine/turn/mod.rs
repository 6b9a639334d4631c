//! A turn, from its admission to the work after its save.
//!
//! This file has the steps of a turn, from top to bottom. [`begin`] admits the call, waits for earlier ones, loads the
//! conversation, plans the prompt, and, if they are due, summarizes and recalls. The caller then calls the model, and
//! commits the reply, which [saves](TurnState::save) the exchange and does the work [after](TurnState::after) it. The
//! other files have the details of each step.
//!
//! # Decisions
//!
//! - **No permit is held during a wait.** If waiting calls kept the inner service's permit, the calls of one
//!   conversation could hold all of them. So `before_wait` is called before each wait for another call, a save, a
//!   repair or a summary. A load, a count of conversations and a search of recall keep the permit.
//! - **Limits refuse a call before the model is called, never at its save**, because the reply was paid for.
//! - **A panic of a program's code reaches its caller.** It's caught only where it would reach others: in drops, on
//!   threads that calls share, in the hook `on_turn`, and in saves, which the next call and a drain poll too.
//! - **The futures of rare steps are boxed**, because a future is as large as its largest step, and every call would
//!   pay for it. The values that go from step to step are boxed, too, because a future has room for each argument of
//!   each function in it.

mod call;
mod handle;
mod history;
mod limits;
mod plan;
mod reader;
mod remedy;
mod save;
mod state;
pub mod stream;
mod summarize;

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_core::Stream;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::runtime::Handle;
use tower_chat_history_core::{Appended, CompactOutcome, ConversationId, Exchange};
use tracing::{Instrument as _, Span};

use self::{
    call::Call,
    history::{LoadedHistory, load},
    limits::{admit, check_named, check_plan},
    plan::plan_turn,
    state::TurnState,
    stream::RecordedStream,
};
use super::{
    last_seen::CompactionPositions,
    parts::Parts,
    recall::{RecallResult, Search},
    repairs::Lessons,
    retention::ExchangeFacts,
    saves::Commit,
};
use crate::{
    call::{FoldReply, Reply, TurnInput},
    context::plan::Plan,
    error::{HistoryError, SaveError, StreamStalled},
    report::{TurnOutcome, TurnReport},
    telemetry::{CallProperties, Recorder},
};

/// Begins a turn. Calls `before_wait` before each wait for another call, a save, a repair or a summary. A caller that
/// holds a resource which these may need, such as a permit of the inner service, releases it then.
pub(super) async fn begin(
    parts: &Arc<Parts>,
    input: Box<TurnInput>,
    before_wait: &mut (dyn FnMut() + Send),
) -> Result<Turn, HistoryError> {
    let span = parts.recorder().turn(&input.conversation);
    let guard = BeginGuard { recorder: parts.recorder(), span: &span, is_over: false };
    let turn = begin_in_span(Arc::clone(parts), input, span.clone(), before_wait).instrument(span.clone()).await;
    guard.end(turn.as_ref().err());
    turn
}

/// Begins a turn within its span.
async fn begin_in_span(
    parts: Arc<Parts>,
    input: Box<TurnInput>,
    span: Span,
    before_wait: &mut (dyn FnMut() + Send),
) -> Result<Turn, HistoryError> {
    // Admit.
    let mut call = Box::new(Call::new(parts, *input, span)?);
    let parts = &call.parts;
    match &call.exchange {
        Some(exchange) => Box::pin(check_named(&call, exchange)).await?,
        None => admit(&call)?,
    }

    // Wait.
    let permit = parts.wait_for_earlier(&call.conversation, &call.span, before_wait).await?;

    // Load. The corrections of a conversation that does not exist any more are forgotten.
    let mut loaded = load(&call).await?;
    if call.take_learned(&loaded) {
        loaded = Box::pin(load(&call)).await?.after(loaded);
    }
    let parts = &call.parts;
    if call.exchange.is_some() {
        // A call that is repeated is answered from the log, whatever the limits are.
        admit(&call)?;
    }
    if loaded.is_absent()
        && let Some(key) = call.calibration_key()
    {
        parts.calibration.forget(key);
    }
    let mut seen = parts.last_seen.sighting(&call.conversation, loaded.window.as_ref());

    // Plan.
    let mut planned = plan_turn(&call, &loaded).await?;
    check_plan(&call, &loaded, &planned.plan).await?;

    // Summarize, and plan again.
    let mut summary = None;
    if let Some(job) = summarize::wanted(&call, &loaded, &planned.plan) {
        before_wait();
        summary = Box::pin(summarize::summarize(&call, job, &mut loaded, &mut planned)).await?;
        if planned.pending_summary().is_none() {
            seen.now = loaded.window.as_ref().map(CompactionPositions::of_window);
        }
    }

    // Recall.
    if planned.plan.recallable.is_some() {
        planned.recall = Box::pin(recall(&call, &loaded, &planned.plan)).await;
    }

    let changes = parts.last_seen.changes(&call.conversation, &seen);
    Ok(Turn(TurnState::new(call, permit, loaded, planned, changes, summary)))
}

/// Searches messages to show again before the input. Returns `None` if there is nothing to recall.
async fn recall(call: &Call, loaded: &LoadedHistory, plan: &Plan) -> Option<RecallResult> {
    let search = Search {
        conversation: &call.conversation,
        dialect: call.dialect,
        input: &call.input,
        window: loaded.window.as_ref(),
        plan,
        counting: &call.counting,
        span: &call.span,
    };
    call.parts.recall.as_ref()?.search(search).await
}

/// Records a turn that does not begin, in its span and in metrics: as refused after an error, or as abandoned if the
/// guard is dropped because the caller has left.
struct BeginGuard<'a> {
    recorder: &'a Recorder,
    span: &'a Span,
    is_over: bool,
}

impl BeginGuard<'_> {
    /// Ends the guard of a turn that has begun, or that this error refused.
    fn end(mut self, error: Option<&HistoryError>) {
        self.is_over = true;
        if error.is_some() {
            self.recorder.not_begun(self.span, error);
        }
    }
}

impl Drop for BeginGuard<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.recorder.not_begun(self.span, None);
        }
    }
}

/// A turn that has begun: its context is ready to be sent, and nothing is stored yet.
///
/// If it is dropped, the conversation stays as it was.
pub struct Turn(Box<TurnState>);

impl Turn {
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
        let reply_limit = self.reply_limit();
        let is_abridged = self.0.is_abridged();
        let TurnState { call, context, model_call, .. } = &mut *self.0;
        let properties = CallProperties {
            conversation: Some(&call.conversation),
            request: &call.request,
            choices: call.choices,
            reply_limit,
            context,
            is_abridged,
        };
        model_call.insert(call.parts.recorder().call(&call.span, &properties)).called_in().clone()
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
        self.0.loaded = None;
        let call = self.0.model_call.take();
        RecordedStream::new(stream.boxed(), Box::new(fold), Box::new(stalled), self, call)
    }

    /// Stores the exchange: input and reply, as one record.
    ///
    /// The save continues even if the returned future is dropped: see [`Commit`].
    pub fn commit(mut self, reply: Reply) -> Commit {
        if let Some(call) = self.0.model_call.take() {
            call.ended_now(&reply);
        }
        let parts = Arc::clone(self.parts());
        let runtime = self.runtime().clone();
        let conversation = self.conversation().clone();
        Commit::new(&parts.in_flight, runtime, conversation, reply, move |reply| self.finish(reply))
    }

    /// Stores the exchange and ends the turn. The conversation's next call and a drain poll this, too, so a panic must
    /// not reach them.
    async fn finish(mut self, reply: Reply) -> Arc<TurnReport> {
        let saved = AssertUnwindSafe(self.0.save(reply)).catch_unwind().await;
        self.ended(saved.unwrap_or_else(|_| {
            tracing::error!("a save panicked");
            TurnOutcome::Failed(Arc::new(SaveError::Panicked))
        }))
    }

    /// Ends the turn, reports it, and also sends the report to the caller's handle.
    fn ended(mut self, outcome: TurnOutcome) -> Arc<TurnReport> {
        let report = self.0.report(outcome);
        if let Some(handle) = self.0.call.report.take() {
            handle.send(Arc::clone(&report));
        }
        report
    }

    fn parts(&self) -> &Arc<Parts> {
        &self.0.call.parts
    }

    /// Returns the runtime in which the turn began.
    fn runtime(&self) -> &Handle {
        &self.0.call.runtime
    }

    fn conversation(&self) -> &ConversationId {
        &self.0.call.conversation
    }
}

impl TurnState {
    /// Saves the exchange, and does the work after it.
    async fn save(&mut self, reply: Reply) -> TurnOutcome {
        self.learn(reply.usage);
        let mut append = match self.new_append(reply) {
            Ok(append) => append,
            Err(outcome) => return outcome,
        };

        let step = self.call.parts.recorder().save(&self.call.span, append.exchange.messages.len());
        let span = step.span().clone();
        let work = async {
            match self.store_exchange(&mut append, step).await {
                Ok((stored, by_other_call)) => self.after(&append.exchange, &stored, by_other_call).await,
                Err(outcome) => outcome,
            }
        };
        work.instrument(span).await
    }

    /// Does the work after the exchange was stored: remembers its positions, begins a summary, prunes, and prepares
    /// recall, as far as these are due. Returns the turn's outcome. `by_other_call` is true if another call has stored
    /// an exchange under the same id.
    async fn after(&self, exchange: &Exchange, stored: &Appended, by_other_call: bool) -> TurnOutcome {
        let Self { call, planned, .. } = self;
        let parts = &call.parts;
        let conversation = &call.conversation;
        let seq = stored.seq;
        let incomplete = exchange.incomplete;
        let incarnation = stored.revision.incarnation();
        if planned.revision.is_some_and(|loaded| loaded.incarnation() != incarnation) {
            // The loaded log ended during the turn, by a deletion, an erasure or a truncation, and the new log had the
            // exchange already. The summary and the positions of this turn are of the old log.
            let revision = stored.revision;
            return if by_other_call {
                TurnOutcome::Duplicate { revision, seq }
            } else {
                TurnOutcome::Stored { revision, seq, moved: false, incomplete }
            };
        }

        // Remember the positions of the compaction. A duplicate that no other call has stored is this exchange, stored
        // by an attempt whose answer was lost. A repair that is not stored with it is stored in the background.
        let has_cut =
            matches!(stored.compaction, Some(CompactOutcome::Stored(_))) || stored.duplicate && !by_other_call;
        let cut = planned.plan.fit.cut.as_ref();
        let stored_cut = cut.filter(|_| has_cut);
        parts.last_seen.update(conversation, CompactionPositions::of(stored.revision, stored_cut));
        let lessons = Lessons {
            encrypted_from: self.repaired.filter(|_| !has_cut || call.has_own_profile()),
            learned: self.learned(exchange, stored.revision.next()),
        };
        if !lessons.is_empty() {
            parts.repairs.start(call.store(), conversation, incarnation, lessons);
        }

        // Summarize. This runs even if the log has the exchange of another call under the same id, because the turn is
        // over in this case too.
        if let Some(summaries) = call.summaries() {
            if let Some(pending) = planned.pending_summary()
                && let Some(cut) = Box::pin(summaries.store_pending(conversation, stored, pending)).await
            {
                parts.last_seen.update(conversation, CompactionPositions::of(stored.revision, Some(&cut)));
            }
            if let Some(end) = self.summary_facts(exchange) {
                summaries.after_turn(conversation, end);
            }
        }

        // Prune.
        let revision = parts.retain(conversation, stored, ExchangeFacts::of(exchange)).await;
        if revision != stored.revision {
            parts.last_seen.update(conversation, CompactionPositions::of(revision, None));
        }

        // Prepare recall.
        if let Some(recall) = &parts.recall {
            let loaded = self.changes.window_start;
            let start = stored_cut.map_or(loaded, |cut| cut.window_start.max(loaded));
            let has_unprepared = planned.recall.as_ref().is_some_and(|recall| recall.has_unprepared);
            let is_unfinished = has_unprepared || recall.is_unfinished(conversation);
            if is_unfinished || self.changes.window_moved || start > loaded {
                recall.prepare(conversation, call.dialect, revision, start, &call.span);
            }
        }

        if by_other_call {
            return TurnOutcome::Duplicate { revision, seq };
        }
        // Exchanges that were already in the log at the load (partial replies, stored results) do not make the
        // exchange moved.
        let moved = exchange.continues.is_some() && planned.next.is_some_and(|next| next != seq);
        TurnOutcome::Stored { revision, seq, moved, incomplete }
    }
}
