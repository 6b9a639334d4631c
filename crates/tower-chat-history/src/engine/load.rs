//! Reading a conversation: bounded in time, and seen.

use std::time::{Duration, Instant};

use tower_chat_history_core::{ConversationId, ExchangeId, Load, Loaded, StoreError};
use tracing::{Instrument as _, Span};

use super::{Engine, timer};
use crate::error::HistoryError;

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
    ) -> Result<Loaded, LoadFailure> {
        let (span, begun) = (self.recorder().load(turn), Instant::now());
        let loaded = self.store().load(conversation, load);
        let loaded = timer::timeout(self.options().store_timeout, loaded).instrument(span.clone()).await;
        let loaded = loaded.map_err(LoadFailure::Timeout).and_then(|loaded| loaded.map_err(LoadFailure::Store));
        self.recorder().loaded(&span, loaded.as_ref().map_err(LoadFailure::kind), begun.elapsed());
        loaded
    }
}

/// A load's failure, before policy.
pub(super) enum LoadFailure {
    Store(StoreError),
    Timeout(Duration),
}

impl LoadFailure {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Timeout(_) => "timeout",
        }
    }
}

impl From<LoadFailure> for HistoryError {
    fn from(failure: LoadFailure) -> Self {
        match failure {
            LoadFailure::Store(error) => Self::Load(error),
            LoadFailure::Timeout(after) => Self::LoadTimeout(after),
        }
    }
}
