//! The part of the log that is not indexed, which a search reads.

use std::ops::Range;

use tower_chat_history_core::{ConversationId, Incarnation, Recorded, Seq};

use super::{StoredIndex, error::Stop, pause::pause};
use crate::index::IndexPart;

/// The most bytes of messages that a search reads because they are not indexed. The page that exceeds it is the last.
const MAX_BYTES: usize = 16 << 20;

/// The exchanges that were read, in order, and their index.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub(super) exchanges: Vec<Recorded>,
    pub(super) parts: Vec<IndexPart>,
    /// The number of exchanges that were too many.
    pub(super) unsearched: u64,
}

impl StoredIndex {
    /// Reads and indexes the newest positions of these ranges, which are in order.
    pub(super) async fn scan(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        missing: &[Range<Seq>],
    ) -> Result<Scanned, Stop> {
        let mut scanned = Scanned::default();
        let (mut left, mut bytes) = (self.scan_limit as u64, 0_usize);
        for range in missing.iter().rev() {
            let mut end = range.end.get();
            while end > range.start.get() && left > 0 && bytes < MAX_BYTES {
                let count = left.min(end - range.start.get()).min(IndexPart::BLOCK);
                let page = Seq::new(end - count)..Seq::new(end);
                let exchanges = self.exchanges(id, incarnation, page.clone()).await?;
                scanned.parts.push(IndexPart::index(&self.analyzer, page, &exchanges));
                bytes += exchanges.iter().map(|recorded| recorded.exchange.bytes()).sum::<usize>();
                scanned.exchanges.extend(exchanges);
                left -= count;
                end -= count;
                pause().await;
            }
            scanned.unsearched += end - range.start.get();
        }
        scanned.exchanges.sort_by_key(|recorded| recorded.seq);
        Ok(scanned)
    }
}
