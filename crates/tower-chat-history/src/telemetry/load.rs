//! The span of a load.

use std::time::Instant;

use tower_chat_history_context::plan::LoadedWindow;
use tower_chat_history_core::Recorded;
use tracing::{Span, field::Empty, info_span, record_all};

use super::{
    names::{attributes, spans},
    recorder::{Recorder, int},
    turn::fail,
};

/// A load in progress.
pub(crate) struct LoadStep<'a> {
    recorder: &'a Recorder,
    span: Span,
    begun: Instant,
}

impl Recorder {
    /// Begins the span of a load.
    pub(crate) fn load(&self, turn: &Span) -> LoadStep<'_> {
        let span = if turn.is_disabled() { Span::none() } else { self.load_span(turn) };
        LoadStep { recorder: self, span, begun: Instant::now() }
    }

    fn load_span(&self, turn: &Span) -> Span {
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
}

impl LoadStep<'_> {
    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    /// Records the exchanges that were loaded, and the window if it was loaded, or the kind of the error.
    pub(crate) fn ended(self, loaded: Result<(&[Recorded], Option<&LoadedWindow>), &'static str>) {
        let Self { recorder, span: load, begun } = &self;
        recorder.metrics.loaded(recorder.store, loaded.err(), begun.elapsed());
        if load.is_disabled() {
            return;
        }
        let (recorded, window) = match loaded {
            Err(kind) => return fail(load, kind),
            Ok(loaded) => loaded,
        };
        if let Some(window) = window {
            record_all!(
                load,
                { attributes::LOAD_TRUNCATED } = window.truncated,
                { attributes::VERSION } = int(window.revision.version()),
            );
        }
        let messages: usize = recorded.iter().map(|recorded| recorded.exchange.messages.len()).sum();
        record_all!(
            load,
            { attributes::MEMORY_RECORD_COUNT } = int(recorded.len()),
            { attributes::MESSAGES_LOADED } = int(messages),
        );
    }
}
