//! The stored parts of the index.

use std::{collections::BTreeMap, ops::Range};

use tower_chat_history_core::{Attachment, AttachmentKey, Seq};

use super::names::TermNames;
use crate::{
    analyzer::Analyzer,
    index::{IndexPart, LogIndex, RecordName},
};

/// The parts that are stored.
#[derive(Debug)]
pub(super) struct Parts {
    /// The parts that are searched, without those within a longer one.
    pub(super) index: LogIndex,
    /// All parts that can be read, by their ranges and sizes.
    pub(super) stored: Vec<StoredPart>,
    /// The parts that cannot be read.
    pub(super) damaged: Vec<Damaged>,
    /// `true` if there are more that were not read.
    cut: bool,
}

/// A part as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredPart {
    pub(super) range: Range<Seq>,
    pub(super) segment: bool,
    /// The size of its record, or of a segment's documents.
    pub(super) bytes: usize,
}

/// A part that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Damaged {
    pub(super) start: Seq,
    /// The record that is damaged or missing.
    pub(super) record: RecordName,
}

impl Damaged {
    /// Returns `true` for a segment.
    pub(super) const fn is_segment(&self) -> bool {
        !matches!(self.record, RecordName::Block)
    }

    /// Returns the keys of the part's records.
    pub(super) fn keys(&self, names: &TermNames) -> Vec<AttachmentKey> {
        if self.is_segment() { names.segment_keys(self.start).collect() } else { vec![names.block_key(self.start)] }
    }
}

impl StoredPart {
    /// Returns the keys of its records. For a block, these include buckets of an interrupted merge that begins with it.
    pub(super) fn keys(&self, names: &TermNames) -> Vec<AttachmentKey> {
        let of_segment = names.segment_keys(self.range.start);
        if self.segment {
            of_segment.collect()
        } else {
            of_segment.chain([names.block_key(self.range.start)]).collect()
        }
    }
}

/// Decodes parts, one attachment at a time, so that a caller can pause in between.
#[derive(Debug)]
pub(super) struct Decoding<'a> {
    analyzer: &'a Analyzer,
    names: &'a TermNames,
    /// The buckets that a segment needs.
    needed: &'a [u8],
    cut: bool,
    buckets: BTreeMap<Seq, BTreeMap<u8, &'a [u8]>>,
    parts: Vec<IndexPart>,
    stored: Vec<StoredPart>,
    damaged: Vec<Damaged>,
}

impl<'a> Decoding<'a> {
    /// Begins to decode the parts of these attachments. A segment needs these buckets. If `cut` is set, some records
    /// were not read, so a missing bucket is no damage.
    pub(super) fn new(
        analyzer: &'a Analyzer,
        names: &'a TermNames,
        attachments: &'a [Attachment],
        needed: &'a [u8],
        cut: bool,
    ) -> Self {
        let mut buckets: BTreeMap<Seq, BTreeMap<u8, &[u8]>> = BTreeMap::new();
        for attachment in attachments {
            if let Some(bucket) = names.bucket_of(&attachment.name) {
                buckets.entry(attachment.range.start).or_default().insert(bucket, &attachment.body);
            }
        }
        Self { analyzer, names, needed, cut, buckets, parts: Vec::new(), stored: Vec::new(), damaged: Vec::new() }
    }

    /// Decodes one of the attachments, if it is a block or the documents of a segment.
    pub(super) fn push(&mut self, Attachment { name, range, body, .. }: &Attachment) {
        let start = range.start;
        let (record, part) = if *name == self.names.blocks {
            (RecordName::Block, IndexPart::block(self.analyzer, body))
        } else if *name == self.names.documents {
            let found = self.buckets.remove(&start).unwrap_or_default();
            if let Some(missing) = self.needed.iter().find(|bucket| !found.contains_key(bucket)) {
                if !self.cut {
                    self.damaged.push(Damaged { start, record: RecordName::Bucket(*missing) });
                }
                return;
            }
            let tables = found.into_iter().map(|(bucket, table)| (bucket, table.to_vec()));
            (RecordName::Documents, IndexPart::segment(self.analyzer, body, tables))
        } else {
            return;
        };
        match part {
            Ok(Some(part)) if part.range() == *range => {
                self.parts.push(part);
                let segment = record != RecordName::Block;
                self.stored.push(StoredPart { range: range.clone(), segment, bytes: body.len() });
            }
            _ => self.damaged.push(Damaged { start, record }),
        }
    }

    /// Returns the parts.
    pub(super) fn finish(self) -> Parts {
        let Self { analyzer, cut, parts, stored, damaged, .. } = self;
        Parts { index: LogIndex::from_parts(analyzer.clone(), parts), stored, damaged, cut }
    }
}

impl Parts {
    /// Counts a part as damaged.
    pub(super) fn damage(&mut self, damaged: Damaged) {
        let segment = damaged.is_segment();
        self.stored.retain(|part| part.segment != segment || part.range.start != damaged.start);
        self.index.remove(damaged.start, segment);
        self.damaged.push(damaged);
    }

    /// Returns the part of a range of which all stored blocks are known: if there are too many to read, only that up to
    /// the last one that was read.
    pub(super) fn known_part(&self, within: Range<Seq>) -> Range<Seq> {
        if !self.cut {
            return within;
        }
        let blocks = self.stored.iter().filter(|part| !part.segment);
        let last = blocks.map(|part| part.range.end).max().unwrap_or(within.start);
        within.start..within.end.min(last)
    }

    /// Returns `true` if a part is searched, and is not within a longer one.
    pub(super) fn counts(&self, range: &Range<Seq>) -> bool {
        let parts = self.index.parts();
        let at = parts.partition_point(|part| part.range().start < range.start);
        parts.get(at).is_some_and(|part| part.range() == *range)
    }
}
