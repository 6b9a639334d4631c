//! Storing an exchange: bounded in time, repeated under its id, never panicking.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;
use tower_chat_history_core::{
    Append, Appended, CompactOutcome, ConversationId, Exchange, ExchangeId, Loaded, Message, StoreError, Timestamp,
};
use tracing::{Instrument as _, Span};

use super::{
    Engine, Reply, Turn,
    last_seen::Sighting,
    retention::Added,
    summaries::{Made, TurnEnd},
    timer,
};
use crate::{Outcome, SaveError, TurnReport, error_chain::chain, telemetry::Saved};

/// The pause before the first repetition; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

impl Turn {
    /// Stores the exchange and ends the turn.
    pub(super) async fn save(mut self, reply: Reply) -> Arc<TurnReport> {
        self.learn(reply.usage);
        let end = reply.message.as_ref().and_then(|message| self.end_of_turn(message));
        let made = self.made();
        let outcome = match self.exchange(reply) {
            Err(why) => Outcome::NotStored(why),
            Ok((expect, exchange, compact)) => {
                let span = self.engine().recorder().save(self.span(), exchange.messages.len());
                let mut append = Append::new(expect, exchange);
                append.compact = compact;
                self.store(append, made, end, &span).instrument(span.clone()).await
            }
        };
        self.ended(outcome)
    }

    /// Stores the exchange, and does what is to be done once it is stored.
    async fn store(&self, mut append: Append, made: Option<Made>, end: Option<TurnEnd>, span: &Span) -> Outcome {
        let begun = Instant::now();
        let exchange = &mut append.exchange;
        let runtime = Handle::try_current().ok();
        exchange.tokens = self.counting().exchange(&exchange.messages, runtime.as_ref()).await;
        let (continues, incomplete, added) = (exchange.continues, exchange.incomplete, Added::of(exchange));
        let own = Own::of(exchange, self.has_caller_id());
        let cut = append.compact.as_ref().map(|compact| compact.cut.clone());
        let mut attempts = 0;
        let appended = self.append_with_or_without(append, &mut attempts).await;
        let is_duplicate = match &appended {
            Ok(appended) if appended.duplicate => !self.engine().is_own(self.conversation(), &own, attempts).await,
            Ok(_) | Err(_) => false,
        };
        let (engine, conversation) = (self.engine(), self.conversation());
        let took = begun.elapsed();
        let saved = Saved { appended: appended.as_ref(), is_duplicate, next: self.next(), attempts, took };
        engine.recorder().saved(span, &saved);
        let stored = match appended {
            Ok(stored) => stored,
            Err(error) => {
                tracing::error!(error.type = error.kind(), error = %chain(&error), "an exchange could not be stored");
                return Outcome::Failed(Arc::new(error));
            }
        };
        let has_cut = matches!(stored.compaction, Some(CompactOutcome::Stored(_))) || stored.duplicate && !is_duplicate;
        let last_seen = &engine.shared.last_seen;
        last_seen.saw(conversation, Sighting::of(stored.revision, cut.as_ref().filter(|_| has_cut)));
        // The turn is over, whichever call's exchange the log has.
        if let Some(made) = made {
            engine.keep_summary(conversation, &stored, made).await;
        }
        if let Some(end) = end {
            engine.summarize_after(conversation, end);
        }
        let (seq, revision) = (stored.seq, engine.retain(conversation, &stored, added).await);
        last_seen.saw(conversation, Sighting::of(revision, None));
        if is_duplicate {
            return Outcome::Duplicate { revision, seq };
        }
        // Attempts that broke off and results that were stored before stood there already.
        let moved = continues.is_some() && self.next().is_some_and(|next| next != seq);
        Outcome::Stored { revision, seq, moved, incomplete }
    }

    /// Appends; without the compaction, where the log has become another one meanwhile in which it breaks the rules. The
    /// exchange is paid for.
    async fn append_with_or_without(&self, append: Append, attempts: &mut u32) -> Result<Appended, SaveError> {
        let (engine, conversation) = (self.engine(), self.conversation());
        match engine.append(conversation, append.clone(), attempts).await {
            Err(SaveError::Store(StoreError::Compaction(error))) if append.compact.is_some() => {
                tracing::warn!(error = %chain(&error), "an exchange is stored without its compaction");
                engine.append(conversation, Append::new(append.expect, append.exchange), attempts).await
            }
            decided => decided,
        }
    }
}

impl Engine {
    /// Appends, and repeats what may pass: the exchange id makes a repetition harmless, also when the outcome is unknown.
    pub(super) async fn append(
        &self,
        conversation: &ConversationId,
        append: Append,
        attempts: &mut u32,
    ) -> Result<Appended, SaveError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..self.options().save_attempts {
            *attempts += 1;
            match self.append_once(conversation, append.clone()).await {
                Err(error) if may_pass(&error) => {
                    let kind = error.kind();
                    tracing::warn!(error.type = kind, error = %chain(&error), "storing an exchange failed; it is tried again");
                    timer::sleep(pause).await;
                    pause *= 2;
                }
                decided => return decided,
            }
        }
        *attempts += 1;
        self.append_once(conversation, append).await
    }

    /// Whether an exchange that the store found in the log already is this one: an attempt whose answer was lost had
    /// stored it.
    pub(super) async fn is_own(&self, conversation: &ConversationId, own: &Own, attempts: u32) -> bool {
        // Nobody else has a generated id. One attempt finds no other one of its own.
        if !own.has_caller_id || attempts < 2 {
            return !own.has_caller_id;
        }
        let asked = self.window_or(Some(&own.id));
        match self.bounded(async { self.store().load(conversation, asked).await }).await {
            Ok(Loaded::AlreadyRecorded(recorded)) => {
                recorded.exchange.at == own.at && recorded.exchange.messages == own.messages
            }
            // Of the two, this is the rarer case: another call under the same id, while this one's answer was lost.
            _ => true,
        }
    }

    async fn append_once(&self, conversation: &ConversationId, append: Append) -> Result<Appended, SaveError> {
        Ok(self.bounded(async { self.store().append(conversation, append).await }).await?)
    }
}

/// What tells an exchange from another one under the same id.
pub(super) struct Own {
    id: ExchangeId,
    /// Whether the caller chose the id.
    has_caller_id: bool,
    at: Timestamp,
    messages: Vec<Message>,
}

impl Own {
    pub(super) fn of(exchange: &Exchange, has_caller_id: bool) -> Self {
        let Exchange { id, at, messages, .. } = exchange;
        Self { id: id.clone(), has_caller_id, at: *at, messages: messages.clone() }
    }
}

fn may_pass(error: &SaveError) -> bool {
    match error {
        SaveError::Store(error) => StoreError::is_retryable(error),
        // A store may panic where its runtime is gone, and not in the next one.
        SaveError::Timeout(_) | SaveError::Panicked => true,
    }
}
