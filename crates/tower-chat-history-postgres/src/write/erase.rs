//! Erasing the conversations under a prefix.

use tokio_postgres::Row;
use tower_chat_history_core::{ConversationId, Cursor, Prefix, Removed, Revision, backend::KeyRange};
use uuid::Uuid;

use super::delete::remove;
use crate::{
    database::{Call, Lease},
    error::{Failure, PostgresError},
    read::{Found, count_conversations},
    rows::{self, count, stored},
};

/// The name of the store's system, which is also its name in receipts.
pub(crate) const SYSTEM: &str = "postgresql";

/// The most conversations in a transaction.
const MAX_CONVERSATIONS: usize = 100;

/// The most exchanges in a transaction, unless its only conversation has more.
const MAX_EXCHANGES: u64 = 10_000;

/// Records a deletion, given by the conversation's id, or an erasure, given by the key of its prefix. For a deletion,
/// returns the incarnation of the conversation if it exists.
///
/// If it is unknown whether the first attempt was committed, this may be recorded twice, with the same effect.
pub(crate) async fn bar(call: &Call, erased: &str) -> Result<Option<Uuid>, Failure> {
    let rows = call.query(&call.sql.bar, &[&erased]).await?;
    Ok(rows.first().ok_or(PostgresError::Protocol)?.try_get(0)?)
}

/// Erases a page of conversations in one transaction. Returns what was removed, and the place at which the next page
/// begins.
///
/// If it is unknown whether the commit took effect, the call fails and is not repeated. A repetition would find nothing
/// and report that nothing was removed.
pub(crate) async fn erase(
    call: &Call,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<(Removed, Option<Cursor>), Failure> {
    let mut retry = call.retry();
    loop {
        match erase_once(call, under, after, limit).await {
            Err(Failure::Postgres(error)) => retry.again(error, &call.pool).await?,
            done => return done,
        }
    }
}

async fn erase_once(
    call: &Call,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<(Removed, Option<Cursor>), Failure> {
    let mut transaction = call.begin().await?;
    let erased = page(call, &mut transaction, under, after, limit.clamp(1, MAX_CONVERSATIONS)).await;
    transaction.end(erased).await
}

async fn page(
    call: &Call,
    transaction: &mut Lease,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<(Removed, Option<Cursor>), Failure> {
    let (keys, sql, limit) = (KeyRange::new(under, after), &call.sql, stored(limit as u64));
    // The conversation whose id is the prefix is a page of its own.
    if let Some(exact) = keys.exact {
        let rows = transaction.query(&sql.lock, &[&exact.as_str()]).await?;
        let removed = erase_rows(call, transaction, &rows).await?;
        return Ok((removed, Some(Cursor::after(exact))));
    }

    let rows = transaction.query(&sql.lock_page, &[&keys.after, &keys.before, &limit]).await?;
    let fit = fitting(&rows)?;
    let is_last = fit == rows.len() && stored(rows.len() as u64) < limit;
    let next = match rows[..fit].last().filter(|_| !is_last) {
        Some(last) => Some(Cursor::after(Found::from_row(last)?.id)),
        None => None,
    };
    Ok((erase_rows(call, transaction, &rows[..fit]).await?, next))
}

/// Returns the number of conversations at the beginning whose exchanges fit into a transaction: at least one.
fn fitting(rows: &[Row]) -> Result<usize, Failure> {
    let mut exchanges: u64 = 0;
    for (number, row) in rows.iter().enumerate() {
        let (len, first): (i64, i64) = (row.try_get(2)?, row.try_get(3)?);
        exchanges += count(len - first);
        if number > 0 && exchanges > MAX_EXCHANGES {
            return Ok(number);
        }
    }
    Ok(rows.len())
}

/// Counts and removes everything of some conversations, whose rows are locked.
async fn erase_rows(call: &Call, transaction: &mut Lease, rows: &[Row]) -> Result<Removed, Failure> {
    let found = rows.iter().map(Found::from_row).collect::<Result<Vec<_>, _>>()?;
    let removed = count_conversations(call, transaction, &found).await?;
    if !found.is_empty() {
        let ids: Vec<i64> = found.iter().map(|found| found.number).collect();
        remove(call, transaction, &ids).await?;
    }
    Ok(removed)
}

/// Erases a conversation if its log has this revision. As for [`erase`], a commit with an unknown outcome is an error.
pub(crate) async fn erase_if(call: &Call, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, Failure> {
    let mut retry = call.retry();
    loop {
        match erase_if_once(call, id, revision).await {
            Err(Failure::Postgres(error)) => retry.again(error, &call.pool).await?,
            done => return done,
        }
    }
}

async fn erase_if_once(call: &Call, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, Failure> {
    let mut transaction = call.begin().await?;
    let erased = one(call, &mut transaction, id, revision).await;
    transaction.end(erased).await
}

async fn one(
    call: &Call,
    transaction: &mut Lease,
    id: &ConversationId,
    revision: Revision,
) -> Result<Option<Removed>, Failure> {
    let rows = transaction.query(&call.sql.lock, &[&id.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    if rows::revision(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?) != revision {
        return Ok(None);
    }
    erase_rows(call, transaction, &rows).await.map(Some)
}
