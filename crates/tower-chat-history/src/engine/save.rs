//! Storing an exchange: bounded in time, repeated under its id, never panicking.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use tower_chat_history_core::{Append, Appended, StoreError};
use tracing::{Instrument as _, Span};

use super::{
    Reply, Turn,
    retention::Added,
    summaries::{Made, TurnEnd},
    timer,
};
use crate::{Outcome, SaveError, TurnReport, telemetry::Saved};

/// The pause before the first repetition; each further one is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);

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
        exchange.tokens = self.counting().exchange(&exchange.messages, self.runtime()).await;
        let (continues, incomplete, added) = (exchange.continues, exchange.incomplete, Added::of(exchange));
        let mut attempts = 0;
        let appended = self.append_with_or_without(append, &mut attempts).await;
        let (engine, conversation) = (self.engine(), self.conversation());
        let saved = Saved { appended: appended.as_ref(), next: self.next(), attempts, took: begun.elapsed() };
        engine.recorder().saved(span, &saved);
        match appended {
            Ok(Appended { revision, seq, duplicate: true, .. }) => Outcome::Duplicate { revision, seq },
            Ok(stored) => {
                let seq = stored.seq;
                // Attempts that broke off and results that were stored before stood there already.
                let moved = continues.is_some() && self.next().is_some_and(|next| next != seq);
                if let Some(made) = made {
                    engine.keep_summary(conversation, &stored, made, self.runtime()).await;
                }
                if let Some(end) = end {
                    engine.summarize_after(conversation, end);
                }
                let revision = engine.retain(conversation, &stored, added, self.runtime()).await;
                Outcome::Stored { revision, seq, moved, incomplete }
            }
            Err(error) => {
                tracing::error!(error.type = error.kind(), "an exchange could not be stored");
                Outcome::Failed(Arc::new(error))
            }
        }
    }

    /// Appends; without the compaction, where the log has become another one meanwhile in which it breaks the rules. The
    /// exchange is paid for.
    async fn append_with_or_without(&self, append: Append, attempts: &mut u32) -> Result<Appended, SaveError> {
        match self.append(append.clone(), attempts).await {
            Err(SaveError::Store(StoreError::Compaction(error))) if append.compact.is_some() => {
                tracing::warn!(error = %error, "an exchange is stored without its compaction");
                self.append(Append::new(append.expect, append.exchange), attempts).await
            }
            decided => decided,
        }
    }

    /// Appends, and repeats what may pass: the exchange id makes a repetition harmless, also when the outcome is unknown.
    async fn append(&self, append: Append, attempts: &mut u32) -> Result<Appended, SaveError> {
        let options = self.engine().options();
        let mut pause = FIRST_PAUSE;
        for _ in 1..options.save_attempts {
            *attempts += 1;
            match self.append_once(append.clone()).await {
                Err(error) if may_pass(&error) => {
                    tracing::warn!(error.type = error.kind(), "storing an exchange failed; it is tried again");
                    if let Some(runtime) = self.runtime() {
                        timer::sleep(runtime, pause).await;
                    }
                    pause *= 2;
                }
                decided => return decided,
            }
        }
        *attempts += 1;
        self.append_once(append).await
    }

    async fn append_once(&self, append: Append) -> Result<Appended, SaveError> {
        let store = self.engine().store();
        let append = AssertUnwindSafe(store.append(self.conversation(), append)).catch_unwind();
        let limit = self.engine().options().store_timeout;
        let appended = timer::timeout(self.runtime(), limit, append).await.map_err(SaveError::Timeout)?;
        appended.map_err(|_| SaveError::Panicked)?.map_err(SaveError::Store)
    }
}

pub(super) fn may_pass(error: &SaveError) -> bool {
    match error {
        SaveError::Store(error) => StoreError::is_retryable(error),
        SaveError::Timeout(_) => true,
        SaveError::Panicked => false,
    }
}
