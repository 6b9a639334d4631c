//! Reading a conversation: bounded in time, without the store's panics, and seen.

use std::time::Instant;

use tower_chat_history_core::{ConversationId, ExchangeId, Load, LoadLimit, Loaded};
use tracing::{Instrument as _, Span};

use super::{Engine, guard::StoreFailure};
use crate::HistoryError;

/// Tells how often a load is widened at most. A log of nothing but such openings must not be loaded whole.
const WIDENED: u32 = 4;

fn twice(limit: LoadLimit) -> LoadLimit {
    LoadLimit::new(limit.messages().saturating_mul(2), limit.bytes().saturating_mul(2)).unwrap_or(limit)
}

impl Engine {
    /// Asks for the window of the engine's profile within its load limit, or for that exchange if it is recorded.
    pub(super) fn window_or(&self, exchange: Option<&ExchangeId>) -> Load {
        let policy = self.options();
        let mut load = Load::new().profile(policy.profile.clone()).limit(policy.load_limit);
        load.exchange = exchange.cloned();
        load
    }

    /// Loads the conversation, for a turn that has that span.
    pub(super) async fn load(
        &self,
        conversation: &ConversationId,
        load: Load,
        turn: &Span,
    ) -> Result<Loaded, StoreFailure> {
        let (span, begun) = (self.recorder().load(turn), Instant::now());
        let loaded = self.load_whole_rounds(conversation, load).instrument(span.clone()).await;
        self.recorder().loaded(&span, loaded.as_ref().map_err(StoreFailure::kind), begun.elapsed());
        loaded
    }

    /// Loads a window; again, with a larger limit, where the limit lets it begin with what may belong to calls before
    /// it. An edited log may have such an opening. What is open would else depend on the limit.
    async fn load_whole_rounds(&self, conversation: &ConversationId, mut load: Load) -> Result<Loaded, StoreFailure> {
        let mut widened = 0;
        loop {
            let asked = load.clone();
            let mut loaded = self.bounded(async { self.store().load(conversation, asked).await }).await?;
            if let Loaded::Window(window) = &mut loaded {
                let begins = window.exchanges.first();
                let depends = window.truncated && begins.is_some_and(|first| !first.exchange.closes_open_calls());
                if depends && widened < WIDENED {
                    widened += 1;
                    load.limit = twice(load.limit);
                    continue;
                }
                // The next load need not find that out again: the window's start moves, as after any load that was cut.
                window.truncated |= widened > 0;
            }
            return Ok(loaded);
        }
    }
}

impl From<StoreFailure> for HistoryError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => Self::Load(error),
            StoreFailure::Timeout(after) => Self::LoadTimeout(after),
            StoreFailure::Panicked => Self::LoadPanicked,
        }
    }
}
