//! Reading a page of the log.

use rusqlite::Connection;
use tower_chat_history_core::{ConversationId, Page, Seq};

use super::{
    damage::number,
    log::{Log, SELECT_RANGE},
};
use crate::{error::Failure, job::Request, stats::Counters};

/// The largest size of the messages of a page, in bytes, including the records of recalled messages and
/// provenances. A page with a single exchange may be larger.
const MAX_PAGE_BYTES: usize = 4 << 20;

pub(crate) struct ReadPage {
    pub(crate) id: ConversationId,
    pub(crate) from: Seq,
    pub(crate) limit: usize,
}

impl Request for ReadPage {
    type Answer = Page;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<Page, Failure> {
        let Some(log) = Log::find(connection, &self.id)? else { return Ok(Page::absent()) };
        // A position after the end of the log must not reach into the places of the next conversation.
        let from = self.from.get().max(log.first()).min(log.len);
        let limit = u64::try_from(self.limit).unwrap_or(u64::MAX);
        let to = from.saturating_add(limit).min(log.len);
        if from == to {
            return Ok(Page::new(log.revision, Vec::new(), from < log.len));
        }
        let mut statement = connection.prepare_cached(SELECT_RANGE)?;
        let mut rows = statement.query(<[i64; 2]>::from(log.places(from, to - 1)))?;
        let (mut exchanges, mut bytes) = (Vec::new(), 0_usize);
        for expected in from..to {
            let row = rows.next()?;
            counters.visited(1);
            log.check(&self.id, row, expected)?;
            let Some(row) = row else { break };
            let [recalled, provenance] = [row.get_ref(7)?, row.get_ref(8)?]
                .map(|column| column.as_bytes_or_null().ok().flatten().map_or(0, <[u8]>::len));
            bytes =
                bytes.saturating_add(number(&self.id, expected, row.get(4)?)?).saturating_add(recalled + provenance);
            if bytes > MAX_PAGE_BYTES && !exchanges.is_empty() {
                break;
            }
            exchanges.push(Log::decode(&self.id, row)?);
        }
        let next = from + exchanges.len() as u64;
        if next == log.len {
            Log::check_end(&self.id, rows.next()?)?;
        }
        counters.decoded(exchanges.len());
        Ok(Page::new(log.revision, exchanges, next < log.len))
    }
}
