//! What an engine exports with.

use std::{fmt, sync::Arc};

use tower_chat_history_core::{ConversationId, Profile};

#[cfg(feature = "otel")]
use super::metrics::Metrics;
use super::{Telemetry, warmth::Warmth};

/// What an engine exports with: the options, the store's name, and what is remembered between turns. A clone shares it.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(super) telemetry: Telemetry,
    /// The store, by the name that it gives itself.
    pub(super) store: &'static str,
    pub(super) profile: Profile,
    pub(super) warmth: Arc<Warmth>,
    #[cfg(feature = "otel")]
    pub(super) metrics: Metrics,
}

impl Recorder {
    pub(crate) fn new(telemetry: &Telemetry, store: &'static str, profile: &Profile) -> Self {
        Self {
            store,
            profile: profile.clone(),
            warmth: Arc::default(),
            #[cfg(feature = "otel")]
            metrics: Metrics::new(telemetry.meter.as_ref()),
            telemetry: telemetry.clone(),
        }
    }

    /// So many more saves are pending, or fewer.
    pub(crate) fn pending(&self, saves: i64) {
        #[cfg(feature = "otel")]
        self.metrics.pending(saves);
        #[cfg(not(feature = "otel"))]
        let _ = saves;
    }

    /// What the conversation is called, if it is.
    pub(super) fn name_of(&self, id: &ConversationId) -> Option<String> {
        self.telemetry.name_of(id)
    }

    /// The database that the store stands on, if it is one.
    pub(super) fn database(&self) -> Option<&'static str> {
        (!self.is_in_process()).then_some(self.store)
    }

    /// Whether the store is this process's memory.
    pub(super) fn is_in_process(&self) -> bool {
        self.store == "memory"
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("telemetry", &self.telemetry)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// A number as an attribute. OpenTelemetry has no larger ones.
pub(super) fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
