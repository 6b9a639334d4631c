//! Removing the end or the beginning of a log. Each is a transaction of several statements.

use tokio_postgres::types::ToSql;
use tower_chat_history_core::{
    Compact, ConversationId, Derived, Expect, Incarnation, PruneTo, Pruned, Revision, Seq, StoreError, Truncated,
    backend::PruneScan,
};

use crate::{
    database::{Call, IfUnknown, Lease},
    erase::{bar, remove},
    error::{Failure, PostgresError},
    rows::{Log, count, stored, uuid},
};

/// Removes the end of a log. A truncation that removes the whole log is a deletion, and is recorded before, in its own
/// transaction, as [deletions](crate::erase) are: the record is never locked while a long log is removed.
pub(crate) async fn truncate(
    call: &Call,
    id: &ConversationId,
    expect: Revision,
    from: Seq,
    keep: Option<&Compact>,
) -> Result<Truncated, Failure> {
    let mut attempts = call.attempts(IfUnknown::Fail);
    let mut is_recorded = false;
    loop {
        let mut lease = attempts.begin().await?;
        let step = truncate_within(call, &mut lease, id, expect, from, keep, is_recorded).await;
        match attempts.end(lease, step).await? {
            Some(Step::Truncated(truncated)) => return Ok(truncated),
            Some(Step::RecordFirst) => {
                bar(call, id.as_str()).await?;
                is_recorded = true;
            }
            None => {}
        }
    }
}

/// The outcome of an attempt.
enum Step {
    Truncated(Truncated),
    /// Nothing was changed: the truncation removes the whole log, so the deletion must be recorded first.
    RecordFirst,
}

async fn truncate_within(
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
    let sums = [last.try_get(0)?, last.try_get(1)?, last.try_get(2)?];

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

/// Removes the beginning of a log.
pub(crate) async fn prune(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    keep: PruneTo,
    derived: Derived,
) -> Result<Pruned, Failure> {
    let mut attempts = call.attempts(IfUnknown::Fail);
    loop {
        let mut lease = attempts.begin().await?;
        let pruned = prune_within(call, &mut lease, id, incarnation, keep, derived).await;
        if let Some(pruned) = attempts.end(lease, pruned).await? {
            return Ok(pruned);
        }
    }
}

async fn prune_within(
    call: &Call,
    transaction: &mut Lease,
    id: &ConversationId,
    incarnation: Incarnation,
    keep: PruneTo,
    derived: Derived,
) -> Result<Pruned, Failure> {
    let log = lock(call, transaction, id).await?.filter(|log| log.revision.incarnation() == incarnation);
    let log = log.ok_or(StoreError::Gone)?;

    let first = scan(call, transaction, &log, keep).await?.start().map_or(log.first(), Seq::get);
    let removed = first.saturating_sub(log.first());
    let log = if removed > 0 { begin_at(call, transaction, &log, first).await? } else { log };

    if derived == Derived::Keep {
        return Ok(Pruned::new(log.revision, removed));
    }
    if first == 0 && transaction.query(&call.sql.foreign, &[&log.id]).await?.is_empty() {
        return Ok(Pruned::new(log.revision, removed));
    }

    let change = &call.sql.change;
    transaction.query(&change.erase_records, &[&log.id, &stored(first)]).await?;

    // This name belongs to no call. A repetition of the call that stored a compaction must not find this one.
    let name = uuid(Incarnation::random());
    transaction.query(&change.erase_derived, &[&log.id, &stored(first), &name]).await?;

    let revision = begin_incarnation(call, transaction, &log, log.len(), log.sums).await?;
    Ok(Pruned::new(revision, removed))
}

/// Scans the log from its end without reading records, to find the position at which it begins after the prune.
async fn scan(call: &Call, transaction: &mut Lease, log: &Log, keep: PruneTo) -> Result<PruneScan, Failure> {
    let mut scan = PruneScan::new(keep, Seq::new(log.len()));
    let mut end = stored(scan.end().get());
    loop {
        let rows = transaction.query(&call.sql.walk, &[&log.id, &stored(log.first()), &end]).await?;
        if rows.is_empty() {
            return Ok(scan);
        }

        for row in rows {
            end = row.try_get(0)?;
            let messages = usize::try_from(row.try_get::<_, i64>(2)?).unwrap_or(usize::MAX);
            if scan.offer(Seq::new(count(end)), row.try_get(1)?, messages).is_break() {
                return Ok(scan);
            }
        }
    }
}

/// Removes the exchanges before a position.
async fn begin_at(call: &Call, transaction: &mut Lease, log: &Log, first: u64) -> Result<Log, Failure> {
    let change = &call.sql.change;
    transaction.query(&change.remove_exchanges, &[&log.id, &0_i64, &stored(first)]).await?;
    transaction.query(&change.set_first, &[&log.id, &stored(first)]).await?;
    Ok(Log { revision: log.revision.beginning_at(Seq::new(first)), ..*log })
}

/// Locks the conversation's row, if there is one. No other call changes the conversation until the transaction ends.
async fn lock(call: &Call, transaction: &mut Lease, id: &ConversationId) -> Result<Option<Log>, Failure> {
    let rows = transaction.query(&call.sql.lock, &[&id.as_str()]).await?;
    rows.first().map(Log::from_row).transpose()
}

/// Begins a new incarnation with the exchanges before position `len`. The version of its log is `len`, as if each
/// exchange had been appended in this incarnation. The sums are those of messages, bytes and media of these exchanges.
async fn begin_incarnation(
    call: &Call,
    transaction: &mut Lease,
    log: &Log,
    len: u64,
    [messages, bytes, media]: [i64; 3],
) -> Result<Revision, Failure> {
    let incarnation = Incarnation::random();
    let parameters: [&(dyn ToSql + Sync); 6] = [&log.id, &uuid(incarnation), &stored(len), &messages, &bytes, &media];
    transaction.query(&call.sql.change.set_incarnation, &parameters).await?;
    Ok(Revision::new(incarnation, len).beginning_at(log.revision.first()))
}
