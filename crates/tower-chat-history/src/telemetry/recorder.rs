//! What an engine exports with.

use std::{fmt, sync::Arc};

use tower_chat_history_core::{ConversationId, Profile};

use super::{Telemetry, metrics::Metrics, prefix_cache::PrefixCache};

/// What an engine exports with: the options, the store's name, and what is remembered between turns. A clone shares it.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(super) telemetry: Telemetry,
    /// The store, by the name that it gives itself.
    pub(super) store: &'static str,
    pub(super) profile: Profile,
    pub(super) prefix_cache: Arc<PrefixCache>,
    pub(super) metrics: Metrics,
}

impl Recorder {
    pub(crate) fn new(telemetry: &Telemetry, store: &'static str, profile: &Profile) -> Self {
        Self {
            store,
            profile: profile.clone(),
            prefix_cache: Arc::default(),
            metrics: Metrics::new(telemetry),
            telemetry: telemetry.clone(),
        }
    }

    /// So many more saves are pending, or fewer.
    pub(crate) fn pending(&self, saves: i64) {
        self.metrics.pending(saves);
    }

    /// What the conversation is called, if it is.
    pub(super) fn name_of(&self, id: &ConversationId) -> Option<String> {
        self.telemetry.name_of(id)
    }

    /// The database that the store stands on, if it is known to be one.
    pub(super) fn database(&self) -> Option<&'static str> {
        Some(self.store).filter(|store| !["memory", "routed"].contains(store))
    }

    /// Returns whether the store is this process's memory.
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
