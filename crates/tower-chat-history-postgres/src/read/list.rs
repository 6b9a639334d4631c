//! Listing conversations.

use tokio_postgres::Row;
use tower_chat_history_core::{
    ConversationId, Cursor, Labels, LabelsVersion, Listed, Listing, Prefix, StoreError, Timestamp, backend::KeyRange,
};

use crate::{
    database::Call,
    error::{Failure, PostgresError},
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
    let (keys, limit) = (KeyRange::new(under, after), limit.clamp(1, MAX_PAGE));
    let exact = keys.exact.as_ref().map(ConversationId::as_str);
    // One more than the page has, which shows if there is another page.
    let wanted = stored(limit as u64 + 1);
    let rows = call.query(&call.sql.list, &[&exact, &keys.after, &keys.before, &wanted]).await?;

    let (mut page, mut last) = (Listing::default(), None);
    for row in rows.iter().take(limit) {
        let key: &str = row.try_get(0)?;
        let id: ConversationId = key.parse().map_err(|_| PostgresError::Protocol)?;
        page.push(id.clone(), listed(id.clone(), row).map_err(StoreError::from));
        last = Some(id);
    }
    if rows.len() > limit {
        page.next = last.map(Cursor::after);
    }
    Ok(page)
}

pub(crate) async fn describe(call: &Call, id: &ConversationId) -> Result<Option<Listed>, Failure> {
    let rows = call.query(&call.sql.list, &[&Some(id.as_str()), &"", &"", &0_i64]).await?;
    rows.first().map(|row| listed(id.clone(), row)).transpose()
}

/// Reads a conversation's entry. Each error concerns this row only.
fn listed(id: ConversationId, row: &Row) -> Result<Listed, Failure> {
    let revision = rows::revision(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    let time = |column| row.try_get(column).map(|millis| Timestamp::from_unix_millis(count(millis)));
    let bytes = count(row.try_get(6)?);
    let labels = labels(row.try_get(7)?)?;
    Ok(Listed::new(id, revision, time(4)?, time(5)?, bytes).labels(labels, LabelsVersion::new(count(row.try_get(8)?))))
}

/// Reads the labels of a column.
pub(crate) fn labels(json: Option<&str>) -> Result<Labels, StoreError> {
    // The parser's error is left out, because it may quote the text.
    json.map_or(Ok(Labels::default()), Labels::decode).map_err(|_| StoreError::backend(Damaged::Labels))
}
