//! Replacing the sealed form of an exchange.

use tower_chat_history_core::{ConversationId, Exchange, Incarnation, Provenance, Seq, StoreError};

use crate::{call::Shared, error::UnexpectedReply, read, recalled, scripts};

/// Reads the exchange, and replaces it if its record is still the same.
pub(crate) async fn reseal(
    shared: &Shared,
    id: &ConversationId,
    incarnation: Incarnation,
    seq: Seq,
    from: &Exchange,
    to: &Exchange,
) -> Result<bool, StoreError> {
    let page = read::pick(shared, id, &[seq]).await?;
    if page.revision.map(|revision| revision.incarnation()) != Some(incarnation) {
        return Err(StoreError::Gone);
    }
    let Some(found) = page.exchanges.first().map(|recorded| &recorded.exchange) else { return Ok(false) };
    if found.sealed != from.sealed || !found.is_resealed_as(to) {
        return Ok(false);
    }
    let [before, after] = [found, to].map(|exchange| exchange.encode().map_err(StoreError::backend));
    let (before, after, recalled) = (before?, after?, recalled::to_value(to)?);
    let provenance = to.provenance.as_deref().map(Provenance::encode).transpose().map_err(StoreError::backend)?;
    let provenance = provenance.unwrap_or_default();
    let call = shared.call(&scripts::RESEAL, id).bytes(incarnation.as_bytes()).number(seq.get());
    let call = call.text(&before).text(&after).text(&recalled).text(&provenance);
    let mut reply = shared.run(&call).await?;
    match reply.word.as_str() {
        "resealed" => Ok(true),
        "other" => Ok(false),
        "full" => Err(reply.full(after.len())?),
        _ => Err(UnexpectedReply::error()),
    }
}
