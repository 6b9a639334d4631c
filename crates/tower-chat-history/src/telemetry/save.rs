//! The span of a save.

use std::time::{Duration, Instant};

use tower_chat_history_core::{Appended, CompactOutcome, Seq, StoreError};
use tracing::{Span, field::Empty, info_span, record_all};

use super::{
    names::{attributes, spans},
    recorder::{Recorder, int},
    turn::fail,
};
use crate::error::SaveError;

/// The result of a save.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved<'a> {
    pub(super) appended: Result<&'a Appended, &'a SaveError>,
    /// True if another call has stored an exchange with this id.
    pub(super) is_duplicate: bool,
    /// The position of the log's next exchange at the time of the load, if the log could be loaded.
    pub(super) next: Option<Seq>,
    pub(super) attempts: u32,
    pub(super) took: Duration,
}

impl Saved<'_> {
    /// Returns the outcome of the save if another exchange was stored between load and save.
    pub(super) fn conflict(&self) -> Option<&'static str> {
        match self.appended {
            // A retry that finds the exchange of its own earlier attempt is not a conflict.
            Ok(Appended { duplicate: true, .. }) => self.is_duplicate.then_some("duplicate"),
            Ok(appended) => self.next.filter(|next| *next < appended.seq).map(|_| "rebased"),
            Err(SaveError::Store(StoreError::Conflict { .. } | StoreError::Gone)) => Some("rejected"),
            Err(_) => None,
        }
    }
}

/// A save in progress.
pub(crate) struct SaveStep<'a> {
    recorder: &'a Recorder,
    span: Span,
    begun: Instant,
}

impl Recorder {
    /// Begins the span of the save of an exchange with this number of messages.
    pub(crate) fn save(&self, turn: &Span, messages: usize) -> SaveStep<'_> {
        let span = if turn.is_disabled() { Span::none() } else { self.save_span(turn, messages) };
        SaveStep { recorder: self, span, begun: Instant::now() }
    }

    fn save_span(&self, turn: &Span, messages: usize) -> Span {
        info_span!(
            parent: turn,
            spans::SAVE,
            otel.kind = if self.is_in_process() { "internal" } else { "client" },
            otel.status_code = Empty,
            { attributes::ERROR_TYPE } = Empty,
            { attributes::OPERATION_NAME } = "create_memory",
            { attributes::STORE } = self.store,
            { attributes::DB_SYSTEM_NAME } = self.database(),
            { attributes::MEMORY_RECORD_COUNT } = 1_i64,
            { attributes::MESSAGES_SAVED } = int(messages),
            { attributes::VERSION } = Empty,
            { attributes::SAVE_ATTEMPTS } = Empty,
            { attributes::SAVE_CONFLICT } = Empty,
            { attributes::SAVE_COMPACTION } = Empty,
        )
    }
}

impl SaveStep<'_> {
    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    /// Records the result of a save after this number of attempts. `is_duplicate` is true if another call has stored an
    /// exchange with its id. `next` is the position of the log's next exchange at the time of the load.
    pub(crate) fn ended(
        self,
        appended: Result<&Appended, &SaveError>,
        is_duplicate: bool,
        next: Option<Seq>,
        attempts: u32,
    ) {
        let Self { recorder, span: save, begun } = &self;
        let saved = Saved { appended, is_duplicate, next, attempts, took: begun.elapsed() };
        recorder.metrics.saved(recorder.store, &saved);
        if save.is_disabled() {
            return;
        }
        record_all!(
            save,
            { attributes::SAVE_ATTEMPTS } = i64::from(saved.attempts),
            { attributes::SAVE_CONFLICT } = saved.conflict(),
        );
        match saved.appended {
            Ok(appended) => {
                let compaction = appended.compaction.as_ref().map(|outcome| match outcome {
                    CompactOutcome::Stored(_) => "stored",
                    CompactOutcome::Kept(_) => "outdated",
                });
                record_all!(
                    save,
                    { attributes::VERSION } = int(appended.revision.version()),
                    { attributes::SAVE_COMPACTION } = compaction,
                );
            }
            Err(error) => fail(save, error.kind()),
        }
    }
}
