//! Loading a call's conversation.

use tower_chat_history_core::{ConversationId, Cut, Cuts, Dialect, DialectName, Epoch, Recorded, Seq, StoreError};

use super::{
    super::store::Found,
    Call,
    translate::{Translations, check_turn, in_dialect, read_each},
};
use crate::{
    context::plan::{self, History, LoadedWindow, TranscriptError},
    error::{DialectPlace, HistoryError, OtherDialect},
    policy::OnLoadFailure,
    report::HistoryStatus,
};

/// The history that was loaded for a call.
#[derive(Clone)]
pub(in crate::engine) struct LoadedHistory {
    pub(super) status: HistoryStatus,
    pub(in crate::engine) window: Option<LoadedWindow>,
    /// The epoch of the load, if the conversation does not exist.
    epoch: Epoch,
    /// The caller's transcript, if the history could not be loaded. It is then used as history.
    resent: Vec<Recorded>,
    /// The number of messages that were loaded.
    pub(super) messages: usize,
    /// True if the window is that of an earlier cut, under which the turn continues.
    pub(super) is_pinned: bool,
    /// The stored cut, if the window is under another one.
    stored: Option<Box<Cut>>,
    /// True if the window leaves out encrypted elements that the stored cut does not leave out.
    pub(super) is_repaired: bool,
    /// The difference between transcript and log, if there is one under `OnTranscriptMismatch::TrustLog`.
    pub(super) mismatch: Option<TranscriptError>,
    /// The translations of the window's exchanges, if some are in another dialect than that of the call.
    pub(super) translations: Option<Translations>,
}

impl Call {
    /// Loads the conversation and compares it with the transcript.
    pub(in crate::engine) async fn load_history(&self) -> Result<LoadedHistory, HistoryError> {
        let options = self.engine.options();
        let loaded = self
            .engine
            .bounded_store()
            .load(&self.conversation, self.dialect, self.exchange.as_ref(), &self.span)
            .await;
        let (status, window, epoch) = match loaded {
            Ok(Found::Recorded(recorded)) => return Err(HistoryError::AlreadyRecorded(recorded)),
            Ok(Found::Window(window)) => (HistoryStatus::Loaded, Some(window), Epoch::FIRST),
            Ok(Found::Absent(epoch)) => (HistoryStatus::Absent, None, epoch),
            Err(failure) => {
                let error = HistoryError::from(failure);
                let (kind, cause) = (error.kind(), error.to_string());
                if options.policies.on_load_failure == OnLoadFailure::Fail {
                    tracing::warn!(error.type = kind, error = cause, "a call fails: its history could not be loaded");
                    return Err(error);
                }
                tracing::warn!(
                    error.type = kind,
                    error = cause,
                    "calling the model without history: the history could not be loaded"
                );
                (HistoryStatus::Unavailable, None, Epoch::FIRST)
            }
        };
        let (mut stored, mut is_pinned, mut translations) = (None, false, None);
        let window = match window {
            Some(mut window) => {
                read_each(options, self.dialect, &self.conversation, &window.exchanges)?;
                check_turn(self.dialect, &window.exchanges, &self.input)?;
                translations = in_dialect(self.called(), &mut window.exchanges).await?;
                // Boxed, so that calls that are not pinned do not pay for the size of this future.
                let pinned = match plan::pinned(&window, &self.input, &self.request) {
                    Some(cut) => Box::pin(self.pinned(&window, translations.as_ref(), cut)).await?,
                    None => None,
                };
                if let Some((pinned, translated)) = pinned {
                    (stored, is_pinned) = (window.cut().cloned().map(Box::new), true);
                    (window, translations) = (pinned, translated);
                }
                Some(window)
            }
            None => None,
        };
        // If the history is unavailable, the transcript cannot be compared, and is used as history.
        let (mut resent, mut mismatch) = (Vec::new(), None);
        // The caller does not know the translations.
        let stored_exchanges = window.as_ref().map(|window| match &translations {
            Some(translations) => &*translations.as_stored,
            None => &*window.exchanges,
        });
        match status {
            HistoryStatus::Unavailable => resent = Recorded::log(self.transcript.clone()),
            _ => mismatch = self.compare_transcript(stored_exchanges)?,
        }
        let messages = window.iter().flat_map(|window| &window.exchanges);
        let messages = messages.map(|recorded| recorded.exchange.messages.len()).sum();
        Ok(LoadedHistory {
            status,
            window,
            epoch,
            is_pinned,
            stored,
            is_repaired: false,
            resent,
            messages,
            mismatch,
            translations,
        })
    }
}

impl Call {
    /// Returns the window under the cut under which the turn of the input was opened. Returns `None` if it cannot be
    /// read, or if the turns that the load left out are more than the load limit allows. Its exchanges are translated
    /// together, because results can be in another part of the log than their calls.
    async fn pinned(
        &self,
        window: &LoadedWindow,
        translations: Option<&Translations>,
        cut: Cut,
    ) -> Result<Option<(LoadedWindow, Option<Translations>)>, HistoryError> {
        let from = cut.window_start.max(window.revision.first());
        let loaded = translations.map_or(&window.exchanges, |translations| &translations.as_stored);
        let loaded_from = loaded.first().map_or(window.revision.next(), |first| first.seq);
        let Some(mut exchanges) = self.read_between(window, from, loaded_from).await? else { return Ok(None) };
        read_each(self.engine.options(), self.dialect, &self.conversation, &exchanges)?;
        exchanges.extend_from_slice(loaded);
        let translations = in_dialect(self.called(), &mut exchanges).await?;
        let cuts = Some(Cuts::new(cut));
        let LoadedWindow { revision, version, log_bytes, .. } = *window;
        let pinned = LoadedWindow { revision, version, cuts, exchanges, truncated: false, log_bytes };
        Ok(Some((pinned, translations)))
    }

    /// Reads the exchanges between two positions. Returns `None` if the log was deleted or changed in the meantime,
    /// or if they are more turns than the load limit allows. A single turn may exceed it, because the call that came
    /// after this turn loaded it whole, too.
    async fn read_between(
        &self,
        window: &LoadedWindow,
        from: Seq,
        to: Seq,
    ) -> Result<Option<Vec<Recorded>>, HistoryError> {
        let (store, limit) = (self.engine.bounded_store(), self.engine.options().context.load_limit);
        let (mut read, mut next): (Vec<Recorded>, _) = (Vec::new(), from);
        let (mut turns, mut messages, mut bytes) = (0, 0, 0);
        while next < to {
            let rest = usize::try_from(to.get() - next.get()).unwrap_or(usize::MAX);
            let page = store.read(&self.conversation, next, rest.min(limit.messages()));
            let page = page.await.map_err(HistoryError::Load)?;
            let is_same = page.revision.is_some_and(|now| now.incarnation() == window.revision.incarnation());
            if !is_same || page.exchanges.first().is_none_or(|first| first.seq != next) {
                return Ok(None);
            }
            for recorded in page.exchanges {
                next = recorded.seq.next();
                turns += usize::from(plan::can_start_window(&recorded));
                messages += recorded.exchange.counted_messages();
                bytes += recorded.exchange.bytes();
                read.push(recorded);
            }
            if turns > 1 && (messages > limit.messages() || bytes > limit.bytes()) {
                return Ok(None);
            }
        }
        Ok(Some(read))
    }
}

/// Reads the exchanges in this dialect.
///
/// Returns an error if they are in another dialect, or cannot be read in this one.
pub(in crate::engine) fn read_in(
    dialect: &'static dyn Dialect,
    conversation: &ConversationId,
    exchanges: &[Recorded],
) -> Result<(), HistoryError> {
    let (name, is_read) = (dialect.name(), DialectName::of(dialect).is_built_in());
    for Recorded { seq, exchange, .. } in exchanges {
        if !exchange.dialect.is(name) {
            let (place, found) = (DialectPlace::Stored(*seq), Some(exchange.dialect.clone()));
            return Err(OtherDialect { place, found, called: DialectName::of(dialect) }.into());
        }
        if !is_read {
            exchange.read_in(dialect).map_err(|source| {
                let conversation = conversation.clone();
                HistoryError::Load(StoreError::Corrupt { conversation, seq: *seq, source: source.into() })
            })?;
        }
    }
    Ok(())
}

impl LoadedHistory {
    pub(super) fn history(&self) -> History<'_> {
        match (&self.window, self.status) {
            (Some(window), _) => History::Window(window),
            (None, HistoryStatus::Unavailable) => History::Resent(&self.resent),
            (None, HistoryStatus::Absent | HistoryStatus::Loaded) => History::Absent(self.epoch),
        }
    }

    /// Returns the stored cut.
    pub(super) fn stored_cut(&self) -> Option<Cut> {
        if self.is_pinned || self.is_repaired {
            return self.stored.as_deref().cloned();
        }
        self.window.as_ref()?.cut().cloned()
    }

    /// Returns the history without the encrypted elements of all exchanges that are stored. Returns `None` if no
    /// history was loaded.
    pub(super) fn repaired(mut self) -> Option<Self> {
        self.stored = self.stored_cut().map(Box::new);
        self.is_repaired = true;
        let window = self.window.as_mut()?;
        let mut cut = window.cut().cloned().unwrap_or_default();
        cut.encrypted_from = window.revision.next();
        window.cuts = Some(Cuts::new(cut));
        Some(self)
    }

    /// Returns `true` if the conversation does not exist.
    pub(in crate::engine) fn is_absent(&self) -> bool {
        self.status == HistoryStatus::Absent
    }

    /// Returns the history as if this cut were stored already and its window were empty.
    pub(in crate::engine) fn emptied(&self, cut: Cut) -> Self {
        let mut emptied = self.clone();
        if let Some(window) = &mut emptied.window {
            window.exchanges.clear();
            window.cuts = Some(Cuts::new(cut));
        }
        emptied
    }
}
