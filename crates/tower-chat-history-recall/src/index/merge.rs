//! Merging of blocks, one bucket at a time.

use std::iter::Peekable;

use tower_chat_history_core::Seq;

use super::{
    documents::Documents,
    part::IndexPart,
    postings::{Posting, Terms, sort, table},
};
use crate::{
    analyzer::Term,
    varint::{DecodeError, Reader},
};

/// A segment in the making. The tables are made one by one, so that a caller can pause in between, and only one is in
/// memory as postings.
#[derive(Debug)]
pub(crate) struct Merger<'a> {
    documents: Documents,
    parts: Vec<Merged<'a>>,
    bucket: u8,
}

#[derive(Debug)]
struct Merged<'a> {
    part: &'a IndexPart,
    /// The number of the part's first document in the segment.
    base: u32,
    /// The terms of a block that are not merged yet.
    terms: Option<Peekable<Terms<'a>>>,
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
            let terms = if part.is_segment() { None } else { Some(part.terms(0)?.peekable()) };
            merged.push(Merged { part, base: documents.len(), terms });
            documents.append(part.document_list());
        }
        Ok(Self { documents, parts: merged, bucket: 0 })
    }

    /// Returns the table of the next bucket, or `None` after the last one.
    pub(crate) fn next_table(&mut self) -> Result<Option<(u8, Vec<u8>)>, DecodeError> {
        let bucket = self.bucket;
        if bucket >= Term::BUCKETS {
            return Ok(None);
        }
        let mut postings: Vec<(Term, Posting)> = Vec::new();
        for Merged { part, base, terms } in &mut self.parts {
            let mut of_segment;
            let terms = match terms {
                Some(terms) => terms,
                None => {
                    of_segment = part.terms(bucket)?.peekable();
                    &mut of_segment
                }
            };
            let here =
                |found: &Result<(Term, _), DecodeError>| !matches!(found, Ok((term, _)) if term.bucket() > bucket);
            while let Some(found) = terms.next_if(here) {
                let (term, of_term) = found?;
                for posting in of_term.read(part.document_list()) {
                    let Posting { document, frequency } = posting?;
                    postings.push((term, Posting { document: base.saturating_add(document), frequency }));
                }
            }
        }
        sort(&mut postings);
        self.bucket += 1;
        Ok(Some((bucket, table(&postings))))
    }

    /// Returns the documents of the segment.
    pub(crate) fn into_documents(self) -> Documents {
        self.documents
    }
}
