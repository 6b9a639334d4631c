//! Adding an exchange.

use tokio_postgres::Row;
use tower_chat_history_core::{Append, Appended, CompactOutcome, ConversationId, Expect, Revision, Seq, StoreError};
use uuid::Uuid;

use super::compact::{self, CutParameters};
use crate::{
    PostgresError,
    database::Call,
    error::Failure,
    log::{count, revision, stored, uuid},
};

/// Adds an exchange. `name` is that of this call, random, and the same when it is made again because its answer was lost.
pub(crate) async fn append(call: &Call, id: &ConversationId, append: &Append, name: Uuid) -> Result<Appended, Failure> {
    let exchange = &append.exchange;
    let body = exchange.encode().map_err(StoreError::backend)?;
    let continues = exchange.continues.map(|seq| stored(seq.get()));
    let (messages, bytes) = (stored(exchange.messages.len() as u64), stored(exchange.bytes() as u64));
    let (expect, incarnation, version) = expectation(append.expect);
    let cut = append.compact.as_ref().map(CutParameters::new).transpose()?.unwrap_or_default();
    let rows = call
        .query(
            &call.sql.append,
            &[
                &id.as_str(),
                &expect,
                &incarnation,
                &version,
                &name,
                &exchange.id.as_str(),
                &continues,
                &messages,
                &bytes,
                &body,
                &cut.profile,
                &cut.replaces,
                &cut.window,
                &cut.rounds,
                &cut.cleared,
                &cut.covers,
                &cut.body,
            ],
        )
        .await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    outcome(id, append, row)
}

/// The expectation as the function takes it.
fn expectation(expect: Expect) -> (i32, Option<Uuid>, Option<i64>) {
    match expect {
        Expect::Absent => (0, None, None),
        Expect::Exactly(revision) => (1, Some(uuid(revision.incarnation())), Some(stored(revision.version()))),
        Expect::AnyIn(incarnation) => (2, Some(uuid(incarnation)), None),
        Expect::AnyOrCreate => (3, None, None),
    }
}

fn outcome(id: &ConversationId, append: &Append, row: &Row) -> Result<Appended, Failure> {
    let verdict: i32 = row.try_get(0)?;
    let incarnation: Option<Uuid> = row.try_get(1)?;
    let current: Option<Revision> = match incarnation {
        Some(incarnation) => Some(revision(incarnation, row.try_get(2)?, row.try_get(3)?)),
        None => None,
    };
    match (verdict, current) {
        (0, Some(current)) => {
            let seq = Seq::new(count(row.try_get(5)?));
            // The exchange is stored, whatever cannot be read of the compaction that stays.
            let outcome = |compact| compact::outcome(id, compact, row, 6).unwrap_or(CompactOutcome::Kept(None));
            let compaction = append.compact.as_ref().map(outcome);
            Ok(Appended::stored(current, seq, compaction))
        }
        (1, Some(current)) => Ok(Appended::duplicate(current, Seq::new(count(row.try_get(5)?)))),
        (2, current) => {
            // The words of the refusal are those of the core crate, which finds the same.
            append.expect.check(current)?;
            Err(PostgresError::Protocol.into())
        }
        (3, _) => match append.exchange.continues {
            Some(continues) => Err(StoreError::ContinuesUnknown { continues, len: count(row.try_get(4)?) }.into()),
            None => Err(PostgresError::Protocol.into()),
        },
        (4, _) => match &append.compact {
            Some(compact) => compact::outcome(id, compact, row, 6).map(|_| Err(PostgresError::Protocol.into()))?,
            None => Err(PostgresError::Protocol.into()),
        },
        _ => Err(PostgresError::Protocol.into()),
    }
}
