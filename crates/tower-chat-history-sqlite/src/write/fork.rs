//! Copying the beginning of a log into a new conversation.

use rusqlite::{Connection, ErrorCode, params};
use tower_chat_history_core::{
    CompactionVersion, ConversationId, ForkTo, Forked, Incarnation, LabelsVersion, Revision, StoreError,
};

use super::replace;
use crate::{
    erasures,
    error::{Failure, UnwrittenRow},
    job::Request,
    read::{Damage, Log, count_exchanges, place},
    stats::Counters,
};

pub(crate) struct ForkLog {
    pub(crate) id: ConversationId,
    pub(crate) incarnation: Incarnation,
    pub(crate) to: ForkTo,
}

impl Request for ForkLog {
    type Answer = Forked;

    fn run(&self, connection: &Connection, _: &Counters) -> Result<Forked, Failure> {
        if let Some(copy) = Log::find(connection, &self.to.id)? {
            // An earlier attempt may have made it.
            if copy.revision.incarnation() == self.to.incarnation {
                return Ok(Forked::new(Some(copy.revision)));
            }
            return Err(StoreError::Conflict { current: Some(copy.revision) }.into());
        }
        if let Some(since) = self.to.since {
            erasures::check(connection, &self.to.id, since)?;
        }

        let log = Log::find(connection, &self.id)?.filter(|log| log.revision.incarnation() == self.incarnation);
        let log = log.ok_or(StoreError::Gone)?;
        let end = self.to.before.get().min(log.len);
        if end <= log.first() {
            return Ok(Forked::new(None));
        }

        let revision = Revision::new(self.to.incarnation, end).beginning_at(log.revision.first());
        let (count, bytes) = count_exchanges(connection, log.id, log.first(), end - 1)?;
        let number = self.create(connection, revision, bytes)?;
        let copied = self.copy_exchanges(connection, &log, end, number)?;
        // A trigger may have prevented that a row was written. A missing row is found when the copy is read.
        if copied != count {
            return Err(StoreError::backend(UnwrittenRow).into());
        }

        if let Some(compact) = &self.to.compact {
            let mut first = compact.clone();
            first.replaces = CompactionVersion::NONE;
            replace::write_compaction(connection, number, &first)?;
        }
        Ok(Forked::new(Some(revision)))
    }
}

impl ForkLog {
    /// Writes the row of the copy, and returns its number.
    fn create(&self, connection: &Connection, revision: Revision, bytes: u64) -> Result<i64, Failure> {
        let ForkTo { id, at, labels, .. } = &self.to;
        let version = if labels.is_empty() { LabelsVersion::NONE } else { LabelsVersion::NONE.next() };
        let encoded = (!labels.is_empty()).then(|| labels.encode());
        let [first, len, at, bytes, version] =
            [revision.first().get(), revision.next().get(), at.as_unix_millis(), bytes, version.get()]
                .map(|number| i64::try_from(number).unwrap_or(i64::MAX));

        let sql = "INSERT INTO conversation \
                   (key, incarnation, version, first, len, created_at, updated_at, bytes, labels_version, labels) \
                   VALUES (?1, ?2, ?4, ?3, ?4, ?5, ?5, ?6, ?7, ?8)";
        let incarnation = revision.incarnation();
        let row = params![id.as_str(), incarnation.as_bytes(), first, len, at, bytes, version, encoded];
        UnwrittenRow::check(connection.prepare_cached(sql)?.execute(row)?)?;
        Ok(connection.last_insert_rowid())
    }

    /// Copies the rows of the exchanges before position `end`, and returns their number. Recalled messages that cite
    /// something else than the log are left out.
    ///
    /// SQLite keeps the rows that a statement copies within one table in memory, until it has read all of them. So each
    /// statement copies one row.
    fn copy_exchanges(&self, connection: &Connection, log: &Log, end: u64, number: i64) -> Result<u64, Failure> {
        let sql = "INSERT INTO exchange \
                   (place, id, continues, messages, bytes, media, recalled_first, recalled, provenance, body) \
                   SELECT ?2, id, continues, messages, bytes, media, \
                   CASE WHEN recalled_first < ?3 THEN NULL ELSE recalled_first END, \
                   CASE WHEN recalled_first < ?3 THEN NULL ELSE recalled END, \
                   provenance, body \
                   FROM exchange WHERE place = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let first = i64::try_from(log.first()).unwrap_or(i64::MAX);

        let mut copied = 0;
        for seq in log.first()..end {
            let rows = statement.execute([log.place(seq), place(number, seq), first]);
            copied += rows.map_err(|error| match error.sqlite_error_code() {
                // The place is taken, although the conversation is new.
                Some(ErrorCode::ConstraintViolation) => Damage::Outside.at(&self.to.id, seq),
                _ => Failure::from(error),
            })? as u64;
        }
        Ok(copied)
    }
}
