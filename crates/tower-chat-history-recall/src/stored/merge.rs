//! The merging of stored blocks to segments.

use std::collections::{BTreeMap, HashMap};

use tower_chat_history_core::{Attachment, AttachmentKey, ConversationId, Incarnation, Revision, Seq};

use super::{
    StoredIndex,
    error::Stop,
    job::{Indexed, STEP_BYTES},
    names::TermNames,
    pause::pause,
    records::Parts,
};
use crate::{
    index::{IndexPart, Merger, RecordName, Step},
    varint::DecodeError,
};

/// The most bytes of blocks that are merged to one segment.
const MAX_BYTES: usize = 16 << 20;

/// The tables of a segment, and its documents.
type Segment = Vec<Attachment>;

impl StoredIndex {
    /// Merges the blocks of the first segment that is full. Returns `true` if another one is full.
    ///
    /// Only blocks that were read from the store are merged: of two processes that made a block from different
    /// beginnings of the log, both then merge the one that was stored.
    pub(super) async fn merge_next(
        &self,
        id: &ConversationId,
        revision: Revision,
        parts: &Parts,
        done: &mut Indexed,
    ) -> Result<bool, Stop> {
        let mut full = full_segments(parts, revision.first()).into_iter().peekable();
        while let Some(blocks) = full.next() {
            match self.merged(self.names()?, &blocks).await {
                Ok(Some(segment)) => {
                    self.store_segment(id, revision.incarnation(), &blocks, segment).await?;
                    done.segments += 1;
                    return Ok(full.peek().is_some());
                }
                // A record would be too large.
                Ok(None) => {}
                Err(error) => {
                    done.removed += self.remove_undecodable(id, revision.incarnation(), &blocks, error).await?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Merges blocks. Returns the records of the segment, the documents last, or `None` if a record would be too large.
    async fn merged(&self, names: &TermNames, blocks: &[&IndexPart]) -> Result<Option<Segment>, DecodeError> {
        let mut merger = Merger::new(blocks)?;
        let mut tables = BTreeMap::new();
        loop {
            match merger.step()? {
                Step::Table(_, table) if table.len() > Attachment::MAX_BYTES => return Ok(None),
                Step::Table(bucket, table) => {
                    tables.insert(bucket, table);
                }
                Step::More => {}
                Step::End => break,
            }
            pause().await;
        }
        let part = IndexPart::of_tables(merger, tables);
        let records = part.records(&self.analyzer).into_iter();
        let records: Segment = records.map(|record| names.attachment(&part, record)).collect();
        Ok(records.iter().all(|record| record.body.len() <= Attachment::MAX_BYTES).then_some(records))
    }

    /// Stores the tables in steps, then the documents in the step that removes the blocks. So the segment counts from
    /// the moment on in which its blocks no longer do.
    async fn store_segment(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        blocks: &[&IndexPart],
        segment: Segment,
    ) -> Result<(), Stop> {
        let names = self.names()?;
        let documents = names.of(RecordName::Documents);
        let (last, tables): (Segment, Segment) = segment.into_iter().partition(|record| record.name == *documents);
        let (mut from, mut bytes) = (0, 0);
        for (table, next) in tables.iter().zip(1..) {
            bytes += table.body.len();
            if bytes >= STEP_BYTES || next == tables.len() {
                self.store.attach(id, incarnation, &[], &tables[from..next]).await?;
                (from, bytes) = (next, 0);
            }
        }
        let keys: Vec<AttachmentKey> = blocks.iter().map(|block| names.block_key(block.range().start)).collect();
        Ok(self.store.attach(id, incarnation, &keys, &last).await?)
    }

    /// Removes the blocks that cannot be decoded. Returns their number.
    async fn remove_undecodable(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        blocks: &[&IndexPart],
        error: DecodeError,
    ) -> Result<u64, Stop> {
        let (names, mut keys) = (self.names()?, Vec::new());
        for block in blocks {
            if IndexPart::merge(&[block]).is_err() {
                keys.push(names.block_key(block.range().start));
            }
            pause().await;
        }
        if keys.is_empty() {
            return Err(error.into());
        }
        self.store.attach(id, incarnation, &keys, &[]).await?;
        Ok(keys.len() as u64)
    }
}

/// Returns the blocks of each segment that is full: all of its blocks that the log has are stored, and not too large
/// together.
pub(super) fn full_segments(parts: &Parts, first: Seq) -> Vec<Vec<&IndexPart>> {
    let sizes: HashMap<Seq, usize> =
        parts.stored.iter().filter(|part| !part.segment).map(|part| (part.range.start, part.bytes)).collect();
    let all: Vec<&IndexPart> = parts.index.parts().iter().collect();
    let segments =
        all.chunk_by(|a, b| IndexPart::segment_end(a.range().start) == IndexPart::segment_end(b.range().start));
    let full = segments.filter(|blocks| {
        let end = IndexPart::segment_end(blocks[0].range().start);
        let start = Seq::new(end.get() - IndexPart::SEGMENT).max(IndexPart::block_start(first));
        let bytes: usize =
            blocks.iter().map(|block| sizes.get(&block.range().start).copied().unwrap_or_default()).sum();
        blocks.len() > 1
            && blocks.iter().all(|block| !block.is_segment())
            && start < end
            && parts.index.missing(start..end).is_empty()
            && bytes <= MAX_BYTES
    });
    full.map(<[&IndexPart]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use crate::{analyzer::Analyzer, stored::records::Decoding};

    use super::*;

    /// Returns the parts of these blocks, each by its number. More were not read if `cut` is set.
    fn parts(blocks: impl IntoIterator<Item = u64>, cut: bool) -> Parts {
        let (analyzer, names) = (Analyzer::default(), TermNames::new(Analyzer::default().id()).unwrap());
        let block = |number: u64| {
            let start = Seq::new(number * IndexPart::BLOCK);
            let part = IndexPart::index(&analyzer, start..Seq::new(start.get() + IndexPart::BLOCK), &[]);
            let record = part.records(&analyzer).remove(0);
            names.attachment(&part, record)
        };
        let attachments: Vec<Attachment> = blocks.into_iter().map(block).collect();
        let mut decoding = Decoding::new(&analyzer, &names, &attachments, &[], cut);
        attachments.iter().for_each(|attachment| decoding.push(attachment));
        decoding.finish()
    }

    #[test]
    fn a_segment_is_full_if_it_has_all_blocks_of_the_log() {
        let full =
            |blocks: &[u64], first: u64| full_segments(&parts(blocks.iter().copied(), false), Seq::new(first)).len();
        let all: Vec<u64> = (0..130).collect();
        assert_eq!((full(&all, 0), full(&all[..127], 0), full(&all[..63], 0)), (2, 1, 0));
        assert_eq!((full(&all[2..64], 0), full(&all[2..64], 127), full(&all[2..64], 128)), (0, 0, 1));
        let with_gap = [&all[..3], &all[5..64]].concat();
        assert_eq!((full(&with_gap, 0), full(&with_gap, 5 * 64)), (0, 1), "the gap is before the log");
        assert_eq!(full(&all[63..64], 4000), 0, "one block is not merged");
    }

    #[test]
    fn blocks_that_are_large_together_are_not_merged() {
        let mut parts = parts(0..64, false);
        for (bytes, full) in [(MAX_BYTES / 64, 1), (MAX_BYTES / 64 + 1, 0)] {
            parts.stored.iter_mut().for_each(|part| part.bytes = bytes);
            assert_eq!(full_segments(&parts, Seq::FIRST).len(), full);
        }
    }

    #[test]
    fn nothing_is_due_after_the_last_block_that_was_read() {
        let within = Seq::FIRST..Seq::new(1000);
        assert_eq!(parts([0, 1, 3], false).known_part(within.clone()), within);
        assert_eq!(parts([0, 1, 3], true).known_part(within.clone()), Seq::FIRST..Seq::new(256));
        assert_eq!(parts([], true).known_part(within), Seq::FIRST..Seq::FIRST);
    }
}
