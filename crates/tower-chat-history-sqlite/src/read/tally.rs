//! Counting the rows of a conversation.

use rusqlite::Connection;
use tower_chat_history_core::{AttachmentName, Compaction, CompactionVersion, Removed};

use super::log::{MAX_EXCHANGES, place};
use crate::error::Failure;

/// The numbers of a conversation's rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// The numbers for a receipt.
    pub(crate) counted: Removed,
    /// The size of the messages and the attachments, in bytes.
    pub(crate) bytes: u64,
}

impl Tally {
    /// Counts what is stored under the number of a conversation. It reads no bodies, except those of compactions. Rows
    /// that are damaged count too.
    pub(crate) fn of(connection: &Connection, number: i64) -> Result<Self, Failure> {
        let (exchanges, message_bytes) = exchanges(connection, number, 0, MAX_EXCHANGES)?;
        let mut counted = Removed::default();
        counted.conversations = 1;
        (counted.exchanges, counted.exchange_ids, counted.bytes) = (exchanges, exchanges, message_bytes);
        let sql = "SELECT labels IS NOT NULL FROM conversation WHERE id = ?1";
        counted.labels = connection.prepare_cached(sql)?.query_row([number], |row| row.get(0).map(unsigned))?;
        (counted.compactions, counted.summaries) = compactions(connection, number)?;
        let attachment_bytes = attachments(connection, number, &mut counted)?;
        Ok(Self { counted, bytes: message_bytes.saturating_add(attachment_bytes) })
    }

    /// Returns the number of rows, without those of indexes.
    pub(crate) fn rows(&self) -> u64 {
        let Removed { conversations, exchanges, compactions, .. } = self.counted;
        conversations + exchanges + compactions + self.attachments()
    }

    /// Returns the number of attachments of all kinds.
    pub(crate) fn attachments(&self) -> u64 {
        self.counted.attachments.values().sum()
    }
}

/// Returns the number of exchanges from one position to another, both included, and their size in bytes of message
/// JSON.
pub(crate) fn exchanges(connection: &Connection, number: i64, first: u64, last: u64) -> rusqlite::Result<(u64, u64)> {
    // `total` returns a float, so that the columns of damaged rows cannot overflow. Sums that occur are exact.
    let sql = "SELECT count(*), CAST(total(bytes) AS INTEGER) FROM exchange WHERE place BETWEEN ?1 AND ?2";
    let places = [place(number, first), place(number, last)];
    connection.prepare_cached(sql)?.query_row(places, |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))))
}

/// Returns the number of compactions, and of those with a summary. One that cannot be read might have a summary.
fn compactions(connection: &Connection, number: i64) -> rusqlite::Result<(u64, u64)> {
    let mut statement = connection.prepare_cached("SELECT body FROM compaction WHERE conversation = ?1")?;
    let mut rows = statement.query([number])?;
    let (mut compactions, mut summaries) = (0, 0);
    while let Some(row) = rows.next()? {
        let stored = row.get_ref(0)?.as_str().ok();
        // The version is not a part of the body.
        let compaction = stored.and_then(|body| Compaction::decode(CompactionVersion::NONE, body).ok());
        let has_summary = compaction.is_none_or(|compaction| {
            let replaced = compaction.replaced.is_some_and(|cut| cut.summary.is_some());
            compaction.cut.summary.is_some() || replaced
        });
        compactions += 1;
        summaries += u64::from(has_summary);
    }
    Ok((compactions, summaries))
}

/// Counts the attachments by kind, and returns their size in bytes.
fn attachments(connection: &Connection, number: i64, counted: &mut Removed) -> Result<u64, Failure> {
    let sql = "SELECT name, count(*), CAST(total(octet_length(body)) AS INTEGER) FROM attachment \
               WHERE conversation = ?1 GROUP BY name";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([number])?;
    let mut bytes = 0_u64;
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str().unwrap_or_default();
        // A name that is damaged counts as one more kind.
        let name = AttachmentName::new(name).or_else(|_| AttachmentName::new("damaged"));
        if let Ok(name) = name {
            counted.add_attachments(&name, unsigned(row.get(1)?));
        }
        bytes = bytes.saturating_add(unsigned(row.get(2)?));
    }
    Ok(bytes)
}

/// Converts a count or a sum. Only the columns of damaged rows are negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
