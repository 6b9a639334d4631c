//! Appending an exchange.

use rusqlite::{Connection, ErrorCode, params};
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, ExchangeId, Expect, Incarnation, Provenance, Recalled,
    Revision, Seq, StoreError,
};

use super::compact;
use crate::{
    error::{Failure, NotWritten},
    job::Request,
    read::{Damage, Log, MAX_EXCHANGES},
    stats::Counters,
};

/// An encoded exchange, and the state that the log must be in.
pub(crate) struct AppendExchange {
    id: ConversationId,
    expect: Expect,
    exchange: ExchangeId,
    continues: Option<Seq>,
    messages: usize,
    bytes: usize,
    recalled_first: Option<Seq>,
    recalled: Option<String>,
    provenance: Option<String>,
    body: String,
    compact: Option<Compact>,
}

impl AppendExchange {
    pub(crate) fn new(id: ConversationId, append: Append) -> Result<Self, StoreError> {
        let body = append.exchange.encode().map_err(StoreError::backend)?;
        let recalled = append.exchange.recalled.as_ref();
        let recalled_first = recalled.and_then(Recalled::first_cited);
        let recalled = recalled.map(Recalled::encode).transpose().map_err(StoreError::backend)?;
        let provenance = append.exchange.provenance.as_deref().map(Provenance::encode);
        let provenance = provenance.transpose().map_err(StoreError::backend)?;
        let (messages, bytes) = (append.exchange.messages.len(), append.exchange.bytes());
        let (expect, compact) = (append.expect, append.compact);
        let (exchange, continues) = (append.exchange.id, append.exchange.continues);
        Ok(Self {
            id,
            expect,
            exchange,
            continues,
            messages,
            bytes,
            recalled_first,
            recalled,
            provenance,
            body,
            compact,
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
        self.expect.check(log.map(|log| log.revision))?;
        let len = log.map_or(0, |log| log.len);
        if let Some(continues) = self.continues.filter(|continues| continues.get() >= len) {
            return Err(StoreError::ContinuesUnknown { continues, len }.into());
        }
        if len >= MAX_EXCHANGES {
            return Err(StoreError::backend(LogFull).into());
        }
        let log = match log {
            Some(log) => lengthen(connection, log)?,
            None => create(connection, &self.id)?,
        };
        let rows = self.insert(connection, log.place(len)).map_err(|error| match error.sqlite_error_code() {
            // The place is taken, although the log ends before it.
            Some(ErrorCode::ConstraintViolation) => Damage::Outside.at(&self.id, len),
            _ => Failure::from(error),
        })?;
        NotWritten::check(rows)?;
        // The exchange has been inserted, so the window may start at its position.
        let compaction = self.compact.as_ref().map(|compact| self.compact(connection, &log, compact)).transpose()?;
        Ok(Appended::stored(log.revision, Seq::new(len), compaction))
    }
}

impl AppendExchange {
    /// Stores the compaction that the append carries. If the stored one cannot be read, or if a trigger prevents the
    /// change, the stored one is kept, and the exchange is stored nevertheless.
    fn compact(&self, connection: &Connection, log: &Log, compact: &Compact) -> Result<CompactOutcome, Failure> {
        match compact::store(connection, &self.id, log, compact) {
            Err(Failure::Store(StoreError::CorruptCompaction { .. })) => Ok(CompactOutcome::Kept(None)),
            Err(Failure::Store(StoreError::Backend { source })) if source.is::<NotWritten>() => {
                Ok(CompactOutcome::Kept(None))
            }
            outcome => outcome,
        }
    }

    fn insert(&self, connection: &Connection, place: i64) -> rusqlite::Result<usize> {
        let sql = "INSERT INTO exchange \
                   (place, id, continues, messages, bytes, recalled_first, recalled, provenance, body) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let [continues, recalled_first] = [self.continues, self.recalled_first].map(|seq| Some(stored(seq?.get())));
        let (messages, bytes) = (stored(self.messages as u64), stored(self.bytes as u64));
        let (id, recalled, provenance) = (self.exchange.as_str(), &self.recalled, &self.provenance);
        let row = params![place, id, continues, messages, bytes, recalled_first, recalled, provenance, self.body];
        connection.prepare_cached(sql)?.execute(row)
    }
}

fn create(connection: &Connection, id: &ConversationId) -> Result<Log, Failure> {
    let incarnation = Incarnation::random();
    let sql = "INSERT INTO conversation (key, incarnation, version, first, len) VALUES (?1, ?2, 1, 0, 1)";
    NotWritten::check(connection.prepare_cached(sql)?.execute(params![id.as_str(), incarnation.as_bytes()])?)?;
    Ok(Log { id: connection.last_insert_rowid(), revision: Revision::new(incarnation, 1), len: 1 })
}

fn lengthen(connection: &Connection, log: Log) -> Result<Log, Failure> {
    let sql = "UPDATE conversation SET version = version + 1, len = len + 1 WHERE id = ?1";
    NotWritten::check(connection.prepare_cached(sql)?.execute([log.id])?)?;
    let revision = Revision::new(log.revision.incarnation(), log.revision.version() + 1);
    let revision = revision.beginning_at(log.revision.first());
    Ok(Log { revision, len: log.len + 1, ..log })
}

/// Converts a number for SQLite. None comes near the maximum.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Debug, thiserror::Error)]
#[error("the conversation has {MAX_EXCHANGES} exchanges, the maximum of this store")]
struct LogFull;
