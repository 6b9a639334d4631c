//! Listing conversations, and their labels.

use tokio_postgres::{Row, types::ToSql};
use tower_chat_history_core::{
    ConversationId, Cursor, Incarnation, Labels, LabelsOutcome, LabelsVersion, Listed, Listing, Prefix, StoreError,
    Timestamp, backend::KeyRange,
};

use crate::{
    database::Call,
    error::{Failure, PostgresError},
    rows::{self, Damage, count, stored, uuid},
};

/// The most conversations in a page.
const MAX_PAGE: usize = 1_000;

pub(crate) async fn list(
    call: &Call,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Listing, Failure> {
    let keys = KeyRange::new(under, after);
    let exact = keys.exact.as_ref().map(ConversationId::as_str);

    // One more than the page has, which shows if there is another page.
    let limit = limit.clamp(1, MAX_PAGE);
    let wanted = stored(limit as u64 + 1);
    let rows = call.query(&call.sql.list, &[&exact, &keys.after, &keys.before, &wanted]).await?;

    let mut page = Listing::default();
    let mut last = None;
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
    let created = Timestamp::from_unix_millis(count(row.try_get(4)?));
    let updated = Timestamp::from_unix_millis(count(row.try_get(5)?));
    let bytes = count(row.try_get(6)?);
    let labels = labels(row.try_get(7)?)?;
    let version = LabelsVersion::new(count(row.try_get(8)?));
    Ok(Listed::new(id, revision, created, updated, bytes).labels(labels, version))
}

pub(crate) async fn set_labels(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    replaces: LabelsVersion,
    new: &Labels,
) -> Result<LabelsOutcome, Failure> {
    let name = uuid(Incarnation::random());
    let json = (!new.is_empty()).then(|| new.encode());
    let parameters: [&(dyn ToSql + Sync); 5] =
        [&id.as_str(), &uuid(incarnation), &stored(replaces.get()), &name, &json];

    let rows = call.query(&call.sql.set_labels, &parameters).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    let Some(verdict) = row.try_get::<_, Option<i32>>(0)? else { return Err(StoreError::Gone.into()) };

    let version = LabelsVersion::new(count(row.try_get(1)?));
    match verdict {
        0 => Ok(LabelsOutcome::Stored(version)),
        1 => Ok(LabelsOutcome::Kept(labels(row.try_get(2)?)?, version)),
        _ => Err(PostgresError::Protocol.into()),
    }
}

/// Reads the labels of a column.
fn labels(json: Option<&str>) -> Result<Labels, StoreError> {
    // The parser's error is left out, because it may quote the text.
    json.map_or(Ok(Labels::default()), Labels::decode).map_err(|_| StoreError::backend(Damage::Labels))
}
