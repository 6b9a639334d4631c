//! Explaining the prompt of a stored reply.

use tower_chat_history_core::{
    ChatCompletions, Compat, ConversationId, Dialect, DialectName, Message, Provenance, Recorded, Seq,
};

use super::{
    count::{Counting, estimate},
    parts::Parts,
    translate::{Reader, in_dialect, read_known},
};
use crate::{
    context::{
        RequestInfo,
        compat::reader_key,
        plan::explain::{self, ExplainInput, NotKnown},
    },
    error::HistoryError,
    explain::Explanation,
};

/// The data from which a prompt was made, in the dialect of its exchange.
struct PromptData {
    /// The exchanges of the window.
    exchanges: Vec<Recorded>,
    /// The positions of those that were translated, in order.
    translated: Vec<Seq>,
    /// The message of the summary.
    summary: Option<Message>,
}

/// Explains the prompt of the reply at this position. See [`Engine::explain`](super::Engine::explain).
pub(super) async fn explain(
    parts: &Parts,
    conversation: &ConversationId,
    seq: Seq,
) -> Result<Option<Explanation>, HistoryError> {
    let page = parts.store.read_bounded(conversation, seq, 1).await.map_err(HistoryError::Load)?;
    let found = page.exchanges.into_iter().next().filter(|found| found.seq == seq);
    let (Some(revision), Some(exchange)) = (page.revision, found) else { return Ok(None) };
    read_own(parts, &ChatCompletions, conversation, std::slice::from_ref(&exchange))?;

    let (provenance, next) = match explain::provenance_of(&exchange.exchange) {
        Ok(found) => found,
        Err(reason) => return Ok(Some(Explanation { exchange, prompt: Err(reason) })),
    };
    let Some(compat) = compat_of_prompt(parts, conversation, provenance).await? else {
        return Ok(Some(Explanation { exchange, prompt: Err(NotKnown::OtherReader) }));
    };
    let data = prompt_data(parts, conversation, &exchange, provenance, next).await?;
    let counting = count_all(parts, provenance, &data.exchanges, &exchange).await;

    let prompt = explain::explain(&ExplainInput {
        explained: &exchange,
        exchanges: &data.exchanges,
        translated: &data.translated,
        first: revision.first(),
        summary: data.summary.as_ref(),
        compat: &compat,
        clear: parts.options().context.clear_results.as_ref(),
        cost: &|message| counting.message(message),
    });
    Ok(Some(Explanation { exchange, prompt }))
}

/// Returns what the reader of a prompt accepted, if it's still known: by the table, or as the conversation has learned
/// it.
async fn compat_of_prompt(
    parts: &Parts,
    conversation: &ConversationId,
    provenance: &Provenance,
) -> Result<Option<Compat>, HistoryError> {
    let Some(key) = provenance.reader else { return Ok(Some(Compat::new())) };
    let Provenance { origin, host, .. } = provenance;
    let compat = parts.options().readers.compat(origin, host.as_deref());
    if compat.key() == Some(key) {
        return Ok(Some(compat));
    }

    let cuts = parts.store.cuts(conversation).await?;
    let learned = cuts.as_ref().and_then(|cuts| cuts.cut.learned.get(reader_key(origin, host.as_deref()), Seq::FIRST));
    let compat = learned.map(|learned| compat.and(&learned.compat));
    Ok(compat.filter(|compat| compat.key() == Some(key)))
}

/// Reads the data of this exchange's prompt. `next` was the log's next position when the prompt was made.
async fn prompt_data(
    parts: &Parts,
    conversation: &ConversationId,
    explained: &Recorded,
    provenance: &Provenance,
    next: Seq,
) -> Result<PromptData, HistoryError> {
    let dialect = explained.exchange.messages.iter().find_map(Message::dialect).unwrap_or(&ChatCompletions);
    let mut exchanges = read_log(parts, conversation, provenance.cut.window_start, next).await?;
    read_own(parts, dialect, conversation, &exchanges)?;

    let translations = in_dialect(Reader { dialect, origin: &provenance.origin }, &mut exchanges).await?;
    let translated = translations.iter().flat_map(|found| found.translated()).collect();

    let summary = summary_of(parts, conversation, dialect, provenance.cut.covers_to).await?;
    Ok(PromptData { exchanges, translated, summary })
}

/// Counts the tokens of all these messages, for the model of the prompt.
async fn count_all(parts: &Parts, provenance: &Provenance, exchanges: &[Recorded], explained: &Recorded) -> Counting {
    let counter = parts.options().context.token_counter.clone();
    let counter = counter.unwrap_or_else(|| estimate(provenance.origin.model.as_deref()));
    let counting = Counting::new(&parts.counts, counter);

    let messages = exchanges.iter().chain([explained]).flat_map(|recorded| &recorded.exchange.messages);
    counting.prompt(&RequestInfo::new(), messages, &[]).await;
    counting
}

/// Reads the exchanges between two positions.
async fn read_log(
    parts: &Parts,
    conversation: &ConversationId,
    from: Seq,
    to: Seq,
) -> Result<Vec<Recorded>, HistoryError> {
    let limit = parts.options().context.load_limit;

    let mut read = Vec::new();
    let mut next = from;
    while next < to {
        let rest = usize::try_from(to.get() - next.get()).unwrap_or(usize::MAX);
        let page = parts.store.read_bounded(conversation, next, rest.min(limit.messages())).await;
        let exchanges = page.map_err(HistoryError::Load)?.exchanges;
        // If the log was pruned, a page can begin later, and after the end.
        let Some(last) = exchanges.last() else { break };
        next = last.seq.next();
        read.extend(exchanges.into_iter().filter(|recorded| recorded.seq < to));
    }
    Ok(read)
}

/// Reads exchanges in their own dialects.
fn read_own(
    parts: &Parts,
    dialect: &'static dyn Dialect,
    conversation: &ConversationId,
    exchanges: &[Recorded],
) -> Result<(), HistoryError> {
    exchanges.iter().try_for_each(Recorded::check_unsealed).map_err(HistoryError::Load)?;
    read_known(parts.options(), dialect, conversation, exchanges)
}

/// Returns the message of the summary of the exchanges before this position, if it is stored. The newest cut and
/// the one that it replaced have theirs.
async fn summary_of(
    parts: &Parts,
    conversation: &ConversationId,
    dialect: &'static dyn Dialect,
    covers_to: Seq,
) -> Result<Option<Message>, HistoryError> {
    if covers_to == Seq::FIRST {
        return Ok(None);
    }
    let Some(cuts) = parts.store.cuts(conversation).await? else { return Ok(None) };
    let mut cuts = [Some(&cuts.cut), cuts.replaced.as_deref()].into_iter().flatten();
    let cut = cuts.find(|cut| cut.covers_to == covers_to);
    let Some(summary) = cut.and_then(|cut| cut.summary.as_ref()) else { return Ok(None) };

    let message = parts.options().context.summary_format.message_in(dialect, &summary.text);
    message.map(Some).map_err(|source| HistoryError::Composed { dialect: DialectName::of(dialect), source })
}
