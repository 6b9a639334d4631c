//! Reading a log: the window of a load, and pages.
//!
//! # Decisions
//!
//! - **A window is read in one walk**, back from the newest exchange, and each exchange is decoded as it comes. A
//!   second statement would visit each row again.

use rusqlite::{Connection, Row};
use tower_chat_history_core::{
    CompactionVersion, ConversationId, KnownState, Load, Loaded, Page, Recorded, Seq, Window, backend::WindowScan,
};

use super::log::{Columns, Damage, Log, SELECT_BACK, SELECT_RANGE, number};
use crate::{erasures, error::Failure, job::Request, stats::Counters};

/// The largest size of the messages of a page, in bytes, including the records of recalled messages and
/// provenances. A page with a single exchange may be larger.
const MAX_PAGE_BYTES: usize = 4 << 20;

pub(crate) struct LoadWindow {
    pub(crate) id: ConversationId,
    pub(crate) load: Load,
}

impl Request for LoadWindow {
    type Answer = Loaded;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<Loaded, Failure> {
        let Some(log) = Log::find(connection, &self.id)? else {
            return Ok(Loaded::Absent(erasures::current(connection)?));
        };
        if let Some(exchange) = &self.load.exchange
            && let Some(seq) = log.position(connection, &self.id, exchange)?
        {
            return log.recorded(connection, &self.id, seq.get(), counters).map(Loaded::AlreadyRecorded);
        }

        let compaction = log.compaction(connection, &self.id, &self.load.profile)?;
        let version = compaction.as_ref().map_or(CompactionVersion::NONE, |stored| stored.version);
        if let Some(KnownState { revision, compaction, newest }) = &self.load.known
            && *revision == log.revision
            && *compaction == version
            && log.ends_with(connection, newest.as_ref())?
        {
            return Ok(Loaded::Unchanged);
        }

        let start = compaction.as_ref().map_or(Seq::FIRST, |compaction| compaction.window_start);
        let (exchanges, truncated) = self.walk(connection, &log, start.get().max(log.first()), counters)?;
        let log_bytes = u64::try_from(log.bytes).map_err(|_| Damage::Bytes { bytes: log.bytes }.at(&self.id, 0))?;
        Ok(Loaded::Window(Window::new(log.revision, compaction, exchanges, truncated).log_bytes(log_bytes)))
    }
}

impl LoadWindow {
    /// Reads the exchanges back from the end of the log to `first`, or until the limit is reached. Returns those of the
    /// window, and `true` if the limit cut something off.
    fn walk(
        &self,
        connection: &Connection,
        log: &Log,
        first: u64,
        counters: &Counters,
    ) -> Result<(Vec<Recorded>, bool), Failure> {
        let mut scan = WindowScan::new(self.load.limit);
        let mut statement = connection.prepare_cached(SELECT_BACK)?;
        let mut rows = statement.query(<[i64; 2]>::from(log.places(first, log.len - 1)))?;

        // An exchange that cannot be decoded is an error only if the window has it. The limit may cut off the beginning
        // of a turn, and the window then starts with the next one.
        let mut newest_first = Vec::new();
        let mut visited = 0;
        for expected in (first..log.len).rev() {
            let row = rows.next()?;
            visited += 1;
            log.check(&self.id, row, expected)?;
            let Some(row) = row else { break };

            let columns = Columns::of(row)?;
            let body = row.get_ref(5)?.as_bytes().map_err(rusqlite::Error::from)?;
            let octets = i64::try_from(body.len()).unwrap_or(i64::MAX);
            let [messages, bytes, media] = match columns.sizes(&self.id, expected, octets) {
                Ok(sizes) => sizes,
                // Decoding the record may return a more precise error, for example that a newer version wrote it.
                Err(damaged) => {
                    return Err(Log::decode(&self.id, expected, columns, row).err().unwrap_or(damaged));
                }
            };
            if scan.offer(Seq::new(expected), columns.continues.is_none(), messages, bytes, media).is_break() {
                break;
            }
            newest_first.push(Log::decode(&self.id, expected, columns, row));
        }

        if first == log.first() && first > 0 && !scan.is_truncated() {
            Log::check_end(&self.id, rows.next()?)?;
        }
        counters.visited(visited);
        counters.decoded(newest_first.len());

        let kept = scan.start().map_or(0, |start| log.len - start.get());
        newest_first.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        let exchanges = newest_first.into_iter().rev().collect::<Result<_, _>>()?;
        Ok((exchanges, scan.is_truncated()))
    }
}

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
        let mut exchanges = Vec::new();
        let mut bytes = 0_usize;
        for expected in from..to {
            let row = rows.next()?;
            counters.visited(1);
            log.check(&self.id, row, expected)?;
            let Some(row) = row else { break };

            let columns = Columns::of(row)?;
            let messages: usize = number(&self.id, expected, columns.bytes)?;
            let records = record_len(row, 7)? + record_len(row, 8)?;
            bytes = bytes.saturating_add(messages).saturating_add(records);
            if bytes > MAX_PAGE_BYTES && !exchanges.is_empty() {
                break;
            }
            exchanges.push(Log::decode(&self.id, expected, columns, row)?);
        }

        let next = from + exchanges.len() as u64;
        if next == log.len {
            Log::check_end(&self.id, rows.next()?)?;
        }
        counters.decoded(exchanges.len());

        Ok(Page::new(log.revision, exchanges, next < log.len))
    }
}

/// Returns the length in bytes of the record in a column; 0 if there is none.
fn record_len(row: &Row<'_>, column: usize) -> rusqlite::Result<usize> {
    let record = row.get_ref(column)?.as_bytes_or_null().unwrap_or_default();
    Ok(record.map_or(0, <[u8]>::len))
}
