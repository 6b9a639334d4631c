//! Storing an exchange: bounded in time, repeated under its id, never panicking.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tower_chat_history_core::{Append, Appended, StoreError};

use super::{Reply, Turn, timer};
use crate::{Outcome, SaveError, TurnReport};

/// The pause before the first repetition; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

impl Turn {
    /// Stores the exchange and ends the turn.
    pub(super) async fn save(mut self, reply: Reply) -> Arc<TurnReport> {
        self.learn(reply.usage);
        let outcome = match self.exchange(reply) {
            Err(why) => Outcome::NotStored(why),
            Ok((expect, mut exchange, compact)) => {
                exchange.tokens = self.counting().exchange(&exchange.messages, self.runtime()).await;
                let (continues, incomplete) = (exchange.continues, exchange.incomplete);
                let mut append = Append::new(expect, exchange);
                append.compact = compact;
                match self.append(append).await {
                    Ok(Appended { revision, seq, duplicate: true, .. }) => Outcome::Duplicate { revision, seq },
                    Ok(Appended { revision, seq, .. }) => {
                        let moved = continues.is_some_and(|continues| continues.next() != seq);
                        Outcome::Stored { revision, seq, moved, incomplete }
                    }
                    Err(error) => {
                        tracing::error!(error.type = error.kind(), "an exchange could not be stored");
                        Outcome::Failed(Arc::new(error))
                    }
                }
            }
        };
        self.ended(outcome)
    }

    /// Appends, and repeats what may pass: the exchange id makes a repetition harmless, also when the outcome is unknown.
    async fn append(&self, append: Append) -> Result<Appended, SaveError> {
        let options = self.engine().options();
        let mut pause = FIRST_PAUSE;
        for _ in 1..options.save_attempts {
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

fn may_pass(error: &SaveError) -> bool {
    match error {
        SaveError::Store(error) => StoreError::is_retryable(error),
        SaveError::Timeout(_) => true,
        SaveError::Panicked => false,
    }
}
