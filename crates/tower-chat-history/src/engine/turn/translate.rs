//! Exchanges that are stored in another dialect than that of the call.

use std::mem;

use tokio::task::spawn_blocking;
use tower_chat_history_core::{
    ConversationId, Dialect, DialectName, LeftOut, Message, MessageError, NewestRound, Origin, Recorded, Seq,
    StoreError, Translator,
};

use super::read_in;
use crate::{
    error::{DialectPlace, HistoryError, OtherDialect},
    options::HistoryOptions,
    policy::OnOtherDialect,
    report::TranslationReport,
};

/// The dialect and the provider of a call.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Called<'a> {
    pub(in crate::engine) dialect: &'static dyn Dialect,
    pub(in crate::engine) origin: &'a Origin,
}

/// Reads the exchanges in their own dialects. Under [`OnOtherDialect::Fail`], this must be the dialect of the call.
pub(in crate::engine) fn read_each(
    options: &HistoryOptions,
    called: &'static dyn Dialect,
    conversation: &ConversationId,
    exchanges: &[Recorded],
) -> Result<(), HistoryError> {
    match options.policies.on_other_dialect {
        OnOtherDialect::Fail => read_in(called, conversation, exchanges),
        OnOtherDialect::Translate => read_known(options, called, conversation, exchanges),
    }
}

/// Reads the exchanges in their own dialects: that of the call, or those of the options.
pub(in crate::engine) fn read_known(
    options: &HistoryOptions,
    called: &'static dyn Dialect,
    conversation: &ConversationId,
    exchanges: &[Recorded],
) -> Result<(), HistoryError> {
    for Recorded { seq, exchange, .. } in exchanges {
        if exchange.dialect.is_built_in() {
            continue;
        }
        let mut known = std::iter::once(called).chain(options.dialects.iter().copied());
        let Some(dialect) = known.find(|dialect| exchange.dialect.is(dialect.name())) else {
            let (place, found) = (DialectPlace::Stored(*seq), Some(exchange.dialect.clone()));
            return Err(OtherDialect { place, found, called: DialectName::of(called) }.into());
        };
        exchange.read_in(dialect).map_err(|source| {
            let conversation = conversation.clone();
            HistoryError::Load(StoreError::Corrupt { conversation, seq: *seq, source: source.into() })
        })?;
    }
    Ok(())
}

/// Translates those exchanges that are in another dialect than that of the call. They must have been
/// [read](read_each). The exchanges are the log from any of them on. Returns `None` if all of them are in the dialect of
/// the call.
pub(in crate::engine) async fn in_dialect(
    called: Called<'_>,
    exchanges: &mut Vec<Recorded>,
) -> Result<Option<Translations>, HistoryError> {
    let to = called.dialect;
    if exchanges.iter().all(|recorded| recorded.exchange.dialect.is(to.name())) {
        return Ok(None);
    }

    // A dialect sees no other part of the origin, so that a translation stays the same if the model changes.
    let mut reader = Origin::unknown();
    reader.provider.clone_from(&called.origin.provider);
    let in_one_dialect = translate_or_spawn(to, &reader, exchanges).await;
    let (in_one_dialect, translated) =
        in_one_dialect.map_err(|source| HistoryError::Composed { dialect: DialectName::of(to), source })?;
    let as_stored = mem::replace(exchanges, in_one_dialect);
    Ok(Some(Translations { as_stored, translated }))
}

/// The exchanges of a window before they were translated, and which of them were.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Translations {
    /// All exchanges of the window.
    pub(super) as_stored: Vec<Recorded>,
    /// The positions of those that were translated, in order, and what was left out of each.
    translated: Vec<(Seq, LeftOut)>,
}

impl Translations {
    /// Returns the positions of the exchanges that were translated, in order.
    pub(in crate::engine) fn translated(&self) -> impl Iterator<Item = Seq> {
        self.translated.iter().map(|(seq, _)| *seq)
    }

    /// Returns the report about the exchanges that are sent, or `None` if none of them was translated.
    pub(super) fn report(&self, sent: &[Seq]) -> Option<TranslationReport> {
        let mut report = TranslationReport::default();
        let is_sent = |seq: &Seq| sent.binary_search(seq).is_ok();
        for (_, left_out) in self.translated.iter().filter(|(seq, _)| is_sent(seq)) {
            report.exchanges += 1;
            report.left_out += *left_out;
        }
        Some(report).filter(|report| report.exchanges > 0)
    }
}

/// The number of bytes of messages from which they are translated on a thread for blocking work. Fewer take a few
/// milliseconds.
const BLOCKING_THRESHOLD_BYTES: usize = 1 << 16;

/// The exchanges in one dialect, and the positions of those that were translated, with what was left out of each.
type InOneDialect = (Vec<Recorded>, Vec<(Seq, LeftOut)>);

async fn translate_or_spawn(
    to: &'static dyn Dialect,
    reader: &Origin,
    exchanges: &[Recorded],
) -> Result<InOneDialect, MessageError> {
    let translated = exchanges.iter().filter(|recorded| !recorded.exchange.dialect.is(to.name()));
    let bytes: usize = translated.map(|recorded| recorded.exchange.bytes()).sum();
    if bytes >= BLOCKING_THRESHOLD_BYTES {
        let (exchanges, reader) = (exchanges.to_vec(), reader.clone());
        // It fails if the runtime shuts down, or if the dialect panics.
        if let Ok(translated) = spawn_blocking(move || translate(to, &reader, &exchanges)).await {
            return translated;
        }
    }
    translate(to, reader, exchanges)
}

fn translate(to: &'static dyn Dialect, reader: &Origin, exchanges: &[Recorded]) -> Result<InOneDialect, MessageError> {
    let mut translator = Translator::new(to, reader);
    let mut in_dialect = exchanges.to_vec();
    let mut translated = Vec::new();
    for recorded in &mut in_dialect {
        if recorded.exchange.dialect.is(to.name()) {
            translator.keep(recorded);
            continue;
        }

        let translation = translator.translate(recorded)?;
        recorded.exchange = translation.exchange;
        translated.push((recorded.seq, translation.left_out));
    }
    Ok((in_dialect, translated))
}

/// Checks that the turn which these messages continue is in the dialect of the call. Its caller has the ids of the
/// calls as the other dialect wrote them, and the reasoning within the turn would be lost.
pub(in crate::engine) fn check_turn(
    called: &'static dyn Dialect,
    exchanges: &[Recorded],
    messages: &[Message],
) -> Result<(), OtherDialect> {
    let has_results = |first: &Message| first.is_tool_result() || !first.answers().is_empty();
    let is_other = |recorded: &&Recorded| !recorded.exchange.dialect.is(called.name());
    if !messages.first().is_none_or(has_results) || !exchanges.iter().any(|recorded| is_other(&recorded)) {
        return Ok(());
    }
    let Some(asked) = NewestRound::of(exchanges).asked() else { return Ok(()) };
    match exchanges.iter().find(|recorded| recorded.seq == asked).filter(is_other) {
        Some(Recorded { seq, exchange, .. }) => Err(OtherDialect {
            place: DialectPlace::OpenTurn(*seq),
            found: Some(exchange.dialect.clone()),
            called: DialectName::of(called),
        }),
        None => Ok(()),
    }
}
