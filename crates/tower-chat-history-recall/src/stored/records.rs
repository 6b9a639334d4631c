//! The stored parts of the index.

use std::{collections::BTreeMap, ops::Range};

use tower_chat_history_core::{Attachment, AttachmentKey, AttachmentName, Seq};

use super::names::TermNames;
use crate::{
    analyzer::Analyzer,
    index::{IndexPart, LogIndex},
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged {
    pub(super) start: Seq,
    pub(super) segment: bool,
}

impl Damaged {
    /// Returns the keys of its records.
    pub(super) fn keys(self, names: &TermNames) -> Vec<AttachmentKey> {
        if self.segment { names.segment_keys(self.start).collect() } else { vec![names.block_key(self.start)] }
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

impl Parts {
    /// Reads parts. A segment needs these buckets. If `cut` is set, some records were not read, so a missing bucket is
    /// no damage.
    pub(super) fn read(
        analyzer: &Analyzer,
        names: &TermNames,
        attachments: &[Attachment],
        needed: &[u8],
        cut: bool,
    ) -> Self {
        let mut buckets: BTreeMap<Seq, Vec<(u8, Vec<u8>)>> = BTreeMap::new();
        for attachment in attachments {
            if let Some(bucket) = names.bucket_of(&attachment.name) {
                buckets.entry(attachment.range.start).or_default().push((bucket, attachment.body.to_vec()));
            }
        }
        let (mut parts, mut stored, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
        for Attachment { name, range, body, .. } in attachments {
            let (segment, part) = match kind(names, name) {
                Some(Kind::Block) => (false, IndexPart::block(analyzer, body)),
                Some(Kind::Segment) => {
                    let found = buckets.remove(&range.start).unwrap_or_default();
                    if found.len() < needed.len() {
                        if !cut {
                            damaged.push(Damaged { start: range.start, segment: true });
                        }
                        continue;
                    }
                    (true, IndexPart::segment(analyzer, body, found))
                }
                None => continue,
            };
            match part {
                Ok(Some(part)) if part.range() == *range => {
                    parts.push(part);
                    stored.push(StoredPart { range: range.clone(), segment, bytes: body.len() });
                }
                _ => damaged.push(Damaged { start: range.start, segment }),
            }
        }
        Self { index: LogIndex::from_parts(analyzer.clone(), parts), stored, damaged, cut }
    }

    /// Counts a part as damaged.
    pub(super) fn damage(&mut self, damaged: Damaged) {
        self.stored.retain(|part| part.segment != damaged.segment || part.range.start != damaged.start);
        self.index.remove(damaged.start, damaged.segment);
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

enum Kind {
    Block,
    Segment,
}

fn kind(names: &TermNames, name: &AttachmentName) -> Option<Kind> {
    if *name == names.blocks {
        Some(Kind::Block)
    } else if *name == names.documents {
        Some(Kind::Segment)
    } else {
        None
    }
}
