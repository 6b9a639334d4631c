//! The exporter of an engine's spans and metrics.
//!
//! # Decisions
//!
//! - **Spans and metrics are derived from the report**, so hooks get the same figures without tracing.

use std::{fmt, sync::Arc};

use crate::context::{
    RequestInfo,
    budget::PromptTokens,
    tokens::{TokenCounter, tokens_of},
};
use tower_chat_history_core::{ConversationId, Message, Prefix, Profile};
use tracing::{Span, record_all};

use super::{Telemetry, names::attributes, otel::Metrics, prefix_cache::PrefixCache};

/// Exports an engine's spans and metrics. A clone shares the state between turns.
#[derive(Clone)]
pub(crate) struct Recorder {
    pub(super) telemetry: Telemetry,
    /// The name of the store ([`HistoryStore::system`](tower_chat_history_core::HistoryStore::system)).
    pub(super) store: &'static str,
    pub(super) profile: Profile,
    prefix_cache: Arc<PrefixCache>,
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

    /// Adds a number, which may be negative, to the number of pending saves.
    pub(crate) fn pending(&self, saves: i64) {
        self.metrics.pending(saves);
    }

    /// Forgets the prompts of the conversations under the prefix.
    pub(crate) fn forget(&self, under: &Prefix) {
        self.prefix_cache.forget(under);
    }

    /// Remembers this prompt, and returns its cached prefix, in tokens.
    pub(crate) fn cached_prefix<'a>(
        &self,
        conversation: &ConversationId,
        request: &'a RequestInfo,
        sizes: &PromptTokens,
        messages: impl Iterator<Item = &'a Message>,
        counter: &dyn TokenCounter,
    ) -> Option<u64> {
        let schemas = [
            (request.tools.as_deref().unwrap_or_default(), sizes.tools),
            (request.response_format.as_deref().unwrap_or_default(), sizes.response_format),
        ];

        let messages = request.head.iter().chain(messages);
        let messages = messages.map(|message| (message.json(), u64::from(tokens_of(counter, message))));
        self.prefix_cache.common_prefix(conversation, schemas.into_iter().chain(messages))
    }

    /// Returns the exported form of the conversation's id, or `None` if ids are not exported.
    pub(super) fn name_of(&self, id: &ConversationId) -> Option<String> {
        self.telemetry.name_of(id)
    }

    /// Returns the name of the store's database, if it is one.
    pub(super) fn database(&self) -> Option<&'static str> {
        Some(self.store).filter(|store| !["memory", "routed"].contains(store))
    }

    /// Returns `true` if the store is in the memory of this process.
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

/// Returns a number as an attribute. OpenTelemetry's integers have at most 63 bits, so larger numbers are clamped.
pub(super) fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Records an error in a span.
pub(crate) fn fail(span: &Span, kind: &str) {
    record_all!(span, otel.status_code = "ERROR", { attributes::ERROR_TYPE } = kind);
}
