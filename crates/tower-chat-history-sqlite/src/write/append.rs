//! Appending an exchange.

use rusqlite::{Connection, ErrorCode, params};
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Epoch, ExchangeId, Expect, Incarnation, Provenance,
    Recalled, Revision, Seq, StoreError, Timestamp,
};

use super::replace;
use crate::{
    erasures,
    error::{Failure, UnwrittenRow},
    job::Request,
    read::{Damage, Log, MAX_EXCHANGES},
    stats::Counters,
};

/// An encoded exchange, and the state that the log must be in.
pub(crate) struct AppendExchange {
    id: ConversationId,
    expect: Expect,
    since: Option<Epoch>,
    /// The position of the exchange if it creates the conversation.
    first: u64,
    exchange: ExchangeId,
    at: Timestamp,
    continues: Option<Seq>,
    messages: usize,
    bytes: usize,
    media: usize,
    recalled_first: Option<i64>,
    recalled: Option<String>,
    provenance: Option<String>,
    body: String,
    compact: Option<Compact>,
}

impl AppendExchange {
    pub(crate) fn new(id: ConversationId, append: Append) -> Result<Self, StoreError> {
        let exchange = &*append.exchange;
        let body = exchange.encode().map_err(StoreError::backend)?;
        let recalled = exchange.recalled.as_ref().map(Recalled::encode).transpose().map_err(StoreError::backend)?;
        let provenance = exchange.provenance.as_ref().map(Provenance::encode);
        let provenance = provenance.transpose().map_err(StoreError::backend)?;

        Ok(Self {
            id,
            expect: append.expect,
            since: append.since,
            first: append.first.get(),
            exchange: exchange.id.clone(),
            at: exchange.at,
            continues: exchange.continues,
            messages: exchange.message_count(),
            bytes: exchange.bytes(),
            media: exchange.media_bytes(),
            recalled_first: exchange.recalled.as_ref().and_then(Recalled::least_cited),
            recalled,
            provenance,
            body,
            compact: append.compact,
        })
    }
}

impl Request for AppendExchange {
    type Answer = Appended;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Appended, Failure> {
        let log = Log::find(connection, &self.id)?;
        if let Some(log) = &log
            && let Some(seq) = log.position(connection, &self.id, &self.exchange)?
        {
            return Ok(Appended::duplicate(log.revision, seq));
        }

        if let Some(since) = self.since {
            erasures::check(connection, &self.id, since)?;
        }
        self.expect.check(log.map(|log| log.revision))?;

        let len = log.map_or(self.first, |log| log.len);
        // The first exchange of a log continues nothing, also no position before it.
        if let Some(continues) = self.continues.filter(|continues| log.is_none() || continues.get() >= len) {
            return Err(StoreError::ContinuesUnknown { continues, len }.into());
        }
        if len >= MAX_EXCHANGES {
            return Err(StoreError::backend(LogFull).into());
        }

        let log = match log {
            Some(log) => self.lengthen(connection, log)?,
            None => self.create(connection)?,
        };
        let rows = self.insert(connection, log.place(len)).map_err(|error| match error.sqlite_error_code() {
            // The place is taken, although the log ends before it.
            Some(ErrorCode::ConstraintViolation) => Damage::Outside.at(&self.id, len),
            _ => Failure::from(error),
        })?;
        UnwrittenRow::check(rows)?;

        // The log has the exchange now, so the window may start at its position.
        let compaction = self.compact.as_ref().map(|compact| self.compact(connection, &log, compact)).transpose()?;
        Ok(Appended::stored(log.revision, Seq::new(len), compaction))
    }
}

impl AppendExchange {
    /// Stores the compaction that the append carries. If the stored one is damaged, it is kept, and the exchange is
    /// stored nevertheless.
    fn compact(&self, connection: &Connection, log: &Log, compact: &Compact) -> Result<CompactOutcome, Failure> {
        match replace::store_compaction(connection, &self.id, log, compact) {
            Err(Failure::Store(StoreError::CorruptCompaction { .. })) => Ok(CompactOutcome::Kept(None)),
            outcome => outcome,
        }
    }

    fn insert(&self, connection: &Connection, place: i64) -> rusqlite::Result<usize> {
        let sql = "INSERT INTO exchange \
                   (place, id, continues, messages, bytes, media, recalled_first, recalled, provenance, body) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        connection.prepare_cached(sql)?.execute(params![
            place,
            self.exchange.as_str(),
            self.continues.map(|seq| stored(seq.get())),
            stored(self.messages as u64),
            stored(self.bytes as u64),
            stored(self.media as u64),
            self.recalled_first,
            self.recalled,
            self.provenance,
            self.body,
        ])
    }

    fn create(&self, connection: &Connection) -> Result<Log, Failure> {
        let incarnation = Incarnation::random();
        let len = self.first + 1;
        let [first, next, at, bytes] = [self.first, len, self.at.as_unix_millis(), self.bytes as u64].map(stored);

        let sql = "INSERT INTO conversation \
                   (key, incarnation, version, first, len, created_at, updated_at, bytes, labels_version) \
                   VALUES (?1, ?2, ?4, ?3, ?4, ?5, ?5, ?6, 0)";
        let row = params![self.id.as_str(), incarnation.as_bytes(), first, next, at, bytes];
        UnwrittenRow::check(connection.prepare_cached(sql)?.execute(row)?)?;

        let revision = Revision::new(incarnation, len).beginning_at(Seq::new(self.first));
        Ok(Log { id: connection.last_insert_rowid(), revision, len, bytes })
    }

    fn lengthen(&self, connection: &Connection, log: Log) -> Result<Log, Failure> {
        let at = stored(self.at.as_unix_millis());
        let bytes = stored(self.bytes as u64);

        let sql = "UPDATE conversation \
                   SET version = version + 1, len = len + 1, updated_at = max(updated_at, ?2), bytes = bytes + ?3 \
                   WHERE id = ?1";
        UnwrittenRow::check(connection.prepare_cached(sql)?.execute([log.id, at, bytes])?)?;

        let revision = Revision::new(log.revision.incarnation(), log.revision.version() + 1);
        let revision = revision.beginning_at(log.revision.first());
        Ok(Log { revision, len: log.len + 1, bytes: log.bytes.saturating_add(bytes), ..log })
    }
}

/// Converts a number for SQLite. Only a time that is far from any clock exceeds the maximum.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Debug, thiserror::Error)]
#[error("the conversation has {MAX_EXCHANGES} exchanges, the maximum of this store")]
struct LogFull;
