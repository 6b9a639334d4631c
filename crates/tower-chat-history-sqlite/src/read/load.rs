//! Loading what a call needs.

use rusqlite::{Connection, params};
use tower_chat_history_core::{
    CompactionVersion, ConversationId, Known, Load, Loaded, Recorded, Scan, Seq, Window, WindowScan,
};

use super::log::{Log, count, seq_of};
use crate::{error::Failure, job::Request, stats::Counters};

pub(crate) struct LoadWindow {
    pub(crate) id: ConversationId,
    pub(crate) load: Load,
}

impl Request for LoadWindow {
    type Answer = Loaded;

    fn run(&self, connection: &Connection, counters: &Counters) -> Result<Loaded, Failure> {
        let Some(log) = Log::find(connection, &self.id)? else { return Ok(Loaded::Absent) };
        if let Some(exchange) = &self.load.exchange
            && let Some(seq) = log.position(connection, exchange)?
        {
            return self.recorded(connection, &log, seq, counters).map(Loaded::AlreadyRecorded);
        }
        let compaction = log.compaction(connection, &self.load.profile)?;
        let version = compaction.as_ref().map_or(CompactionVersion::NONE, |stored| stored.version);
        if let Some(Known { revision, compaction, newest }) = &self.load.known
            && (*revision, *compaction) == (log.revision, version)
            && log.ends_with(connection, newest.as_ref())?
        {
            return Ok(Loaded::Unchanged);
        }
        let compaction = compaction.map(|stored| stored.parse(&self.id, &self.load.profile)).transpose()?;
        let start = compaction.as_ref().map_or(Seq::FIRST, |compaction| compaction.cut.window_start);
        let scan = self.scan(connection, &log, start.get().max(log.first()), counters)?;
        let exchanges = match scan.start() {
            Some(start) => self.exchanges(connection, &log, start.get(), counters)?,
            None => Vec::new(),
        };
        Ok(Loaded::Window(Window::new(log.revision, compaction, exchanges, scan.is_truncated())))
    }
}

impl LoadWindow {
    /// Walks the log back from its end to `first` until the limit is reached, without reading bodies.
    fn scan(&self, connection: &Connection, log: &Log, first: u64, counters: &Counters) -> Result<WindowScan, Failure> {
        let mut scan = WindowScan::new(self.load.limit);
        let mut statement = connection.prepare_cached(
            "SELECT place, continues IS NULL, messages, bytes FROM exchange \
             WHERE place >= ?1 AND place < ?2 ORDER BY place DESC",
        )?;
        let mut rows = statement.query(params![log.place(first), log.place(log.len)])?;
        let mut visited = 0;
        for expected in (first..log.len).rev() {
            // The log has no gaps: a row that is not there was taken out by somebody else.
            let row = rows.next()?.ok_or_else(|| Log::missing(&self.id, expected))?;
            visited += 1;
            if seq_of(row.get(0)?) != expected {
                return Err(Log::missing(&self.id, expected));
            }
            let (messages, bytes) = (count(row.get(2)?), count(row.get(3)?));
            if scan.offer(Seq::new(expected), row.get(1)?, messages, bytes) == Scan::Stop {
                break;
            }
        }
        counters.visited(visited);
        Ok(scan)
    }

    /// Reads the exchanges from `start` to the end.
    fn exchanges(
        &self,
        connection: &Connection,
        log: &Log,
        start: u64,
        counters: &Counters,
    ) -> Result<Vec<Recorded>, Failure> {
        let mut exchanges = Vec::with_capacity(count(i64::try_from(log.len - start).unwrap_or(0)));
        let mut statement = connection
            .prepare_cached("SELECT place, body FROM exchange WHERE place >= ?1 AND place < ?2 ORDER BY place")?;
        let mut rows = statement.query(params![log.place(start), log.place(log.len)])?;
        while let Some(row) = rows.next()? {
            exchanges.push(Log::decode(&self.id, seq_of(row.get(0)?), row, 1)?);
        }
        counters.decoded(exchanges.len());
        Ok(exchanges)
    }

    fn recorded(&self, connection: &Connection, log: &Log, seq: Seq, counters: &Counters) -> Result<Recorded, Failure> {
        let mut statement = connection.prepare_cached("SELECT body FROM exchange WHERE place = ?1")?;
        let mut rows = statement.query([log.place(seq.get())])?;
        let row = rows.next()?.ok_or_else(|| Log::missing(&self.id, seq.get()))?;
        counters.decoded(1);
        Log::decode(&self.id, seq.get(), row, 0)
    }
}
