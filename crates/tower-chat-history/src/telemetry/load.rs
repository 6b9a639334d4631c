//! The span of a load.

use std::time::Duration;

use tower_chat_history_core::Loaded;
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
            { attributes::STORE } = self.store,
            { attributes::DB_SYSTEM_NAME } = self.database(),
            { attributes::MEMORY_RECORD_COUNT } = Empty,
            { attributes::MESSAGES_LOADED } = Empty,
            { attributes::LOAD_TRUNCATED } = Empty,
            { attributes::VERSION } = Empty,
        )
    }

    /// It is loaded, or is not there; or that failed, with an error of that kind.
    pub(crate) fn loaded(&self, load: &Span, loaded: Result<&Loaded, &'static str>, took: Duration) {
        self.metrics.loaded(self.store, loaded.err(), took);
        if load.is_disabled() {
            return;
        }
        let recorded = match loaded {
            Err(kind) => return fail(load, kind),
            Ok(Loaded::Window(window)) => {
                record_all!(
                    load,
                    { attributes::LOAD_TRUNCATED } = window.truncated,
                    { attributes::VERSION } = int(window.revision.version()),
                );
                window.exchanges.as_slice()
            }
            Ok(Loaded::AlreadyRecorded(recorded)) => std::slice::from_ref(recorded),
            Ok(Loaded::Absent | Loaded::Unchanged) => &[],
        };
        let messages: usize = recorded.iter().map(|recorded| recorded.exchange.messages.len()).sum();
        record_all!(
            load,
            { attributes::MEMORY_RECORD_COUNT } = int(recorded.len()),
            { attributes::MESSAGES_LOADED } = int(messages),
        );
    }
}
