//! Listing conversations.

use tokio_postgres::Row;
use tower_chat_history_core::{
    ConversationId, Cursor, Labels, LabelsVersion, Listed, Listing, Prefix, StoreError, Timestamp,
};

use crate::{
    database::Call,
    error::Failure,
    keys::Keys,
    rows::{self, Damaged, count, stored},
};

/// The most conversations in a page.
const MAX_PAGE: usize = 1_000;

pub(crate) async fn list(
    call: &Call,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Listing, Failure> {
    let limit = limit.min(MAX_PAGE);
    if limit == 0 {
        return Ok(Listing::new(Vec::new(), after.cloned()));
    }
    let Keys { exact, after, before } = Keys::new(under, after);
    // One more than the page has, which shows if there is another page.
    let rows = call.query(&call.sql.list, &[&exact, &after, &before, &stored(limit as u64 + 1)]).await?;
    let mut conversations: Vec<_> = rows.iter().map(listed).collect::<Result<_, _>>()?;
    let more = conversations.len() > limit;
    conversations.truncate(limit);
    let next = conversations.last().filter(|_| more).map(|last| Cursor::after(last.id.clone()));
    Ok(Listing::new(conversations, next))
}

pub(crate) async fn describe(call: &Call, id: &ConversationId) -> Result<Option<Listed>, Failure> {
    let rows = call.query(&call.sql.list, &[&Some(id.as_str()), &"", &"", &0_i64]).await?;
    rows.first().map(listed).transpose()
}

/// Reads a conversation's entry. Counters that contradict each other are no error here, so that one damaged
/// conversation does not hide the others.
fn listed(row: &Row) -> Result<Listed, Failure> {
    let id = row.try_get::<_, &str>(0)?.parse().map_err(|_| StoreError::backend(Damaged::Key))?;
    let revision = rows::revision(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    let time = |column| row.try_get(column).map(|millis| Timestamp::from_unix_millis(count(millis)));
    let before = row.try_get::<_, Option<i64>>(7)?.unwrap_or_default();
    let bytes = count(row.try_get::<_, i64>(6)?.saturating_sub(before));
    let labels = labels(row.try_get(8)?)?;
    Ok(Listed::new(id, revision, time(4)?, time(5)?, bytes).labels(labels, LabelsVersion::new(count(row.try_get(9)?))))
}

/// Reads the labels of a column.
pub(crate) fn labels(json: Option<&str>) -> Result<Labels, StoreError> {
    // The parser's error is left out, because it may quote the text.
    json.map_or(Ok(Labels::default()), Labels::decode).map_err(|_| StoreError::backend(Damaged::Labels))
}
