//! Merging of blocks, one bucket at a time.

use std::{cmp::Reverse, collections::BinaryHeap, iter::Peekable};

use tower_chat_history_core::Seq;

use super::{
    documents::Documents,
    part::IndexPart,
    postings::{Posting, TableWriter, Terms},
};
use crate::{
    analyzer::Term,
    varint::{DecodeError, Reader},
};

/// The number of postings that are merged in a step.
const MERGED: usize = 1 << 14;

/// A segment in the making. The tables are made one by one, in steps, so that a caller can pause in between.
#[derive(Debug)]
pub(crate) struct Merger<'a> {
    documents: Documents,
    parts: Vec<Merged<'a>>,
    bucket: u8,
    table: Option<Table>,
}

#[derive(Debug)]
struct Merged<'a> {
    part: &'a IndexPart,
    /// The number of the part's first document in the segment.
    base: u32,
    /// The terms that are not merged yet: those of a block, or those of a bucket of a segment.
    terms: Peekable<Terms<'a>>,
}

/// The table that is being made.
#[derive(Debug, Default)]
struct Table {
    /// The next term of each part. Of equal terms, the earlier part comes first.
    next: BinaryHeap<Reverse<(Term, usize)>>,
    writer: TableWriter,
}

/// The result of a step.
#[derive(Debug)]
pub(crate) enum Step {
    /// The table is not finished yet.
    More,
    /// The table of a bucket is finished.
    Table(u8, Vec<u8>),
    /// All tables are finished.
    End,
}

impl<'a> Merger<'a> {
    /// Begins to merge parts, which must be in order and within one segment.
    pub(crate) fn new(parts: &[&'a IndexPart]) -> Result<Self, DecodeError> {
        let mut documents = Documents::new(parts.first().map_or(Seq::FIRST, |part| part.range().start));
        let longest = Seq::new(documents.first().get().saturating_add(IndexPart::SEGMENT));
        let mut merged = Vec::with_capacity(parts.len());
        for &part in parts {
            if part.range().start < documents.end() || part.range().end > longest {
                return Err(Reader::new(&[]).error("blocks that make up no segment"));
            }
            merged.push(Merged { part, base: documents.len(), terms: part.terms(0)?.peekable() });
            documents.append(part.document_list());
        }
        Ok(Self { documents, parts: merged, bucket: 0, table: None })
    }

    /// Merges some postings.
    pub(crate) fn step(&mut self) -> Result<Step, DecodeError> {
        let bucket = self.bucket;
        if bucket >= Term::BUCKETS {
            return Ok(Step::End);
        }
        let mut table = match self.table.take() {
            Some(table) => table,
            None => self.begin()?,
        };
        let mut merged = 0;
        while merged < MERGED {
            let Some(Reverse((term, number))) = table.next.pop() else {
                self.bucket += 1;
                return Ok(Step::Table(bucket, table.writer.finish()));
            };
            let Some(Merged { part, base, terms }) = self.parts.get_mut(number) else { continue };
            let Some(found) = terms.next() else { continue };
            for posting in found?.1.read(part.document_list()) {
                let Posting { document, frequency } = posting?;
                table.writer.push(term, Posting { document: base.saturating_add(document), frequency });
                merged += 1;
            }
            table.next.extend(next_term(terms, bucket)?.map(|term| Reverse((term, number))));
        }
        self.table = Some(table);
        Ok(Step::More)
    }

    /// Begins the table of the bucket.
    fn begin(&mut self) -> Result<Table, DecodeError> {
        let mut table = Table::default();
        for (number, Merged { part, terms, .. }) in self.parts.iter_mut().enumerate() {
            if part.is_segment() {
                *terms = part.terms(self.bucket)?.peekable();
            }
            table.next.extend(next_term(terms, self.bucket)?.map(|term| Reverse((term, number))));
        }
        Ok(table)
    }

    /// Returns the table of the next bucket, or `None` after the last one.
    pub(crate) fn next_table(&mut self) -> Result<Option<(u8, Vec<u8>)>, DecodeError> {
        loop {
            match self.step()? {
                Step::More => {}
                Step::Table(bucket, table) => return Ok(Some((bucket, table))),
                Step::End => return Ok(None),
            }
        }
    }

    /// Returns the documents of the segment.
    pub(crate) fn into_documents(self) -> Documents {
        self.documents
    }
}

/// Returns the next term, if it is in this bucket or one before it.
fn next_term(terms: &mut Peekable<Terms<'_>>, bucket: u8) -> Result<Option<Term>, DecodeError> {
    match terms.peek() {
        Some(Ok((term, _))) => Ok((term.bucket() <= bucket).then_some(*term)),
        Some(Err(error)) => Err(*error),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Exchange, ExchangeId, Message, Recorded};

    use super::*;
    use crate::analyzer::Analyzer;

    #[test]
    fn a_table_with_many_postings_is_merged_in_several_steps() {
        let (analyzer, mut blocks) = (Analyzer::default(), Vec::new());
        let exchange = Exchange::new(ExchangeId::generate(), (0..128).map(|_| Message::user("dog")));
        let exchange = std::sync::Arc::new(exchange);
        for block in 0..4 {
            let range = block * IndexPart::BLOCK..(block + 1) * IndexPart::BLOCK;
            let log: Vec<Recorded> =
                range.clone().map(|seq| Recorded::new(Seq::new(seq), std::sync::Arc::clone(&exchange))).collect();
            blocks.push(IndexPart::index(&analyzer, Seq::new(range.start)..Seq::new(range.end), &log));
        }
        let blocks: Vec<&IndexPart> = blocks.iter().collect();
        let (mut merger, mut more, mut tables) = (Merger::new(&blocks).unwrap(), 0, 0);
        loop {
            match merger.step().unwrap() {
                Step::More => more += 1,
                Step::Table(..) => tables += 1,
                Step::End => break,
            }
        }
        assert_eq!((more, tables), (2, 64), "32,768 postings of one term");
        let merged = IndexPart::merge(&blocks).unwrap();
        let found = merged.find(&[Term::of("dog")]).unwrap();
        assert_eq!(found[0].map(|postings| postings.count()), Some(32_768));
    }
}
