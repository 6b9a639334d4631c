//! Parts of the index: blocks and segments.

use std::{collections::BTreeMap, fmt, ops::Range};

use tower_chat_history_core::{Recorded, Seq};

use super::{
    documents::Documents,
    finding::Finding,
    indexing::Indexing,
    merge::Merger,
    postings::{Postings, Terms},
    record::{FORMAT, RecordName},
};
use crate::{
    analyzer::{Analyzer, Term},
    varint::{DecodeError, Reader, Writer},
};

/// The index of a range of exchanges: a *block*, or a *segment* that is merged from blocks.
///
/// A block has one table of terms. A segment has [64](Term::BUCKETS) of them, by the upper bits of the terms, so
/// that a search reads only the tables of its terms. Both have a list of documents. Neither has text.
///
/// `Debug` shows positions and sizes.
#[derive(Clone, PartialEq, Eq)]
pub struct IndexPart {
    documents: Documents,
    tables: Tables,
}

#[derive(Clone, PartialEq, Eq)]
enum Tables {
    Block(Vec<u8>),
    /// The tables that were read, or all of them.
    Segment(BTreeMap<u8, Vec<u8>>),
}

impl IndexPart {
    /// The number of exchanges of a block.
    pub const BLOCK: u64 = 64;
    /// The number of exchanges of a segment.
    pub const SEGMENT: u64 = 4096;

    /// Returns the start of the block that a position is in.
    pub(crate) const fn block_start(seq: Seq) -> Seq {
        Seq::new(seq.get() / Self::BLOCK * Self::BLOCK)
    }

    /// Returns the end of the segment that a position is in.
    pub(crate) const fn segment_end(seq: Seq) -> Seq {
        Seq::new((seq.get() / Self::SEGMENT).saturating_add(1).saturating_mul(Self::SEGMENT))
    }

    /// Indexes the exchanges of a range, which must be in the order of the log, as one block. Others are ignored.
    ///
    /// A block that is stored has the [64](Self::BLOCK) positions from a multiple of 64 on. Positions without an
    /// exchange have no documents. A range ends after 4,096 more positions than there are exchanges.
    #[must_use]
    pub fn index(analyzer: &Analyzer, range: Range<Seq>, exchanges: &[Recorded]) -> Self {
        let longest = Self::SEGMENT.saturating_add(exchanges.len() as u64);
        let range = range.start..range.end.min(Seq::new(range.start.get().saturating_add(longest)));
        let mut indexing = Indexing::new(analyzer, range);
        exchanges.iter().for_each(|recorded| indexing.push(recorded));
        indexing.finish()
    }

    /// Returns the block of documents and their table of terms.
    pub(super) const fn of_table(documents: Documents, table: Vec<u8>) -> Self {
        Self { documents, tables: Tables::Block(table) }
    }

    /// Returns the positions of the exchanges.
    #[must_use]
    pub fn range(&self) -> Range<Seq> {
        self.documents.first()..self.documents.end()
    }

    /// Returns the number of documents, which are passages of messages.
    #[must_use]
    pub fn documents(&self) -> u32 {
        self.documents.len()
    }

    /// Returns the number of documents of an exchange.
    pub(crate) fn documents_of(&self, seq: Seq) -> usize {
        self.documents.numbers(&(seq..seq.next())).len()
    }

    /// Returns `true` for a segment.
    #[must_use]
    pub const fn is_segment(&self) -> bool {
        matches!(self.tables, Tables::Segment(_))
    }

    /// Merges blocks, which must be in the order of the log and within [4,096](Self::SEGMENT) positions, to a
    /// segment.
    ///
    /// The records of the result depend only on the blocks' content, so two processes that merge the same blocks
    /// store the same bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if a block is damaged, or if the blocks are not in order or too far apart.
    pub fn merge(blocks: &[&Self]) -> Result<Self, DecodeError> {
        let mut merger = Merger::new(blocks)?;
        let mut tables = BTreeMap::new();
        while let Some((bucket, table)) = merger.next_table()? {
            tables.insert(bucket, table);
        }
        Ok(Self::of_tables(merger, tables))
    }

    /// Returns the segment of a merger and its tables.
    pub(crate) fn of_tables(merger: Merger<'_>, tables: BTreeMap<u8, Vec<u8>>) -> Self {
        Self { documents: merger.into_documents(), tables: Tables::Segment(tables) }
    }

    /// Returns the records that this part is stored as.
    ///
    /// A block is one record. A segment is one record for each bucket, and [`Documents`](RecordName::Documents) as
    /// the last one: a segment counts only if that record exists. So store the buckets first, in steps of any size,
    /// and the last record in the step that removes the blocks.
    #[must_use]
    pub fn records(&self, analyzer: &Analyzer) -> Vec<(RecordName, Vec<u8>)> {
        let mut out = Writer::default();
        out.byte(FORMAT);
        out.section(analyzer.id().as_bytes());
        self.documents.encode(&mut out);
        match &self.tables {
            Tables::Block(table) => {
                out.bytes(table);
                vec![(RecordName::Block, out.finish())]
            }
            Tables::Segment(tables) => {
                let buckets = tables.iter().map(|(&bucket, table)| (RecordName::Bucket(bucket), table.clone()));
                buckets.chain([(RecordName::Documents, out.finish())]).collect()
            }
        }
    }

    /// Reads a block. Returns `None` if it was made by other rules than this analyzer's: then it counts as absent.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a block, or one of another format.
    pub fn block(analyzer: &Analyzer, record: &[u8]) -> Result<Option<Self>, DecodeError> {
        let Some((documents, mut rest)) = read_documents(analyzer, record)? else { return Ok(None) };
        let table = rest.rest().to_vec();
        Terms::of(&table)?;
        Ok(Some(Self { documents, tables: Tables::Block(table) }))
    }

    /// Reads a segment of its record [`Documents`](RecordName::Documents) and those buckets that a search
    /// [needs](crate::Query::buckets). Returns `None` if it was made by other rules than this analyzer's: then it
    /// counts as absent.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a segment, or one of another format.
    pub fn segment(
        analyzer: &Analyzer,
        documents: &[u8],
        buckets: impl IntoIterator<Item = (u8, Vec<u8>)>,
    ) -> Result<Option<Self>, DecodeError> {
        let Some((documents, rest)) = read_documents(analyzer, documents)? else { return Ok(None) };
        rest.end()?;
        Ok(Some(Self { documents, tables: Tables::Segment(buckets.into_iter().collect()) }))
    }

    /// Returns an estimate of the memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let tables: usize = match &self.tables {
            Tables::Block(table) => table.len(),
            Tables::Segment(tables) => tables.values().map(|table| table.len() + size_of::<Vec<u8>>()).sum(),
        };
        self.documents.memory() + tables
    }

    /// Begins to look up terms, which must ascend.
    pub(crate) fn finding<'a, 't>(&'a self, terms: &'t [Term]) -> Finding<'a, 't> {
        Finding::new(self, terms)
    }

    /// Looks up terms, which must ascend.
    pub(crate) fn find(&self, terms: &[Term]) -> Result<Vec<Option<Postings<'_>>>, DecodeError> {
        let mut finding = self.finding(terms);
        while finding.step()? {}
        Ok(finding.finish())
    }

    /// Returns the first record that a search for these terms, which must ascend, cannot read.
    pub(crate) fn unreadable(&self, terms: &[Term]) -> Option<RecordName> {
        let record = |term: &Term| match self.is_segment() {
            true => RecordName::Bucket(term.bucket()),
            false => RecordName::Block,
        };
        let is_unreadable = |terms: &&[Term]| {
            let read = |of_term: Postings<'_>| of_term.read(&self.documents).try_for_each(|posting| posting.map(drop));
            let found = self.find(terms);
            found.and_then(|found| found.into_iter().flatten().try_for_each(read)).is_err()
        };
        let mut of_records = terms.chunk_by(|a, b| record(a) == record(b));
        of_records.find(is_unreadable).and_then(|terms| terms.first()).map(record)
    }

    /// Reads all terms and postings of the tables that are there.
    ///
    /// # Errors
    ///
    /// Returns an error if a table is damaged.
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        let tables: Vec<&Vec<u8>> = match &self.tables {
            Tables::Block(table) => vec![table],
            Tables::Segment(tables) => tables.values().collect(),
        };
        for table in tables {
            for term in Terms::of(table)? {
                term?.1.read(&self.documents).try_for_each(|posting| posting.map(drop))?;
            }
        }
        Ok(())
    }

    pub(crate) const fn document_list(&self) -> &Documents {
        &self.documents
    }

    /// Returns the terms of a table. A block's only table has the bucket 0.
    pub(super) fn terms(&self, bucket: u8) -> Result<Terms<'_>, DecodeError> {
        Terms::of(match &self.tables {
            Tables::Block(table) => table,
            Tables::Segment(tables) => {
                tables.get(&bucket).ok_or(Reader::new(&[]).error("a bucket of the segment is missing"))?
            }
        })
    }
}

fn read_documents<'a>(analyzer: &Analyzer, record: &'a [u8]) -> Result<Option<(Documents, Reader<'a>)>, DecodeError> {
    let mut reader = Reader::new(record);
    reader.version(FORMAT)?;
    if reader.section()? != analyzer.id().as_bytes() {
        return Ok(None);
    }
    Ok(Some((Documents::decode(&mut reader)?, reader)))
}

impl fmt::Debug for IndexPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.range();
        f.debug_struct("IndexPart")
            .field("first", &start.get())
            .field("end", &end.get())
            .field("documents", &self.documents())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}
