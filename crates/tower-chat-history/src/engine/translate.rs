//! Exchanges that are stored in another dialect than that of the call.

use std::mem;

use tokio::task::spawn_blocking;
use tower_chat_history_core::{
    ConversationId, Dialect, DialectName, Exchange, LeftOut, Message, MessageError, NewestRound, Origin, Recorded, Seq,
    StoreError, Translator,
};

use crate::{
    error::{DialectPlace, HistoryError, OtherDialect},
    options::HistoryOptions,
    policy::OnOtherDialect,
    report::TranslationReport,
};

/// The dialect and the provider of a call, to which exchanges are translated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    pub(super) dialect: &'static dyn Dialect,
    pub(super) origin: &'a Origin,
}

/// Reads the exchanges in their own dialects. Under [`OnOtherDialect::Fail`], this must be the dialect of the call.
pub(super) fn read_each(
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
pub(super) fn read_known(
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
            return Err(other_dialect(*seq, exchange, called).into());
        };
        read_exchange(dialect, conversation, *seq, exchange)?;
    }
    Ok(())
}

/// Reads the exchanges in this dialect.
///
/// Returns an error if they are in another dialect, or cannot be read in this one.
fn read_in(
    dialect: &'static dyn Dialect,
    conversation: &ConversationId,
    exchanges: &[Recorded],
) -> Result<(), HistoryError> {
    let name = dialect.name();
    let is_read = DialectName::of(dialect).is_built_in();
    for Recorded { seq, exchange, .. } in exchanges {
        if !exchange.dialect.is(name) {
            return Err(other_dialect(*seq, exchange, dialect).into());
        }
        if !is_read {
            read_exchange(dialect, conversation, *seq, exchange)?;
        }
    }
    Ok(())
}

fn read_exchange(
    dialect: &'static dyn Dialect,
    conversation: &ConversationId,
    seq: Seq,
    exchange: &Exchange,
) -> Result<(), HistoryError> {
    exchange.read_in(dialect).map_err(|source| {
        let conversation = conversation.clone();
        HistoryError::Load(StoreError::Corrupt { conversation, seq, source: source.into() })
    })
}

fn other_dialect(seq: Seq, exchange: &Exchange, called: &'static dyn Dialect) -> OtherDialect {
    let found = Some(exchange.dialect.clone());
    OtherDialect { place: DialectPlace::Stored(seq), found, called: DialectName::of(called) }
}

/// Translates those exchanges that are in another dialect than that of the call. They must have been
/// [read](read_each). The exchanges are the log from any of them on. Returns `None` if all of them are in the dialect of
/// the call.
pub(super) async fn in_dialect(
    reader: Reader<'_>,
    exchanges: &mut Vec<Recorded>,
) -> Result<Option<Translations>, HistoryError> {
    let to = reader.dialect;
    if exchanges.iter().all(|recorded| recorded.exchange.dialect.is(to.name())) {
        return Ok(None);
    }

    // A dialect sees no other part of the origin, so that a translation stays the same if the model changes.
    let mut origin = Origin::unknown();
    origin.provider.clone_from(&reader.origin.provider);
    let in_one_dialect = translate_or_spawn(to, &origin, exchanges).await;
    let (in_one_dialect, translated) =
        in_one_dialect.map_err(|source| HistoryError::Composed { dialect: DialectName::of(to), source })?;

    let as_stored = mem::replace(exchanges, in_one_dialect);
    Ok(Some(Translations { as_stored, translated }))
}

/// The exchanges of a window before they were translated, and which of them were.
#[derive(Clone, Debug)]
pub(super) struct Translations {
    /// All exchanges of the window.
    pub(super) as_stored: Vec<Recorded>,
    /// The positions of those that were translated, in order, and what was left out of each.
    translated: Vec<(Seq, LeftOut)>,
}

impl Translations {
    /// Returns the positions of the exchanges that were translated, in order.
    pub(super) fn translated(&self) -> impl Iterator<Item = Seq> {
        self.translated.iter().map(|(seq, _)| *seq)
    }

    /// Returns the report about the exchanges that are sent, or `None` if none of them was translated.
    pub(super) fn report(&self, sent: &[Seq]) -> Option<TranslationReport> {
        let mut report = TranslationReport::default();
        for (seq, left_out) in &self.translated {
            if sent.binary_search(seq).is_ok() {
                report.exchanges += 1;
                report.left_out += *left_out;
            }
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
        let exchanges = exchanges.to_vec();
        let reader = reader.clone();

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
pub(super) fn check_turn(
    called: &'static dyn Dialect,
    exchanges: &[Recorded],
    messages: &[Message],
) -> Result<(), OtherDialect> {
    let continues = messages.first().is_none_or(|first| first.is_tool_result() || !first.answers().is_empty());
    if !continues || exchanges.iter().all(|recorded| recorded.exchange.dialect.is(called.name())) {
        return Ok(());
    }

    let Some(asked) = NewestRound::of(exchanges).asked() else { return Ok(()) };
    let asked = exchanges.iter().find(|recorded| recorded.seq == asked);
    match asked.filter(|recorded| !recorded.exchange.dialect.is(called.name())) {
        Some(Recorded { seq, exchange, .. }) => Err(OtherDialect {
            place: DialectPlace::OpenTurn(*seq),
            found: Some(exchange.dialect.clone()),
            called: DialectName::of(called),
        }),
        None => Ok(()),
    }
}
