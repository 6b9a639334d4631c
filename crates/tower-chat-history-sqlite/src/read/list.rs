//! Listing conversations.

use rusqlite::{Connection, Row};
use tower_chat_history_core::{
    ConversationId, Cursor, Labels, LabelsVersion, Listed, Listing, Prefix, StoreError, Timestamp, backend::KeyRange,
};

use super::log::{Damage, Log};
use crate::{error::Failure, job::Request, stats::Counters};

/// The largest number of conversations of a page.
const MAX_PAGE: usize = 1_000;

/// The columns of an entry. The first six are those that [`Log::from_row`] reads.
const COLUMNS: &str =
    "id, incarnation, version, len, first, bytes, key, created_at, updated_at, labels_version, labels";

/// Returns a page of the conversations under a prefix.
pub(crate) struct ListConversations {
    pub(crate) under: Prefix,
    pub(crate) after: Option<Cursor>,
    pub(crate) limit: usize,
}

impl Request for ListConversations {
    type Answer = Listing;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<Listing, Failure> {
        let keys = KeyRange::new(&self.under, self.after.as_ref());
        let limit = self.limit.clamp(1, MAX_PAGE);
        let mut page = Listing::default();
        let mut last = None;

        if let Some(exact) = keys.exact
            && let Some(entry) = of_row(entry(connection, &exact, counters))?.transpose()
        {
            page.push(exact.clone(), entry);
            last = Some(exact);
        }

        let mut statement = connection.prepare_cached(&select("key > ?1 AND key < ?2 ORDER BY key"))?;
        let mut rows = statement.query([&keys.after, &keys.before])?;
        while let Some(row) = rows.next()? {
            counters.visited(1);
            if page.len() >= limit {
                page.next = last.map(Cursor::after);
                return Ok(page);
            }

            // A key that is not the id of a conversation was written by another program.
            let Ok(id) = row.get_ref(6)?.as_str().unwrap_or_default().parse::<ConversationId>() else {
                page.foreign_keys += 1;
                continue;
            };
            page.push(id.clone(), of_row(listed(id.clone(), row))?);
            last = Some(id);
        }
        Ok(page)
    }
}

/// Returns the entry of one conversation.
pub(crate) struct DescribeConversation {
    pub(crate) id: ConversationId,
}

impl Request for DescribeConversation {
    type Answer = Option<Listed>;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<Option<Listed>, Failure> {
        entry(connection, &self.id, counters)
    }
}

fn entry(connection: &Connection, id: &ConversationId, counters: &Counters) -> Result<Option<Listed>, Failure> {
    let mut statement = connection.prepare_cached(&select("key = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    counters.visited(1);
    listed(id.clone(), row).map(Some)
}

/// Separates the damage of one row, which a page names, from a failure of the database, which ends the page.
fn of_row<T>(read: Result<T, Failure>) -> Result<Result<T, StoreError>, Failure> {
    match read {
        Ok(read) => Ok(Ok(read)),
        Err(Failure::Store(error @ StoreError::Corrupt { .. })) => Ok(Err(error)),
        Err(Failure::Sqlite(error)) if is_conversion(&error) => Ok(Err(StoreError::backend(error))),
        Err(failure) => Err(failure),
    }
}

/// Returns `true` if a column has a value of another type than it should. This reads nothing from the file.
const fn is_conversion(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

fn select(condition: &str) -> String {
    format!("SELECT {COLUMNS} FROM conversation WHERE {condition}")
}

/// Reads the entry in a row of [`COLUMNS`].
fn listed(id: ConversationId, row: &Row<'_>) -> Result<Listed, Failure> {
    let log = Log::from_row(&id, row)?;
    let created: i64 = row.get(7)?;
    let updated: i64 = row.get(8)?;
    if created < 0 || updated < 0 || log.bytes < 0 {
        return Err(Damage::Entry { created, updated, bytes: log.bytes }.at(&id, 0));
    }

    let created = Timestamp::from_unix_millis(created.unsigned_abs());
    let updated = Timestamp::from_unix_millis(updated.unsigned_abs());
    let bytes = log.bytes.unsigned_abs();
    let (labels, version) = labels(&id, row, 9)?;
    Ok(Listed::new(id, log.revision, created, updated, bytes).labels(labels, version))
}

/// Reads the version of the labels and the labels from two columns.
pub(crate) fn labels(id: &ConversationId, row: &Row<'_>, column: usize) -> Result<(Labels, LabelsVersion), Failure> {
    let version: i64 = row.get(column)?;
    let damage = Damage::Labels { version };

    let labels = match row.get_ref(column + 1)?.as_str_or_null().map_err(|_| damage.at(id, 0))? {
        Some(stored) => Labels::decode(stored).map_err(|_| damage.at(id, 0))?,
        None => Labels::default(),
    };
    let version = u64::try_from(version).map_err(|_| damage.at(id, 0))?;
    Ok((labels, LabelsVersion::new(version)))
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    /// Returns the number of instructions that a page of 50 takes among this number of conversations.
    fn instructions(conversations: u32, under: &str) -> i32 {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../connection/schema-1.sql")).unwrap();
        let sql = "WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n + 1 < ?1) \
                   INSERT INTO conversation (key, incarnation, version, first, len, created_at, updated_at, bytes, \
                   labels_version) SELECT format('acme/%06d', n), zeroblob(16), 1, 0, 1, 0, 0, 0, 0 FROM n";
        connection.execute(sql, [conversations]).unwrap();

        let after = Some(Cursor::after("acme/000700".parse().unwrap()));
        let list = ListConversations { under: under.parse().unwrap(), after, limit: 50 };
        let counters = Counters::default();
        let page = list.run(&connection, &counters).unwrap();
        assert_eq!((page.conversations.len(), counters.stats().rows_read), (50, 51));
        assert_eq!(page.conversations[0].id.as_str(), "acme/000701");

        let statement = connection.prepare_cached(&select("key > ?1 AND key < ?2 ORDER BY key")).unwrap();
        statement.get_status(StatementStatus::VmStep)
    }

    #[test]
    fn a_page_costs_the_same_among_many_conversations() {
        for under in ["", "acme"] {
            let few = instructions(1_000, under);
            assert!(few > 50, "the instructions were counted");
            assert_eq!(instructions(50_000, under), few);
        }
    }
}
