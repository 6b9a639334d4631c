//! Replacing the sealed form of an exchange.

use tower_chat_history_core::{
    ConversationId, Exchange, Incarnation, Provenance, Recalled, Seq, StoreError, backend::RecordError,
};

use crate::{
    database::Call,
    error::Failure,
    read,
    rows::{stored, uuid},
};

/// Reads the exchange, and replaces it if its record is still the same.
///
/// After a lost response, the statement is repeated and finds the new form. The exchange is then read once more.
pub(crate) async fn reseal(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    seq: Seq,
    from: &Exchange,
    to: &Exchange,
) -> Result<bool, Failure> {
    let Some(found) = find(call, id, incarnation, seq).await? else { return Ok(false) };
    if found.sealed != from.sealed || !found.is_resealed_as(to) {
        return Ok(false);
    }
    let [before, after] = [&found, to].map(|exchange| exchange.encode().map_err(StoreError::backend));
    let recalled = encoded(to.recalled.as_ref(), Recalled::encode)?;
    let provenance = encoded(to.provenance.as_deref(), Provenance::encode)?;
    let rows = call
        .query(
            &call.sql.reseal,
            &[&id.as_str(), &uuid(incarnation), &stored(seq.get()), &before?, &after?, &recalled, &provenance],
        )
        .await?;
    if !rows.is_empty() {
        return Ok(true);
    }
    Ok(find(call, id, incarnation, seq).await?.is_some_and(|found| found.sealed == to.sealed))
}

/// Returns the exchange at a position, or `None` if there is none.
async fn find(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    seq: Seq,
) -> Result<Option<Exchange>, Failure> {
    let page = read::pick(call, id, &[seq]).await?;
    if page.revision.map(|revision| revision.incarnation()) != Some(incarnation) {
        return Err(StoreError::Gone.into());
    }
    Ok(page.exchanges.first().map(|recorded| (*recorded.exchange).clone()))
}

fn encoded<T>(
    value: Option<&T>,
    encode: impl Fn(&T) -> Result<String, RecordError>,
) -> Result<Option<String>, StoreError> {
    value.map(encode).transpose().map_err(StoreError::backend)
}
