//! The part of the log that is not indexed, which a search reads.

use std::ops::Range;

use tower_chat_history_core::{ConversationId, Incarnation, Recorded, Seq};

use super::{StoredIndex, error::Stop, pause::pause};
use crate::index::{IndexPart, Indexing};

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

/// The bytes of messages that are indexed between two pauses.
const PAUSE_BYTES: usize = 64 << 10;

impl StoredIndex {
    /// Indexes the exchanges of a range, with pauses.
    pub(super) async fn indexed(&self, range: Range<Seq>, exchanges: &[Recorded]) -> IndexPart {
        let mut indexing = Indexing::new(&self.analyzer, range);
        let mut bytes = 0;
        for recorded in exchanges {
            indexing.push(recorded);
            bytes += recorded.exchange.bytes();
            if bytes >= PAUSE_BYTES {
                bytes = 0;
                pause().await;
            }
        }
        pause().await;
        indexing.finish()
    }

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
                scanned.parts.push(self.indexed(page, &exchanges).await);
                bytes += exchanges.iter().map(|recorded| recorded.exchange.bytes()).sum::<usize>();
                scanned.exchanges.extend(exchanges);
                left -= count;
                end -= count;
            }
            scanned.unsearched += end - range.start.get();
        }
        scanned.exchanges.sort_by_key(|recorded| recorded.seq);
        Ok(scanned)
    }
}
