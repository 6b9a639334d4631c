//! Tables of terms with their postings, in bytes.
//!
//! A table is the number of terms, then for each term, in ascending order, the distance to the term before it, the
//! number of its postings and the size of these in bytes; then the postings. So a search reads only the postings of
//! its terms. A posting is the distance to the document before it, doubled, plus one if a frequency follows; without
//! it, the frequency is 1.

use super::documents::Documents;
use crate::{
    analyzer::Term,
    varint::{DecodeError, Reader, Writer},
};

/// A document that has a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) document: u32,
    /// The number of times that the document has the term. It is not 0.
    pub(crate) frequency: u32,
}

/// The postings of a term, not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Postings<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> Postings<'a> {
    /// Returns the number of documents that have the term.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// Reads the postings, in the order of documents.
    pub(crate) fn read(self, documents: &Documents) -> impl Iterator<Item = Result<Posting, DecodeError>> + use<'a> {
        let (mut reader, limit) = (Reader::new(self.bytes), documents.len());
        let mut next = 0_u32;
        (0..self.count).map(move |_| {
            let code = reader.number()?;
            let frequency = if code & 1 == 1 { reader.small()? } else { 1 };
            let document = u32::try_from(code >> 1).ok().and_then(|distance| next.checked_add(distance));
            let document = document.filter(|&document| document < limit && frequency > 0);
            let document = document.ok_or(reader.error("a posting of no document"))?;
            next = document + 1;
            Ok(Posting { document, frequency })
        })
    }
}

/// Sorts postings by term, then by document.
pub(super) fn sort(postings: &mut [(Term, Posting)]) {
    postings.sort_unstable_by_key(|(term, posting)| (*term, posting.document));
}

/// Writes a table, one posting at a time.
#[derive(Debug, Default)]
pub(super) struct TableWriter {
    terms: u64,
    last: u64,
    directory: Writer,
    postings: Writer,
    open: Option<OpenTerm>,
}

/// The term whose postings are being written.
#[derive(Debug)]
struct OpenTerm {
    term: Term,
    /// The start of its postings.
    from: usize,
    count: u64,
    /// The least document that may come next.
    next: u32,
}

impl TableWriter {
    /// Adds a posting. Terms must ascend, and so must the documents of a term.
    pub(super) fn push(&mut self, term: Term, Posting { document, frequency }: Posting) {
        if self.open.as_ref().is_none_or(|open| open.term != term) {
            self.close();
        }
        let from = self.postings.len();
        let open = self.open.get_or_insert(OpenTerm { term, from, count: 0, next: 0 });
        let distance = u64::from(document - open.next) << 1;
        if frequency == 1 {
            self.postings.number(distance);
        } else {
            self.postings.number(distance | 1);
            self.postings.number(u64::from(frequency));
        }
        open.next = document + 1;
        open.count += 1;
    }

    fn close(&mut self) {
        let Some(OpenTerm { term, from, count, .. }) = self.open.take() else { return };
        self.directory.number(term.get() - self.last);
        self.directory.number(count);
        self.directory.number((self.postings.len() - from) as u64);
        self.last = term.get();
        self.terms += 1;
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.close();
        let mut out = Writer::default();
        out.number(self.terms);
        out.section(&self.directory.finish());
        out.bytes(&self.postings.finish());
        out.finish()
    }
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lookup<'a> {
    /// The term has these postings, if the table has it.
    Done(Option<Postings<'a>>),
    /// Too many other terms were passed over. The same lookup goes on with the next one.
    Paused,
}

/// Reads the terms of a table in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Terms<'a> {
    left: u64,
    last: u64,
    directory: Reader<'a>,
    postings: Reader<'a>,
}

impl<'a> Terms<'a> {
    pub(crate) fn of(table: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(table);
        let left = reader.number()?;
        let directory = Reader::new(reader.section()?);
        Ok(Self { left, last: 0, directory, postings: Reader::new(reader.rest()) })
    }

    /// Looks up a term. The terms that are looked up must ascend. It passes over at most `left` others, which it
    /// counts down.
    pub(super) fn find(&mut self, term: Term, left: &mut usize) -> Result<Lookup<'a>, DecodeError> {
        while *left > 0 {
            let before = self.clone();
            match self.read()? {
                Some((found, postings)) if found == term => return Ok(Lookup::Done(Some(postings))),
                Some((found, _)) if found < term => *left -= 1,
                _ => {
                    *self = before;
                    return Ok(Lookup::Done(None));
                }
            }
        }
        Ok(Lookup::Paused)
    }

    fn read(&mut self) -> Result<Option<(Term, Postings<'a>)>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let hash = self.last.checked_add(self.directory.number()?).and_then(Term::from_hash);
        let term = hash.ok_or(self.directory.error("a term is too large"))?;
        self.last = term.get();
        let count = self.directory.small()?;
        let len = usize::try_from(self.directory.number()?).unwrap_or(usize::MAX);
        let bytes = self.postings.take(len)?;
        // Each posting has at least a byte.
        if count as usize > bytes.len() {
            return Err(self.directory.error("it counts more than it has"));
        }
        Ok(Some((term, Postings { count, bytes })))
    }
}

impl<'a> Iterator for Terms<'a> {
    type Item = Result<(Term, Postings<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read().transpose();
        if matches!(next, Some(Err(_))) {
            self.left = 0;
        }
        next
    }
}
