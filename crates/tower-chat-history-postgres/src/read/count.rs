//! Counting what is stored.

use tokio_postgres::Row;
use tower_chat_history_core::{ConversationId, Removed, backend::KeyRange};

use crate::{
    database::{Call, Lease},
    error::{Failure, PostgresError},
    rows::{count, stored},
};

/// The most conversations in a page.
const MAX_PAGE: i64 = 100;

/// A conversation's row as a transaction reads it, without its counters.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) number: i64,
    pub(crate) id: ConversationId,
    pub(crate) has_labels: bool,
}

impl Found {
    pub(crate) fn from_row(row: &Row) -> Result<Self, Failure> {
        let key: &str = row.try_get(6)?;
        let id = key.parse().map_err(|_| PostgresError::Protocol)?;
        Ok(Self { number: row.try_get(0)?, id, has_labels: row.try_get(7)? })
    }
}

/// Counts what is stored for a page of conversations. Returns the keys of the next page, or `None` if this was the last
/// one.
pub(crate) async fn page(call: &Call, keys: &KeyRange) -> Result<(Removed, Option<KeyRange>), Failure> {
    let mut retry = call.retry();
    loop {
        match once(call, keys).await {
            Err(Failure::Postgres(error)) => retry.again(error, &call.pool).await?,
            done => return done,
        }
    }
}

async fn once(call: &Call, keys: &KeyRange) -> Result<(Removed, Option<KeyRange>), Failure> {
    let mut transaction = call.begin().await?;
    let counted = within(call, &mut transaction, keys).await?;
    // Nothing was changed, so the call may be repeated whatever the end of the transaction reports.
    transaction.commit().await?;
    Ok(counted)
}

async fn within(call: &Call, transaction: &mut Lease, keys: &KeyRange) -> Result<(Removed, Option<KeyRange>), Failure> {
    let sql = &call.sql.count;
    let mut rows = match &keys.exact {
        Some(exact) => transaction.query(&sql.one, &[&exact.as_str()]).await?,
        None => Vec::new(),
    };
    let between = transaction.query(&sql.page, &[&keys.after, &keys.before, &MAX_PAGE]).await?;
    let is_last = stored(between.len() as u64) < MAX_PAGE;
    rows.extend(between);
    let found = rows.iter().map(Found::from_row).collect::<Result<Vec<_>, _>>()?;
    let counted = conversations(call, transaction, &found).await?;
    let next = found.last().filter(|_| !is_last).map(|last| {
        let mut next = keys.clone();
        next.continue_after(last.id.as_str());
        next
    });
    Ok((counted, next))
}

/// Counts what is stored for some conversations: their rows, and not the numbers in their counters.
pub(crate) async fn conversations(call: &Call, transaction: &mut Lease, found: &[Found]) -> Result<Removed, Failure> {
    let mut counted = Removed::default();
    if found.is_empty() {
        return Ok(counted);
    }
    let ids: Vec<_> = found.iter().map(|found| found.number).collect();
    let sql = &call.sql.count;
    counted.conversations = found.len() as u64;
    counted.labels = found.iter().filter(|found| found.has_labels).count() as u64;
    for row in transaction.query(&sql.exchanges, &[&ids]).await? {
        counted.exchanges = count(row.try_get(0)?);
        counted.exchange_ids = counted.exchanges;
        counted.bytes = count(row.try_get(1)?);
    }
    for row in transaction.query(&sql.compactions, &[&ids]).await? {
        counted.compactions = count(row.try_get(0)?);
        counted.summaries = count(row.try_get(1)?);
    }
    Ok(counted)
}
