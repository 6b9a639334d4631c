//! Removing the beginning of a log.

use tower_chat_history_core::{
    ConversationId, Derived, Incarnation, PruneTo, Pruned, Seq, StoreError,
    backend::{PruneScan, Scan},
};

use super::truncate::{begin_incarnation, lock};
use crate::{
    database::{Call, Lease},
    error::Failure,
    rows::{Log, count, stored, uuid},
};

pub(crate) async fn prune(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    keep: PruneTo,
    derived: Derived,
) -> Result<Pruned, Failure> {
    let mut retry = call.retry();
    loop {
        match once(call, id, incarnation, keep, derived).await {
            Err(Failure::Postgres(error)) => retry.again(error, &call.pool).await?,
            done => return done,
        }
    }
}

async fn once(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    keep: PruneTo,
    derived: Derived,
) -> Result<Pruned, Failure> {
    let mut transaction = call.begin().await?;
    let pruned = within(call, &mut transaction, id, incarnation, keep, derived).await;
    transaction.end(pruned).await
}

async fn within(
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
            if scan.offer(Seq::new(count(end)), row.try_get(1)?, messages) == Scan::Stop {
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
