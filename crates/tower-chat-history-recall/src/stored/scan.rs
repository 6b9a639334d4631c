//! The part of the log that is not indexed, which a search reads.

use std::ops::Range;

use tower_chat_history_core::{ConversationId, Incarnation, Recorded, Seq};

use super::{
    StoredIndex,
    error::Stop,
    limits::Limits,
    pages::PageLen,
    pause::{Pace, SLICE},
};
use crate::index::{IndexPart, Indexing, Writing};

/// The bytes that an exchange counts at most: those of its 128 passages, if they have words of common length.
const MAX_OF_EXCHANGE: usize = 256 << 10;

/// The exchanges that were read, in order, and their index.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub(super) exchanges: Vec<Recorded>,
    pub(super) parts: Vec<IndexPart>,
    /// The number of exchanges that were too many.
    pub(super) unsearched: u64,
}

/// Adds exchanges to a block, with pauses.
pub(super) async fn analyze(indexing: &mut Indexing<'_>, exchanges: &[Recorded], pace: &mut Pace) -> Result<(), Stop> {
    for recorded in exchanges {
        let Some(mut exchange) = indexing.begin(recorded) else { continue };
        while let Some(work) = indexing.step(&mut exchange) {
            pace.worked(work).await?;
        }
    }
    Ok(())
}

/// Writes a block, with pauses.
pub(super) async fn written(mut writing: Writing, pace: &mut Pace) -> Result<IndexPart, Stop> {
    while writing.step() > 0 {
        pace.worked(SLICE).await?;
    }
    Ok(writing.finish())
}

/// Returns the start of the newest exchanges of a page that may be analyzed, and takes their bytes from `left`.
fn affordable(page: &Range<Seq>, exchanges: &[Recorded], left: &mut usize) -> Seq {
    for recorded in exchanges.iter().rev() {
        match left.checked_sub(recorded.exchange.bytes().min(MAX_OF_EXCHANGE)) {
            Some(rest) => *left = rest,
            None => return recorded.seq.next(),
        }
    }
    page.start
}

impl StoredIndex {
    /// Reads and indexes the newest positions of these ranges, which are in order.
    pub(super) async fn scan(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        missing: &[Range<Seq>],
        limits: Limits,
        pace: &mut Pace,
    ) -> Result<Scanned, Stop> {
        let mut scanned = Scanned::default();
        let (mut left, mut to_read, mut to_analyze) = (limits.exchanges as u64, limits.read, limits.analyzed);
        let mut len = PageLen::first();
        for range in missing.iter().rev() {
            let mut end = range.end.get();
            while end > range.start.get() && left > 0 && to_read > 0 && to_analyze > 0 {
                let count = left.min(end - range.start.get()).min(len.get());
                let page = Seq::new(end - count)..Seq::new(end);
                let mut exchanges = self.exchanges(id, incarnation, page.clone()).await?;
                to_read = to_read.saturating_sub(len.adapt(&exchanges));
                let start = affordable(&page, &exchanges, &mut to_analyze);
                exchanges.retain(|recorded| recorded.seq >= start);
                let mut indexing = Indexing::new(&self.analyzer, start..page.end);
                analyze(&mut indexing, &exchanges, pace).await?;
                scanned.parts.push(written(indexing.writing(), pace).await?);
                scanned.exchanges.extend(exchanges);
                left -= count;
                end = start.get();
                if start > page.start {
                    to_read = 0;
                }
            }
            scanned.unsearched += end - range.start.get();
        }
        scanned.exchanges.sort_by_key(|recorded| recorded.seq);
        Ok(scanned)
    }
}
