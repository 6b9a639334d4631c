//! Deleting a conversation, erasing those under a prefix, and counting them.
//!
//! # Decisions
//!
//! - **A deletion is repeated if another call recreates the conversation**, because each attempt deletes only the
//!   incarnation that it names. After three attempts, it locks the row.

use tokio_postgres::Row;
use tower_chat_history_core::{ConversationId, Cursor, Prefix, Removed, Revision, backend::KeyRange};
use uuid::Uuid;

use crate::{
    database::{Call, IfUnknown, Lease},
    error::{Failure, PostgresError},
    rows::{self, ConversationRow, count, stored},
    sql::Changes,
};

/// The most attempts to delete a conversation without a lock. Each fails if another incarnation has begun in between.
const MAX_UNLOCKED_ATTEMPTS: usize = 3;

/// The most conversations in a transaction.
const MAX_CONVERSATIONS: usize = 100;

/// The most exchanges in a transaction that erases, unless its only conversation has more.
const MAX_EXCHANGES: u64 = 10_000;

/// Records a deletion, given by the conversation's id, or an erasure, given by the key of its prefix. For a deletion,
/// returns the incarnation of the conversation if it exists.
///
/// If it is unknown whether the first attempt was committed, this may be recorded twice, with the same effect.
pub(crate) async fn bar(call: &Call, erased: &str) -> Result<Option<Uuid>, Failure> {
    let rows = call.query(&call.sql.bar, &[&erased]).await?;
    Ok(rows.first().ok_or(PostgresError::Protocol)?.try_get(0)?)
}

/// Deletes a conversation, after it has recorded that.
///
/// The second statement names the incarnation that it ends. If a connection stalls and the call is repeated on another
/// one, the first attempt may be executed long after the call returned.
pub(crate) async fn delete(call: &Call, id: &ConversationId) -> Result<(), Failure> {
    let Some(mut seen) = bar(call, id.as_str()).await? else { return Ok(()) };

    for _ in 0..MAX_UNLOCKED_ATTEMPTS {
        let rows = call.query(&call.sql.delete, &[&id.as_str(), &seen]).await?;
        match rows.first().ok_or(PostgresError::Protocol)?.try_get(0)? {
            None => return Ok(()),
            // Another incarnation has begun. This call must still end whichever one exists.
            Some(other) => seen = other,
        }
    }

    delete_locked(call, id).await
}

/// Deletes a conversation in any incarnation. The row is locked first, so that no other call begins a new incarnation
/// between two statements of this call.
///
/// A request that arrives late deletes nothing: its transaction either still holds the lock, or was rolled back by the
/// server because its client was silent.
async fn delete_locked(call: &Call, id: &ConversationId) -> Result<(), Failure> {
    // Deleting may be repeated, because this call ends any incarnation.
    let mut attempts = call.attempts(IfUnknown::Repeat);
    loop {
        let mut lease = attempts.begin().await?;
        let deleted = delete_within(call, &mut lease, id).await;
        if attempts.end(lease, deleted).await?.is_some() {
            return Ok(());
        }
    }
}

async fn delete_within(call: &Call, transaction: &mut Lease, id: &ConversationId) -> Result<(), Failure> {
    match transaction.query(&call.sql.lock, &[&id.as_str()]).await?.first() {
        Some(row) => remove(call, transaction, &[row.try_get(0)?]).await,
        // Another call deleted the conversation while this one waited for the lock.
        None => Ok(()),
    }
}

/// Deletes all rows of conversations whose rows are locked.
pub(crate) async fn remove(call: &Call, transaction: &mut Lease, conversations: &[i64]) -> Result<(), Failure> {
    let Changes { remove_logs, remove_compactions, remove_conversations, .. } = &call.sql.change;
    for change in [remove_logs, remove_compactions, remove_conversations] {
        transaction.query(change, &[&conversations]).await?;
    }
    Ok(())
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
    let limit = limit.clamp(1, MAX_CONVERSATIONS);
    let mut attempts = call.attempts(IfUnknown::Fail);
    loop {
        let mut lease = attempts.begin().await?;
        let erased = erase_page(call, &mut lease, under, after, limit).await;
        if let Some(erased) = attempts.end(lease, erased).await? {
            return Ok(erased);
        }
    }
}

async fn erase_page(
    call: &Call,
    transaction: &mut Lease,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<(Removed, Option<Cursor>), Failure> {
    let sql = &call.sql;
    let keys = KeyRange::new(under, after);

    // The conversation whose id is the prefix is a page of its own.
    if let Some(exact) = keys.exact {
        let rows = transaction.query(&sql.lock, &[&exact.as_str()]).await?;
        let removed = erase_rows(call, transaction, &rows).await?;
        return Ok((removed, Some(Cursor::after(exact))));
    }

    let limit = stored(limit as u64);
    let rows = transaction.query(&sql.lock_page, &[&keys.after, &keys.before, &limit]).await?;
    let fit = fitting(&rows)?;
    let is_last = fit == rows.len() && stored(rows.len() as u64) < limit;
    let next = match rows[..fit].last().filter(|_| !is_last) {
        Some(last) => Some(Cursor::after(ConversationRow::read(last)?.id)),
        None => None,
    };

    let removed = erase_rows(call, transaction, &rows[..fit]).await?;
    Ok((removed, next))
}

/// Returns the number of conversations at the beginning whose exchanges fit into a transaction: at least one.
fn fitting(rows: &[Row]) -> Result<usize, Failure> {
    let mut exchanges: u64 = 0;
    for (number, row) in rows.iter().enumerate() {
        let len: i64 = row.try_get(2)?;
        let first: i64 = row.try_get(3)?;
        exchanges += count(len - first);
        if number > 0 && exchanges > MAX_EXCHANGES {
            return Ok(number);
        }
    }
    Ok(rows.len())
}

/// Counts and removes everything of some conversations, whose rows are locked.
async fn erase_rows(call: &Call, transaction: &mut Lease, rows: &[Row]) -> Result<Removed, Failure> {
    let found = rows.iter().map(ConversationRow::read).collect::<Result<Vec<_>, _>>()?;
    let removed = count_conversations(call, transaction, &found).await?;
    if !found.is_empty() {
        let ids: Vec<i64> = found.iter().map(|found| found.number).collect();
        remove(call, transaction, &ids).await?;
    }
    Ok(removed)
}

/// Erases a conversation if its log has this revision. As for [`erase`], a commit with an unknown outcome is an error.
pub(crate) async fn erase_if(call: &Call, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, Failure> {
    let mut attempts = call.attempts(IfUnknown::Fail);
    loop {
        let mut lease = attempts.begin().await?;
        let erased = erase_one(call, &mut lease, id, revision).await;
        if let Some(erased) = attempts.end(lease, erased).await? {
            return Ok(erased);
        }
    }
}

async fn erase_one(
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

/// Counts what is stored for a page of conversations. Returns the keys of the next page, or `None` if this was the last
/// one.
pub(crate) async fn count_page(call: &Call, keys: &KeyRange) -> Result<(Removed, Option<KeyRange>), Failure> {
    // Nothing is changed, so the call may be repeated whatever the end of the transaction reports.
    let mut attempts = call.attempts(IfUnknown::Repeat);
    loop {
        let mut lease = attempts.begin().await?;
        let counted = count_within(call, &mut lease, keys).await;
        if let Some(counted) = attempts.end(lease, counted).await? {
            return Ok(counted);
        }
    }
}

async fn count_within(
    call: &Call,
    transaction: &mut Lease,
    keys: &KeyRange,
) -> Result<(Removed, Option<KeyRange>), Failure> {
    let sql = &call.sql.count;
    let mut rows = match &keys.exact {
        Some(exact) => transaction.query(&sql.one, &[&exact.as_str()]).await?,
        None => Vec::new(),
    };
    let limit = stored(MAX_CONVERSATIONS as u64);
    let between = transaction.query(&sql.page, &[&keys.after, &keys.before, &limit]).await?;
    let is_last = between.len() < MAX_CONVERSATIONS;
    rows.extend(between);

    let found = rows.iter().map(ConversationRow::read).collect::<Result<Vec<_>, _>>()?;
    let counted = count_conversations(call, transaction, &found).await?;

    let Some(last) = found.last().filter(|_| !is_last) else { return Ok((counted, None)) };
    let mut next = keys.clone();
    next.continue_after(last.id.as_str());
    Ok((counted, Some(next)))
}

/// Counts what is stored for some conversations: their rows, and not the numbers in their counters.
async fn count_conversations(
    call: &Call,
    transaction: &mut Lease,
    found: &[ConversationRow],
) -> Result<Removed, Failure> {
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
