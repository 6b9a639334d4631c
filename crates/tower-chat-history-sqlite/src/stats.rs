//! Counts of what a store has done.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since a store was opened, for metrics and for tests of its cost.
///
/// The counts are read one after the other while calls run, so one count may include a few calls more than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Committed write transactions.
    pub transactions: u64,
    /// Appends and all other writes in these transactions, including refused ones. Divided by `transactions`, this is
    /// the average number of writes that shared a commit.
    pub writes: u64,
    /// Calls that were not started because their futures had already been dropped.
    pub skipped: u64,
    /// Loads and reads that were answered, including the pages of listings and the steps of counts.
    pub reads: u64,
    /// Rows of logs and of listings that these loads and reads visited.
    pub rows_read: u64,
    /// Exchanges that these loads and reads decoded.
    pub exchanges_read: u64,
}

/// The counters from which [`Stats`] are read. Their atomic operations are relaxed, because they synchronize no other
/// data.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    transactions: AtomicU64,
    writes: AtomicU64,
    skipped: AtomicU64,
    reads: AtomicU64,
    rows_read: AtomicU64,
    exchanges_read: AtomicU64,
}

impl Counters {
    pub(crate) fn committed(&self, writes: u64) {
        self.transactions.fetch_add(1, Relaxed);
        self.writes.fetch_add(writes, Relaxed);
    }

    pub(crate) fn skipped(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    pub(crate) fn answered(&self) {
        self.reads.fetch_add(1, Relaxed);
    }

    pub(crate) fn visited(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Relaxed);
    }

    pub(crate) fn decoded(&self, exchanges: usize) {
        self.exchanges_read.fetch_add(exchanges as u64, Relaxed);
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            transactions: self.transactions.load(Relaxed),
            writes: self.writes.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
            reads: self.reads.load(Relaxed),
            rows_read: self.rows_read.load(Relaxed),
            exchanges_read: self.exchanges_read.load(Relaxed),
        }
    }
}
