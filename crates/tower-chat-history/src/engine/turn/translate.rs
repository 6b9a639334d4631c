//! Exchanges that are stored in another dialect than that of the call.

use tokio::runtime::Handle;
use tower_chat_history_core::{
    ConversationId, Dialect, DialectName, LeftOut, Message, MessageError, NewestRound, Origin, Recorded, Seq,
    StoreError, Translated, Translator, Untranslated,
};

use super::read_in;
use crate::{
    engine::translations::{TranslatedFor, TranslationCache},
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
    if options.policies.on_other_dialect == OnOtherDialect::Fail {
        return read_in(called, conversation, exchanges);
    }
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
/// [read](read_each). The exchanges are the log from any of them on. Translations that the engine keeps are not made
/// again. Returns `None` if all exchanges are in the dialect of the call.
pub(in crate::engine) async fn in_dialect(
    cache: &TranslationCache,
    called: Called<'_>,
    conversation: &ConversationId,
    exchanges: &mut [Recorded],
) -> Result<Option<Translations>, HistoryError> {
    let name = called.dialect.name();
    let is_other = |recorded: &Recorded| !recorded.exchange.dialect.is(name);
    if !exchanges.iter().any(is_other) {
        return Ok(None);
    }
    let mut translations = Translations { as_stored: exchanges.to_vec(), left_out: Vec::new() };
    // A dialect sees no other part of the origin, so that a translation stays the same if the model changes.
    let mut reader = Origin::unknown();
    reader.provider.clone_from(&called.origin.provider);
    let call = TranslatedFor { conversation, to: called.dialect, provider: reader.provider.as_deref() };
    let mut translator = Translator::new(called.dialect, &reader);
    let forgotten = cache.forgotten();
    let (mut places, mut new) = (Vec::new(), Vec::new());
    for recorded in exchanges {
        if !is_other(recorded) {
            translator.keep(recorded);
            continue;
        }
        let next = translator.next(recorded);
        match cache.get(call, &next) {
            Some(kept) => translations.replace(recorded, kept),
            None => {
                places.push(recorded);
                new.push(next);
            }
        }
    }
    let made = translate_all(called.dialect, &reader, &new).await;
    let made = made.map_err(|source| HistoryError::Composed { dialect: DialectName::of(called.dialect), source })?;
    for ((recorded, of), translated) in places.into_iter().zip(new).zip(made) {
        translations.replace(recorded, translated.clone());
        cache.insert(call, of, translated, forgotten);
    }
    Ok(Some(translations))
}

/// The exchanges of a window before they were translated, and the parts that were left out.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Translations {
    /// All exchanges of the window.
    pub(super) as_stored: Vec<Recorded>,
    /// The positions of those that were translated.
    left_out: Vec<(Seq, LeftOut)>,
}

impl Translations {
    /// Replaces an exchange by its translation.
    fn replace(&mut self, recorded: &mut Recorded, translated: Translated) {
        recorded.exchange = translated.exchange;
        self.left_out.push((recorded.seq, translated.left_out));
    }

    /// Returns the report about the exchanges that are sent, or `None` if none of them was translated.
    pub(super) fn report(&self, sent: &[Seq]) -> Option<TranslationReport> {
        let mut report = TranslationReport::default();
        let is_sent = |seq: &Seq| sent.binary_search(seq).is_ok();
        for (_, left_out) in self.left_out.iter().filter(|(seq, _)| is_sent(seq)) {
            report.exchanges += 1;
            report.left_out += *left_out;
        }
        Some(report).filter(|report| report.exchanges > 0)
    }
}

/// The number of bytes of messages from which they are translated on a thread for blocking work. Fewer take a few
/// milliseconds.
const BLOCKING_THRESHOLD_BYTES: usize = 1 << 16;

/// Translates exchanges for this provider.
async fn translate_all(
    to: &'static dyn Dialect,
    reader: &Origin,
    exchanges: &[Untranslated],
) -> Result<Vec<Translated>, MessageError> {
    let translate = |exchanges: &[Untranslated], reader: &Origin| -> Result<Vec<Translated>, MessageError> {
        exchanges.iter().map(|exchange| exchange.translate(to, reader)).collect()
    };
    let bytes: usize = exchanges.iter().map(|exchange| exchange.recorded().exchange.bytes()).sum();
    if let Some(runtime) = Handle::try_current().ok().filter(|_| bytes >= BLOCKING_THRESHOLD_BYTES) {
        let (exchanges, reader) = (exchanges.to_vec(), reader.clone());
        // It fails if the runtime shuts down, or if the dialect panics.
        if let Ok(translated) = runtime.spawn_blocking(move || translate(&exchanges, &reader)).await {
            return translated;
        }
    }
    translate(exchanges, reader)
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
