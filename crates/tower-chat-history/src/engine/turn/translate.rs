//! Exchanges that are stored in another dialect than that of the call.

use tokio::runtime::Handle;
use tower_chat_history_core::{
    ConversationId, Dialect, DialectName, Message, MessageError, NewestRound, Origin, Recorded, StoreError, Translated,
};

use super::read_in;
use crate::{
    engine::translations::{TranslatedFor, Translations},
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
        let Some(dialect) = known.find(|dialect| dialect.name() == exchange.dialect.as_str()) else {
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

/// Translates those exchanges that are in another dialect than that of the call, if the options say so. Otherwise all
/// of them must be in that dialect. Translations that the engine keeps are not made again.
pub(in crate::engine) async fn in_dialect(
    options: &HistoryOptions,
    translations: &Translations,
    called: Called<'_>,
    conversation: &ConversationId,
    exchanges: &mut [Recorded],
) -> Result<TranslationReport, HistoryError> {
    read_each(options, called.dialect, conversation, exchanges)?;
    let mut report = TranslationReport::default();
    let provider = called.origin.provider.as_deref();
    let call = TranslatedFor { conversation, to: called.dialect, provider };
    let mut new = Vec::new();
    for recorded in exchanges.iter_mut() {
        if recorded.exchange.dialect.as_str() == called.dialect.name() {
            continue;
        }
        match translations.get(call, recorded) {
            Some(kept) => report.replace(recorded, kept),
            None => new.push(recorded),
        }
    }
    if new.is_empty() {
        return Ok(report);
    }
    let stored: Vec<Recorded> = new.iter().map(|recorded| (**recorded).clone()).collect();
    let made = translate_all(called.dialect, provider, stored).await;
    let made = made.map_err(|source| HistoryError::Composed { dialect: DialectName::of(called.dialect), source })?;
    for (recorded, translated) in new.into_iter().zip(made) {
        translations.insert(call, recorded, &translated);
        report.replace(recorded, translated);
    }
    Ok(report)
}

impl TranslationReport {
    /// Replaces an exchange by its translation, and counts it.
    fn replace(&mut self, recorded: &mut Recorded, translated: Translated) {
        recorded.exchange = translated.exchange;
        self.exchanges += 1;
        self.left_out += translated.left_out;
    }
}

/// The number of bytes of messages from which they are translated on a thread for blocking work. Fewer take a few
/// milliseconds.
const BLOCKING_THRESHOLD_BYTES: usize = 1 << 16;

/// Translates exchanges for this provider. A dialect sees no other part of the origin, so that the translation stays
/// the same if the model changes.
async fn translate_all(
    to: &'static dyn Dialect,
    provider: Option<&str>,
    exchanges: Vec<Recorded>,
) -> Result<Vec<Translated>, MessageError> {
    let mut reader = Origin::unknown();
    reader.provider = provider.map(str::to_owned);
    let bytes: usize = exchanges.iter().map(|recorded| recorded.exchange.bytes()).sum();
    let translate = move |exchanges: &[Recorded]| -> Result<Vec<Translated>, MessageError> {
        exchanges.iter().map(|recorded| recorded.translated(to, &reader)).collect()
    };
    if let Some(runtime) = Handle::try_current().ok().filter(|_| bytes >= BLOCKING_THRESHOLD_BYTES) {
        let (exchanges, translate) = (exchanges.clone(), translate.clone());
        // It fails if the runtime shuts down, or if the dialect panics.
        if let Ok(translated) = runtime.spawn_blocking(move || translate(&exchanges)).await {
            return translated;
        }
    }
    translate(&exchanges)
}

/// Checks that the turn which these messages continue is in the dialect of the call. Its caller has the ids of the
/// calls as the other dialect wrote them, and the reasoning within the turn would be lost.
pub(in crate::engine) fn check_turn(
    called: &'static dyn Dialect,
    exchanges: &[Recorded],
    messages: &[Message],
) -> Result<(), OtherDialect> {
    let has_results = |first: &Message| first.is_tool_result() || !first.answers().is_empty();
    let is_other = |recorded: &&Recorded| recorded.exchange.dialect.as_str() != called.name();
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
