//! Reading the log itself.

use rusqlite::{Connection, params};
use tower_chat_history_core::{ConversationId, Page, Seq};

use super::log::{Log, count, seq_of};
use crate::{error::Failure, job::Request, stats::Counters};

/// A page ends before the exchange with which its messages would be larger.
const PAGE_BYTES: usize = 4 << 20;

pub(crate) struct ReadPage {
    pub(crate) id: ConversationId,
    pub(crate) from: Seq,
    pub(crate) limit: usize,
}

impl Request for ReadPage {
    type Answer = Page;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<Page, Failure> {
        let Some(log) = Log::find(connection, &self.id)? else { return Ok(Page::absent()) };
        // A position beyond the log may not reach into the places of the next conversation.
        let from = self.from.get().max(log.first()).min(log.len);
        let limit = u64::try_from(self.limit).unwrap_or(u64::MAX);
        let to = from.saturating_add(limit).min(log.len);
        let mut statement = connection.prepare_cached(
            "SELECT place, bytes, body FROM exchange WHERE place >= ?1 AND place < ?2 ORDER BY place",
        )?;
        let mut rows = statement.query(params![log.place(from), log.place(to)])?;
        let (mut exchanges, mut bytes) = (Vec::new(), 0_usize);
        for expected in from..to {
            let row = rows.next()?.ok_or_else(|| Log::missing(&self.id, expected))?;
            counters.visited(1);
            if seq_of(row.get(0)?) != expected {
                return Err(Log::missing(&self.id, expected));
            }
            bytes = bytes.saturating_add(count(row.get(1)?));
            if bytes > PAGE_BYTES && !exchanges.is_empty() {
                break;
            }
            exchanges.push(Log::decode(&self.id, expected, row, 2)?);
        }
        counters.decoded(exchanges.len());
        let more = from + (exchanges.len() as u64) < log.len;
        Ok(Page::new(log.revision, exchanges, more))
    }
}
