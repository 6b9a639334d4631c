//! Reading a conversation: bounded in time, without the store's panics, and seen.

use std::time::Instant;

use tower_chat_history_core::{ConversationId, ExchangeId, Load, Loaded};
use tracing::{Instrument as _, Span};

use super::{Engine, guard::StoreFailure};
use crate::HistoryError;

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
        let loaded = self.bounded(async { self.store().load(conversation, load).await });
        let loaded = loaded.instrument(span.clone()).await;
        self.recorder().loaded(&span, loaded.as_ref().map_err(StoreFailure::kind), begun.elapsed());
        loaded
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
