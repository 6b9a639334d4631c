//! Removing the end of a log.

use tokio_postgres::types::ToSql;
use tower_chat_history_core::{Compact, ConversationId, Expect, Incarnation, Revision, Seq, StoreError, Truncated};

use super::{delete::remove, erase::bar};
use crate::{
    database::{Call, Lease},
    error::{Failure, PostgresError},
    rows::{Log, stored, uuid},
};

/// Removes the end of a log. A truncation that removes the whole log is a deletion, and is recorded before, in its own
/// transaction, as [deletions](super::delete) are: the record is never locked while a long log is removed.
pub(crate) async fn truncate(
    call: &Call,
    id: &ConversationId,
    expect: Revision,
    from: Seq,
    keep: Option<&Compact>,
) -> Result<Truncated, Failure> {
    let (mut retry, mut is_recorded) = (call.retry(), false);
    loop {
        match once(call, id, expect, from, keep, is_recorded).await {
            Ok(Step::Truncated(truncated)) => return Ok(truncated),
            Ok(Step::RecordFirst) => {
                bar(call, id.as_str()).await?;
                is_recorded = true;
            }
            Err(Failure::Postgres(error)) => retry.again(error, &call.pool).await?,
            Err(failure) => return Err(failure),
        }
    }
}

/// The outcome of an attempt.
enum Step {
    Truncated(Truncated),
    /// Nothing was changed: the truncation removes the whole log, so the deletion must be recorded first.
    RecordFirst,
}

async fn once(
    call: &Call,
    id: &ConversationId,
    expect: Revision,
    from: Seq,
    keep: Option<&Compact>,
    is_recorded: bool,
) -> Result<Step, Failure> {
    let mut transaction = call.begin().await?;
    let step = within(call, &mut transaction, id, expect, from, keep, is_recorded).await;
    transaction.end(step).await
}

async fn within(
    call: &Call,
    transaction: &mut Lease,
    id: &ConversationId,
    expect: Revision,
    from: Seq,
    keep: Option<&Compact>,
    is_recorded: bool,
) -> Result<Step, Failure> {
    let log = lock(call, transaction, id).await?.ok_or(StoreError::Gone)?;
    Expect::Exactly(expect).check(Some(log.revision))?;
    let len = from.get();
    if len >= log.len() {
        return Ok(Step::Truncated(Truncated::new(Some(log.revision), 0)));
    }
    let sql = &call.sql;
    if len <= log.first() {
        if !is_recorded {
            return Ok(Step::RecordFirst);
        }
        remove(call, transaction, &[log.id]).await?;
        return Ok(Step::Truncated(Truncated::new(None, log.len() - log.first())));
    }
    // The new sums are those up to the last exchange that remains.
    let rows = transaction.query(&sql.sums_at, &[&log.id, &stored(len - 1)]).await?;
    let last = rows.first().ok_or(PostgresError::Protocol)?;
    let sums = [last.try_get(0)?, last.try_get(1)?];

    transaction.query(&sql.change.remove_exchanges, &[&log.id, &stored(len), &i64::MAX]).await?;
    remove_compactions(call, transaction, &log, keep).await?;
    let revision = begin_incarnation(call, transaction, &log, len, sums).await?;
    Ok(Step::Truncated(Truncated::new(Some(revision), log.len() - len)))
}

/// Removes all compactions, except the one that `keep` replaces.
async fn remove_compactions(
    call: &Call,
    transaction: &mut Lease,
    log: &Log,
    keep: Option<&Compact>,
) -> Result<(), Failure> {
    let change = &call.sql.change;
    let Some(keep) = keep else {
        transaction.query(&change.remove_compactions, &[&[log.id].as_slice()]).await?;
        return Ok(());
    };
    // This name belongs to no call. A repetition of the call that stored the replaced one must not find this one.
    let name = uuid(Incarnation::random());
    let parameters: [&(dyn ToSql + Sync); 7] = [
        &log.id,
        &keep.profile.as_str(),
        &stored(keep.replaces.get()),
        &stored(keep.window_start.get()),
        &name,
        &&*keep.state,
        &keep.derived.as_deref(),
    ];
    transaction.query(&change.carry_compaction, &parameters).await?;
    Ok(())
}

/// Locks the conversation's row, if there is one. No other call changes the conversation until the transaction ends.
pub(super) async fn lock(call: &Call, transaction: &mut Lease, id: &ConversationId) -> Result<Option<Log>, Failure> {
    let rows = transaction.query(&call.sql.lock, &[&id.as_str()]).await?;
    rows.first().map(Log::from_row).transpose()
}

/// Begins a new incarnation with the exchanges before position `len`. The version of its log is `len`, as if each
/// exchange had been appended in this incarnation. The sums are those of messages and bytes over these exchanges.
pub(super) async fn begin_incarnation(
    call: &Call,
    transaction: &mut Lease,
    log: &Log,
    len: u64,
    [messages, bytes]: [i64; 2],
) -> Result<Revision, Failure> {
    let incarnation = Incarnation::random();
    transaction
        .query(&call.sql.change.set_incarnation, &[&log.id, &uuid(incarnation), &stored(len), &messages, &bytes])
        .await?;
    Ok(Revision::new(incarnation, len).beginning_at(log.revision.first()))
}
