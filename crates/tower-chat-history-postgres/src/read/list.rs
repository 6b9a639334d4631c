//! Listing conversations.

use tokio_postgres::Row;
use tower_chat_history_core::{
    ConversationId, Cursor, Labels, LabelsVersion, Listed, Listing, Prefix, StoreError, Timestamp, backend::KeyRange,
};

use crate::{
    database::Call,
    error::Failure,
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
    let (mut keys, limit) = (KeyRange::new(under, after), limit.clamp(1, MAX_PAGE));
    let (mut page, mut last) = (Listing::default(), None);
    // One more than the page has, which shows if there is another page.
    let mut wanted = limit + 1;
    loop {
        let exact = keys.exact.as_ref().map(ConversationId::as_str);
        let rows = call.query(&call.sql.list, &[&exact, &keys.after, &keys.before, &stored(wanted as u64)]).await?;
        for row in &rows {
            if page.len() >= limit {
                page.next = last.map(Cursor::after);
                return Ok(page);
            }
            let key: &str = row.try_get(0)?;
            keys.continue_after(key);
            // Another program wrote a key that is not the id of a conversation.
            let Ok(id) = key.parse::<ConversationId>() else {
                page.foreign_keys += 1;
                continue;
            };
            page.push(id.clone(), listed(id.clone(), row).map_err(StoreError::from));
            last = Some(id);
        }
        if rows.len() < wanted {
            return Ok(page);
        }
        // Such keys took the places of conversations.
        wanted = MAX_PAGE + 1;
    }
}

pub(crate) async fn describe(call: &Call, id: &ConversationId) -> Result<Option<Listed>, Failure> {
    let rows = call.query(&call.sql.list, &[&Some(id.as_str()), &"", &"", &0_i64]).await?;
    rows.first().map(|row| listed(id.clone(), row)).transpose()
}

/// Reads a conversation's entry. Each error concerns this row only. Counters that contradict each other are no error,
/// because the log may still be of use.
fn listed(id: ConversationId, row: &Row) -> Result<Listed, Failure> {
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
