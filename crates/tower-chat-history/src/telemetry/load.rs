//! The span of a load.

use std::time::Duration;

use tower_chat_history_core::Window;
use tracing::{Span, field::Empty, info_span, record_all};

use super::{
    names::{attributes, spans},
    recorder::{Recorder, int},
    turn::fail,
};

impl Recorder {
    /// A conversation is loaded.
    pub(crate) fn load(&self, turn: &Span) -> Span {
        if turn.is_disabled() {
            return Span::none();
        }
        info_span!(
            parent: turn,
            spans::LOAD,
            otel.kind = if self.is_in_process() { "internal" } else { "client" },
            otel.status_code = Empty,
            { attributes::ERROR_TYPE } = Empty,
            { attributes::OPERATION_NAME } = "search_memory",
            { attributes::DB_SYSTEM_NAME } = self.database(),
            { attributes::MEMORY_RECORD_COUNT } = Empty,
            { attributes::MESSAGES_LOADED } = Empty,
            { attributes::LOAD_TRUNCATED } = Empty,
            { attributes::VERSION } = Empty,
        )
    }

    /// It is loaded, or is not there; or that failed.
    pub(crate) fn loaded(&self, load: &Span, loaded: Result<Option<&Window>, &'static str>, took: Duration) {
        #[cfg(feature = "otel")]
        self.metrics.loaded(self.store, loaded.err(), took);
        #[cfg(not(feature = "otel"))]
        let _ = took;
        if load.is_disabled() {
            return;
        }
        match loaded {
            Err(kind) => fail(load, kind),
            Ok(None) => {
                record_all!(load, { attributes::MEMORY_RECORD_COUNT } = 0_i64, { attributes::MESSAGES_LOADED } = 0_i64);
            }
            Ok(Some(window)) => {
                let messages: usize = window.exchanges.iter().map(|recorded| recorded.exchange.messages.len()).sum();
                record_all!(
                    load,
                    { attributes::MEMORY_RECORD_COUNT } = int(window.exchanges.len()),
                    { attributes::MESSAGES_LOADED } = int(messages),
                    { attributes::LOAD_TRUNCATED } = window.truncated,
                    { attributes::VERSION } = int(window.revision.version()),
                );
            }
        }
    }
}
