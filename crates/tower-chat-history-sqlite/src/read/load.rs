//! Loading a window.

use rusqlite::Connection;
use tower_chat_history_core::{
    CompactionError, CompactionVersion, ConversationId, KnownState, Load, Loaded, Recorded, Seq, Window,
    backend::{Scan, WindowScan},
};

use super::{
    damage::{Damage, corrupt_compaction, size},
    erasures,
    log::{Log, SELECT_RANGE},
};
use crate::{error::Failure, job::Request, stats::Counters};

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
            && (*revision, *compaction) == (log.revision, version)
            && log.ends_with(connection, newest.as_ref())?
        {
            return Ok(Loaded::Unchanged);
        }
        let compaction = compaction.map(|stored| stored.parse(&self.id, &self.load.profile, log.len)).transpose()?;
        let start = compaction.as_ref().map_or(Seq::FIRST, |compaction| compaction.cut.window_start);
        let scan = self.scan(connection, &log, start.get().max(log.first()), counters)?;
        let exchanges = match scan.start() {
            Some(start) => self.exchanges(connection, &log, start.get(), counters)?,
            None => Vec::new(),
        };
        let damaged = |_| Damage::Bytes { bytes: log.bytes }.at(&self.id, 0);
        let log_bytes = u64::try_from(log.bytes).map_err(damaged)?;
        Ok(Loaded::Window(Window::new(log.revision, compaction, exchanges, scan.is_truncated()).log_bytes(log_bytes)))
    }
}

impl LoadWindow {
    /// Walks back from the end of the log to `first`, or until the limit is reached, without reading bodies.
    fn scan(&self, connection: &Connection, log: &Log, first: u64, counters: &Counters) -> Result<WindowScan, Failure> {
        let mut scan = WindowScan::new(self.load.limit);
        let mut statement = connection.prepare_cached(
            "SELECT place, continues IS NULL, messages, bytes, octet_length(body) FROM exchange \
             WHERE place BETWEEN ?1 AND ?2 ORDER BY place DESC",
        )?;
        let mut rows = statement.query(<[i64; 2]>::from(log.places(first, log.len - 1)))?;
        let mut visited = 0;
        for expected in (first..log.len).rev() {
            let row = rows.next()?;
            visited += 1;
            log.check(&self.id, row, expected)?;
            let Some(row) = row else { break };
            let opens = row.get(1)?;
            let (messages, bytes) = match size(&self.id, expected, (row.get(2)?, row.get(3)?, row.get(4)?)) {
                Ok(size) => size,
                // Decoding the record may return a more precise error, for example that a newer version wrote it.
                Err(damaged) => {
                    return Err(log.recorded(connection, &self.id, expected, counters).err().unwrap_or(damaged));
                }
            };
            if scan.offer(Seq::new(expected), opens, messages, bytes) == Scan::Stop {
                counters.visited(visited);
                return Ok(scan);
            }
            if expected == first && first > log.first() && !opens {
                // A window starts after the beginning of the log only because of a compaction, so the compaction is
                // damaged.
                let source = CompactionError::NotAnOpening { seq: Seq::new(first) };
                return Err(corrupt_compaction(&self.id, &self.load.profile, source).into());
            }
        }
        if first == log.first() && first > 0 {
            Log::check_end(&self.id, rows.next()?)?;
        }
        counters.visited(visited);
        Ok(scan)
    }

    /// Reads the exchanges from `start` to the end. The walk has checked that they exist.
    fn exchanges(
        &self,
        connection: &Connection,
        log: &Log,
        start: u64,
        counters: &Counters,
    ) -> Result<Vec<Recorded>, Failure> {
        let mut exchanges = Vec::with_capacity(usize::try_from(log.len - start).unwrap_or(0));
        let mut statement = connection.prepare_cached(SELECT_RANGE)?;
        let mut rows = statement.query([log.place(start), log.place(log.len - 1)])?;
        while let Some(row) = rows.next()? {
            exchanges.push(Log::decode(&self.id, row)?);
        }
        counters.decoded(exchanges.len());
        Ok(exchanges)
    }
}
