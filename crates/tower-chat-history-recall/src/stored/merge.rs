//! The merging of stored blocks to segments.

use std::collections::{BTreeMap, HashMap};

use tower_chat_history_core::{Attachment, AttachmentKey, ConversationId, Incarnation, Revision, Seq};

use super::{
    StoredIndex,
    error::Stop,
    job::{Indexed, STEP_BYTES},
    pause::pause,
    records::Parts,
};
use crate::{
    index::{IndexPart, Merger, RecordName},
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
            match self.merged(&blocks).await {
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
    async fn merged(&self, blocks: &[&IndexPart]) -> Result<Option<Segment>, DecodeError> {
        let mut merger = Merger::new(blocks)?;
        let mut tables = BTreeMap::new();
        while let Some((bucket, table)) = merger.next_table()? {
            if table.len() > Attachment::MAX_BYTES {
                return Ok(None);
            }
            tables.insert(bucket, table);
            pause().await;
        }
        let part = IndexPart::of_tables(merger, tables);
        let records = part.records(&self.analyzer).into_iter();
        let records: Segment = records.map(|record| self.names.attachment(&part, record)).collect();
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
        let documents = self.names.of(RecordName::Documents);
        let (last, tables): (Segment, Segment) = segment.into_iter().partition(|record| record.name == *documents);
        let (mut from, mut bytes) = (0, 0);
        for (table, next) in tables.iter().zip(1..) {
            bytes += table.body.len();
            if bytes >= STEP_BYTES || next == tables.len() {
                self.store.attach(id, incarnation, &[], &tables[from..next]).await?;
                (from, bytes) = (next, 0);
            }
        }
        let keys: Vec<AttachmentKey> = blocks.iter().map(|block| self.names.block_key(block.range().start)).collect();
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
        let mut keys = Vec::new();
        for block in blocks {
            if IndexPart::merge(&[block]).is_err() {
                keys.push(self.names.block_key(block.range().start));
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
