//! Calls that add: an exchange, a compaction, and a copy of a log. Each is a function in the database, and one round
//! trip.

use std::sync::Arc;

use tokio_postgres::{Row, types::ToSql};
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, CompactionVersion, ConversationId, Expect, ForkTo, Forked, Incarnation,
    Profile, Provenance, Recalled, Revision, Seq, StoreError,
};
use uuid::Uuid;

use crate::{
    database::{BatchQueue, Batchable, Call, CallLimits, Database, Parameter, query_batched},
    error::{Failure, PostgresError},
    rows::{self, count, revision, stored, uuid},
    sql::{Sql, Statements},
};

/// The largest append that joins a batch. For larger ones, sending and storing takes longer than a batch saves.
const MAX_BATCHED_BYTES: usize = 64 << 10;

/// Appends an exchange. `name` is a random name of this call. A repetition after a lost response has the same name.
pub(crate) async fn append(
    database: &Arc<Database>,
    queue: &BatchQueue<AppendRequest>,
    id: &ConversationId,
    append: &Append,
    name: Uuid,
) -> Result<Appended, Failure> {
    let limits = database.limits();
    let refused = match append_once(database, queue, id, append, name, limits).await {
        Err(Failure::Postgres(refused)) if append.compact.is_some() && refused.is_answer() => refused,
        done => return done,
    };

    // An error about the compaction must not prevent the exchange from being stored, because its reply was paid for.
    // This applies to permanent errors, and to transient errors that persisted. An SQLSTATE does not show if the error
    // is about the exchange or about the compaction, so the exchange is appended alone. If that is not possible either,
    // for example on a read-only server, the second call fails.
    let limits = if refused.is_repeated() { limits.spent() } else { limits };
    let mut appended = append_once(database, queue, id, &append.alone(), name, limits).await?;
    appended.compaction = (!appended.duplicate).then_some(CompactOutcome::Kept(None));
    Ok(appended)
}

async fn append_once(
    database: &Arc<Database>,
    queue: &BatchQueue<AppendRequest>,
    id: &ConversationId,
    append: &Append,
    name: Uuid,
    limits: CallLimits,
) -> Result<Appended, Failure> {
    let body = append.exchange.encode().map_err(StoreError::backend)?;
    let recalled = append.exchange.recalled.as_ref().map(Recalled::encode).transpose().map_err(StoreError::backend)?;
    let provenance = append.exchange.provenance.as_ref().map(Provenance::encode);
    let provenance = provenance.transpose().map_err(StoreError::backend)?;

    let request = AppendRequest { id: id.clone(), append: append.clone(), body, recalled, provenance, name };
    let rows = query_batched(database, queue, request, limits).await?;
    appended(id, append, rows.first().ok_or(PostgresError::Protocol)?)
}

#[derive(Debug)]
pub(crate) struct AppendRequest {
    id: ConversationId,
    append: Append,
    body: String,
    recalled: Option<String>,
    provenance: Option<String>,
    name: Uuid,
}

impl Batchable for AppendRequest {
    const READS: bool = false;

    fn key(&self) -> &str {
        self.id.as_str()
    }

    fn is_small(&self) -> bool {
        let mut bytes = self.body.len();
        for record in [&self.recalled, &self.provenance].into_iter().flatten() {
            bytes += record.len();
        }
        if let Some(compact) = &self.append.compact {
            bytes += compact.state.len() + compact.derived.as_ref().map_or(0, |derived| derived.len());
        }
        bytes <= MAX_BATCHED_BYTES
    }

    fn parameters(&self) -> Vec<Parameter<'_>> {
        let exchange = &self.append.exchange;
        let (expect, incarnation, version) = expectation(self.append.expect);
        let compact = self.append.compact.as_ref();
        vec![
            Box::new(self.id.as_str()),
            Box::new(expect),
            Box::new(incarnation),
            Box::new(version),
            Box::new(self.append.since.map(|epoch| stored(epoch.get()))),
            Box::new(stored(self.append.first.get())),
            Box::new(self.name),
            Box::new(exchange.id.as_str()),
            Box::new(stored(exchange.at.as_unix_millis())),
            Box::new(exchange.continues.map(|seq| stored(seq.get()))),
            // The number of messages, the bytes and the media, as load limits count them.
            Box::new(stored(exchange.counted_messages() as u64)),
            Box::new(stored(exchange.bytes() as u64)),
            Box::new(stored(exchange.media_bytes() as u64)),
            Box::new(self.body.as_str()),
            Box::new(exchange.recalled.as_ref().and_then(Recalled::least_cited)),
            Box::new(self.recalled.as_deref()),
            Box::new(self.provenance.as_deref()),
            Box::new(compact.map(|compact| compact.profile.as_str())),
            Box::new(compact.map(|compact| stored(compact.replaces.get()))),
            Box::new(compact.map(|compact| stored(compact.window_start.get()))),
            Box::new(compact.map(|compact| &*compact.state)),
            Box::new(compact.and_then(|compact| compact.derived.as_deref())),
        ]
    }

    fn statements(sql: &Sql) -> &Statements {
        &sql.append
    }
}

/// Converts the expectation to the arguments of `append_1`: kind, incarnation and version.
fn expectation(expect: Expect) -> (i32, Option<Uuid>, Option<i64>) {
    match expect {
        Expect::Absent => (0, None, None),
        Expect::Exactly(revision) => (1, Some(uuid(revision.incarnation())), Some(stored(revision.version()))),
        Expect::AnyIn(incarnation) => (2, Some(uuid(incarnation)), None),
        Expect::AnyOrCreate => (3, None, None),
    }
}

fn appended(id: &ConversationId, append: &Append, row: &Row) -> Result<Appended, Failure> {
    let verdict: i32 = row.try_get(0)?;
    let incarnation: Option<Uuid> = row.try_get(1)?;
    let len: i64 = row.try_get(3)?;
    let current: Option<Revision> = match incarnation {
        Some(incarnation) => Some(revision(incarnation, len, row.try_get(2)?)),
        None => None,
    };
    let len = count(len);

    match (verdict, current) {
        (0, Some(current)) => {
            let seq = Seq::new(count(row.try_get(4)?));
            // The exchange is stored, even if the stored compaction cannot be read.
            let compaction = append.compact.as_ref().map(|compact| {
                compact_outcome(id, len, &compact.profile, row, 5).unwrap_or(CompactOutcome::Kept(None))
            });
            // If this call has run before, the log may have grown since.
            let current = Revision::new(current.incarnation(), seq.get() + 1).beginning_at(current.first());
            Ok(Appended::stored(current, seq, compaction))
        }
        (1, Some(current)) => Ok(Appended::duplicate(current, Seq::new(count(row.try_get(4)?)))),
        (2, current) => {
            // The core crate makes the same check and returns the error.
            append.expect.check(current)?;
            Err(PostgresError::Protocol.into())
        }
        (3, _) => match append.exchange.continues {
            Some(continues) => Err(StoreError::ContinuesUnknown { continues, len }.into()),
            None => Err(PostgresError::Protocol.into()),
        },
        (4, _) => Err(StoreError::Gone.into()),
        _ => Err(PostgresError::Protocol.into()),
    }
}

/// Stores a compaction.
pub(crate) async fn compact(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    compact: Compact,
) -> Result<CompactOutcome, Failure> {
    let name = uuid(Incarnation::random());
    let parameters: [&(dyn ToSql + Sync); 8] = [
        &id.as_str(),
        &uuid(incarnation),
        &name,
        &compact.profile.as_str(),
        &stored(compact.replaces.get()),
        &stored(compact.window_start.get()),
        &&*compact.state,
        &compact.derived.as_deref(),
    ];

    let rows = call.query(&call.sql.compact, &parameters).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    if row.try_get::<_, Option<bool>>(0)?.is_none() {
        return Err(StoreError::Gone.into());
    }

    // The function does not return the length of the log.
    compact_outcome(id, u64::MAX, &compact.profile, row, 0)
}

/// Reads the outcome of a compaction in a log of length `len`. Its columns begin at `column`: true if it was
/// stored, and those of the stored compaction.
fn compact_outcome(
    id: &ConversationId,
    len: u64,
    profile: &Profile,
    row: &Row,
    column: usize,
) -> Result<CompactOutcome, Failure> {
    if row.try_get(column)? {
        return Ok(CompactOutcome::Stored(CompactionVersion::new(count(row.try_get(column + 1)?))));
    }
    rows::compaction(id, len, profile, row, column + 1).map(CompactOutcome::Kept)
}

/// Copies the beginning of a log into a new conversation. A repetition after a lost response finds the copy by its
/// incarnation.
pub(crate) async fn fork(
    call: &Call,
    id: &ConversationId,
    incarnation: Incarnation,
    to: &ForkTo,
) -> Result<Forked, Failure> {
    let labels = (!to.labels.is_empty()).then(|| to.labels.encode());
    let compact = to.compact.as_ref();
    let parameters: [&(dyn ToSql + Sync); 12] = [
        &id.as_str(),
        &uuid(incarnation),
        &to.id.as_str(),
        &uuid(to.incarnation),
        &stored(to.before.get()),
        &to.since.map(|epoch| stored(epoch.get())),
        &stored(to.at.as_unix_millis()),
        &labels,
        &compact.map(|compact| compact.profile.as_str()),
        &compact.map(|compact| stored(compact.window_start.get())),
        &compact.map(|compact| &*compact.state),
        &compact.and_then(|compact| compact.derived.as_deref()),
    ];

    let rows = call.query(&call.sql.fork, &parameters).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;

    let current = match row.try_get::<_, Option<Uuid>>(1)? {
        Some(incarnation) => Some(revision(incarnation, row.try_get(3)?, row.try_get(2)?)),
        None => None,
    };
    match row.try_get(0)? {
        0 => Ok(Forked::new(current)),
        1 => Err(StoreError::Conflict { current }.into()),
        2 => Err(StoreError::Gone.into()),
        _ => Err(PostgresError::Protocol.into()),
    }
}
