//! The index of a log, in memory.

use std::ops::Range;

use tower_chat_history_core::{Recorded, Seq};

use super::IndexPart;
use crate::{analyzer::Analyzer, varint::DecodeError};

/// The index of a log: blocks of 64 exchanges and segments of 4,096, in order.
///
/// Exchanges that are in no part, such as those at the end of the log, are indexed at each search. So a search finds
/// the same whatever is indexed already.
///
/// ```
/// use tower_chat_history_core::{Message, Recorded, Seq};
/// use tower_chat_history_recall::{Analyzer, LogIndex};
///
/// let messages = (0..200).flat_map(|n| [Message::user(format!("Question {n}")), Message::assistant("Answer")]);
/// let log = Recorded::log(messages.collect());
/// let mut index = LogIndex::new(Analyzer::default());
/// index.cover(Seq::FIRST, &log)?;
/// assert_eq!(index.missing(Seq::FIRST..Seq::new(200)), [Seq::new(192)..Seq::new(200)]);
/// # Ok::<(), tower_chat_history_recall::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogIndex {
    analyzer: Analyzer,
    parts: Vec<IndexPart>,
}

impl LogIndex {
    /// Creates an index without parts.
    #[must_use]
    pub const fn new(analyzer: Analyzer) -> Self {
        Self { analyzer, parts: Vec::new() }
    }

    /// Creates the index of parts that were stored, in any order. Parts that overlap a longer one are left out:
    /// these are the blocks of a segment that were not removed yet.
    #[must_use]
    pub fn from_parts(analyzer: Analyzer, parts: impl IntoIterator<Item = IndexPart>) -> Self {
        let mut index = Self::new(analyzer);
        let mut found: Vec<IndexPart> = parts.into_iter().collect();
        let len = |part: &IndexPart| part.range().end.get() - part.range().start.get();
        found.sort_by_key(|part| (std::cmp::Reverse(len(part)), part.range().start));
        for part in found {
            index.insert(part);
        }
        index
    }

    /// Adds a part. Returns `false`, and adds nothing, if the part has no positions or overlaps another one.
    pub fn insert(&mut self, part: IndexPart) -> bool {
        let Range { start, end } = part.range();
        let at = self.parts.partition_point(|other| other.range().end <= start);
        let fits = start < end && self.parts.get(at).is_none_or(|next| end <= next.range().start);
        if fits {
            self.parts.insert(at, part);
        }
        fits
    }

    /// Returns the analyzer.
    #[must_use]
    pub const fn analyzer(&self) -> &Analyzer {
        &self.analyzer
    }

    /// Returns the parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[IndexPart] {
        &self.parts
    }

    /// Returns an estimate of the memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.parts.iter().map(IndexPart::memory).sum()
    }

    /// Returns the positions of this range that are in no part, in order.
    #[must_use]
    pub fn missing(&self, within: Range<Seq>) -> Vec<Range<Seq>> {
        let mut missing = Vec::new();
        let mut next = within.start;
        for part in &self.parts {
            let Range { start, end } = part.range();
            if start >= within.end {
                break;
            }
            if next < start {
                missing.push(next..start);
            }
            next = next.max(end);
        }
        if next < within.end {
            missing.push(next..within.end);
        }
        missing
    }

    /// Returns the blocks of a range that are in no part, in order: whole ones only, from multiples of 64 on. The
    /// number of blocks depends on the range, so they are created one by one.
    pub fn due(&self, within: Range<Seq>) -> impl Iterator<Item = Range<Seq>> + use<> {
        let blocks = |gap: Range<Seq>| {
            let blocks = gap.start.get().div_ceil(IndexPart::BLOCK)..gap.end.get() / IndexPart::BLOCK;
            blocks.map(|block| Seq::new(block * IndexPart::BLOCK)..Seq::new((block + 1) * IndexPart::BLOCK))
        };
        self.missing(within).into_iter().flat_map(blocks)
    }

    /// Indexes all blocks that are [due](Self::due) in these exchanges, and merges blocks that make up a segment.
    ///
    /// The exchanges must be neighbors in the log, in order: those after a gap are not indexed. `first` is the position
    /// of the log's first exchange, which is not 0 if the log was pruned: a block of which only positions before it are
    /// missing is whole.
    ///
    /// # Errors
    ///
    /// Returns an error if a block that was [stored](Self::from_parts) is damaged.
    pub fn cover(&mut self, first: Seq, exchanges: &[Recorded]) -> Result<(), DecodeError> {
        let neighbors = exchanges.windows(2).take_while(|pair| pair[0].seq.next() == pair[1].seq).count() + 1;
        let exchanges = &exchanges[..neighbors.min(exchanges.len())];
        let (Some(from), Some(last)) = (exchanges.first(), exchanges.last()) else { return Ok(()) };
        let begins_log = from.seq <= first;
        let start = if begins_log { first.get() / IndexPart::BLOCK * IndexPart::BLOCK } else { from.seq.get() };
        for range in self.due(Seq::new(start)..last.seq.next()) {
            let at = |seq: Seq| exchanges.partition_point(|recorded| recorded.seq < seq);
            let exchanges = &exchanges[at(range.start)..at(range.end)];
            let segment = range.start.get() / IndexPart::SEGMENT;
            self.insert(IndexPart::index(&self.analyzer, range, exchanges));
            self.merge(segment)?;
        }
        Ok(())
    }

    /// Merges the blocks of a segment if there are all of them.
    fn merge(&mut self, segment: u64) -> Result<(), DecodeError> {
        let (start, end) = (Seq::new(segment * IndexPart::SEGMENT), Seq::new((segment + 1) * IndexPart::SEGMENT));
        let from = self.parts.partition_point(|part| part.range().start < start);
        let to = self.parts.partition_point(|part| part.range().start < end);
        let blocks: Vec<&IndexPart> = self.parts[from..to].iter().collect();
        if blocks.len() > 1 && self.missing(start..end).is_empty() {
            let merged = IndexPart::merge(&blocks)?;
            self.parts.splice(from..to, [merged]);
        }
        Ok(())
    }

    /// Removes the block or the segment that begins at a position.
    pub(crate) fn remove(&mut self, start: Seq, segment: bool) {
        self.parts.retain(|part| part.range().start != start || part.is_segment() != segment);
    }

    /// Removes the parts that reach beyond the first `len` positions, as a truncation of the log to `len` does.
    pub fn truncate(&mut self, len: Seq) {
        self.parts.retain(|part| part.range().end <= len);
    }

    /// Removes the parts that begin before `first`, as a prune without traces does.
    pub fn prune(&mut self, first: Seq) {
        self.parts.retain(|part| part.range().start >= first);
    }
}
