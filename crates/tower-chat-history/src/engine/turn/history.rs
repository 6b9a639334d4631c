//! Loading a call's conversation, and comparing it with the list that the caller resends.

use tower_chat_history_core::{Cut, Cuts, Epoch, LearnedReaders, Message, Recorded, Seq};

use super::{
    super::{
        store::LoadResult,
        translate::{Translations, check_turn, in_dialect, read_each},
    },
    call::Call,
};
use crate::{
    context::plan::{self, History, InputError, LoadedWindow, TranscriptError, transcript},
    error::HistoryError,
    policy::{OnLoadFailure, OnTranscriptMismatch},
    report::HistoryStatus,
};

/// The history that was loaded for a call.
#[derive(Clone)]
pub(super) struct LoadedHistory {
    pub(super) status: HistoryStatus,
    pub(super) window: Option<LoadedWindow>,
    /// The epoch of the load, if the conversation does not exist.
    epoch: Epoch,
    /// The caller's transcript, if the history could not be loaded. It is then used as history.
    resent: Vec<Recorded>,
    /// The number of messages that were loaded.
    pub(super) messages: usize,
    /// True if the window is that of an earlier cut, under which the turn continues.
    pub(super) is_pinned: bool,
    /// True if the window leaves out encrypted elements that the stored cut does not leave out.
    pub(super) is_repaired: bool,
    /// The stored cut, if the window is under another one.
    stored: Option<Box<Cut>>,
    /// The difference between transcript and log, if there is one under `OnTranscriptMismatch::TrustLog`.
    pub(super) mismatch: Option<TranscriptError>,
    /// The translations of the window's exchanges, if some are in another dialect than that of the call.
    pub(super) translations: Option<Translations>,
}

/// Loads the conversation and compares it with the transcript.
pub(super) async fn load(call: &Call) -> Result<LoadedHistory, HistoryError> {
    let result = call.store().load(&call.conversation, call.dialect, call.exchange.as_ref(), &call.span).await;
    let mut loaded = match result {
        Ok(LoadResult::Recorded(recorded)) => return Err(HistoryError::AlreadyRecorded(recorded)),
        Ok(LoadResult::Window(window)) => LoadedHistory::new(HistoryStatus::Loaded, Some(window), Epoch::FIRST),
        Ok(LoadResult::Absent(epoch)) => LoadedHistory::new(HistoryStatus::Absent, None, epoch),
        Err(failure) => {
            go_on_without(call, failure.into())?;
            LoadedHistory::new(HistoryStatus::Unavailable, None, Epoch::FIRST)
        }
    };

    if let Some(window) = &mut loaded.window {
        read_each(call.options(), call.dialect, &call.conversation, &window.exchanges)?;
        check_turn(call.dialect, &window.exchanges, &call.input)?;
        loaded.translations = in_dialect(call.translates_to(), &mut window.exchanges).await?;

        if let Some(cut) = plan::pinned(window, &call.input, &call.request)
            && let Some((pinned, translations)) =
                Box::pin(load_pinned(call, window, loaded.translations.as_ref(), cut)).await?
        {
            loaded.stored = window.cut().cloned().map(Box::new);
            loaded.is_pinned = true;
            loaded.translations = translations;
            *window = pinned;
        }
    }

    if loaded.status == HistoryStatus::Unavailable {
        // The transcript cannot be compared, so it is used as history.
        loaded.resent = Recorded::log(call.transcript.clone());
    } else {
        loaded.mismatch = compare_transcript(call, loaded.exchanges_as_stored())?;
    }

    let exchanges = loaded.window.iter().flat_map(|window| &window.exchanges);
    loaded.messages = exchanges.map(|recorded| recorded.exchange.messages.len()).sum();
    Ok(loaded)
}

/// Returns the error of a load if it fails the call.
fn go_on_without(call: &Call, error: HistoryError) -> Result<(), HistoryError> {
    let kind = error.kind();
    let cause = error.to_string();
    if call.options().policies.on_load_failure == OnLoadFailure::Fail {
        tracing::warn!(error.type = kind, error = cause, "a call fails: its history could not be loaded");
        return Err(error);
    }
    tracing::warn!(
        error.type = kind,
        error = cause,
        "calling the model without history: the history could not be loaded"
    );
    Ok(())
}

/// Returns the window under the cut under which the turn of the input was opened. Returns `None` if it cannot be read,
/// or if the turns that the load left out are more than the load limit allows. Its exchanges are translated together,
/// because results can be in another part of the log than their calls.
async fn load_pinned(
    call: &Call,
    window: &LoadedWindow,
    translations: Option<&Translations>,
    cut: Cut,
) -> Result<Option<(LoadedWindow, Option<Translations>)>, HistoryError> {
    let from = cut.window_start.max(window.revision.first());
    let loaded = translations.map_or(&window.exchanges, |translations| &translations.as_stored);
    let loaded_from = loaded.first().map_or(window.revision.next(), |first| first.seq);
    let Some(mut exchanges) = read_between(call, window, from, loaded_from).await? else { return Ok(None) };
    read_each(call.options(), call.dialect, &call.conversation, &exchanges)?;

    exchanges.extend_from_slice(loaded);
    let translations = in_dialect(call.translates_to(), &mut exchanges).await?;
    let cuts = Some(Cuts::new(cut));
    let LoadedWindow { revision, version, log_bytes, .. } = *window;
    let pinned = LoadedWindow { revision, version, cuts, exchanges, truncated: false, log_bytes };
    Ok(Some((pinned, translations)))
}

/// Reads the exchanges between two positions. Returns `None` if the log was deleted or changed in the meantime, or if
/// they are more turns than the load limit allows. A single turn may exceed it, because the call that came after this
/// turn loaded it whole, too.
async fn read_between(
    call: &Call,
    window: &LoadedWindow,
    from: Seq,
    to: Seq,
) -> Result<Option<Vec<Recorded>>, HistoryError> {
    let limit = call.options().context.load_limit;
    let mut read: Vec<Recorded> = Vec::new();
    let mut next = from;
    let mut turns = 0;
    let mut messages = 0;
    let mut bytes = 0;
    let mut media_bytes = 0;

    while next < to {
        let rest = usize::try_from(to.get() - next.get()).unwrap_or(usize::MAX);
        let page = call.store().read_bounded(&call.conversation, next, rest.min(limit.messages()));
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
            media_bytes += recorded.exchange.media_bytes();
            read.push(recorded);
        }
        if turns > 1 && !limit.allows(messages, bytes, media_bytes) {
            return Ok(None);
        }
    }
    Ok(Some(read))
}

/// Compares the transcript with the log. Returns the difference, if the policy accepts one.
///
/// A list that ends with a reply has no input. If the log ends with this reply, the call continues it, as far as the
/// log allows a call without input. Otherwise the caller wrote the reply itself.
fn compare_transcript(call: &Call, log: Option<&[Recorded]>) -> Result<Option<TranscriptError>, HistoryError> {
    let Err(mismatch) = transcript::check(&call.transcript, log) else { return Ok(None) };
    if call.input.is_empty() && call.transcript.last().is_some_and(Message::is_reply) {
        let position = call.transcript.len() - 1;
        if mismatch.position == position {
            return Err(InputError::Prefill { position }.into());
        }
    }
    match call.options().policies.on_transcript_mismatch {
        OnTranscriptMismatch::Fail => Err(mismatch.into()),
        OnTranscriptMismatch::TrustLog => Ok(Some(mismatch)),
    }
}

impl LoadedHistory {
    fn new(status: HistoryStatus, window: Option<LoadedWindow>, epoch: Epoch) -> Self {
        Self {
            status,
            window,
            epoch,
            resent: Vec::new(),
            messages: 0,
            is_pinned: false,
            is_repaired: false,
            stored: None,
            mismatch: None,
            translations: None,
        }
    }

    /// Returns the history for the planner.
    pub(super) fn history(&self) -> History<'_> {
        match (&self.window, self.status) {
            (Some(window), _) => History::Window(window),
            (None, HistoryStatus::Unavailable) => History::Resent(&self.resent),
            (None, HistoryStatus::Absent | HistoryStatus::Loaded) => History::Absent(self.epoch),
        }
    }

    /// Returns the window's exchanges as the caller knows them: without translations.
    fn exchanges_as_stored(&self) -> Option<&[Recorded]> {
        let window = self.window.as_ref()?;
        Some(self.translations.as_ref().map_or(&window.exchanges, |translations| &translations.as_stored))
    }

    /// Returns `true` if the conversation does not exist.
    pub(super) fn is_absent(&self) -> bool {
        self.status == HistoryStatus::Absent
    }

    /// Returns the stored cut.
    pub(super) fn stored_cut(&self) -> Option<Cut> {
        if self.is_pinned || self.is_repaired {
            return self.stored.as_deref().cloned();
        }
        self.window.as_ref()?.cut().cloned()
    }

    /// Returns what the stored cut says about readers.
    pub(super) fn learned(&self) -> Option<&LearnedReaders> {
        let stored = self.stored.as_deref().or_else(|| self.window.as_ref()?.cut())?;
        Some(&stored.learned).filter(|learned| !learned.is_empty())
    }

    /// Leaves out the encrypted elements of all exchanges that are stored. Returns `false` if no history was loaded, or
    /// if they are left out already.
    pub(super) fn leave_out_encrypted(&mut self) -> bool {
        if self.is_repaired {
            return false;
        }
        let stored = self.stored_cut().map(Box::new);
        let Some(window) = &mut self.window else { return false };
        let mut cut = window.cut().cloned().unwrap_or_default();
        cut.encrypted_from = window.revision.next();
        window.cuts = Some(Cuts::new(cut));
        self.stored = stored;
        self.is_repaired = true;
        true
    }

    /// Returns the history as if this cut with a summary were stored already. Its window is empty.
    pub(super) fn summarized(&self, cut: Cut) -> Self {
        let mut summarized = self.clone();
        if let Some(window) = &mut summarized.window {
            window.exchanges.clear();
            window.cuts = Some(Cuts::new(cut));
        }
        summarized
    }
}
