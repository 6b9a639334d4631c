//! The documents of several parts as one list.

use std::ops::Range;

use tower_chat_history_core::Seq;

use crate::{
    index::{Documents, IndexPart, Posting, Postings},
    varint::DecodeError,
};

/// A part, and for each term that is searched for, the documents that have it.
pub(crate) type Looked<'a> = (&'a IndexPart, Vec<Option<Postings<'a>>>);

/// The documents of a range of the log, numbered from 0 over all parts.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    parts: Vec<Numbered<'a>>,
    pub(super) documents: u32,
    pub(super) tokens: u64,
}

#[derive(Debug)]
struct Numbered<'a> {
    part: &'a IndexPart,
    /// The documents that are in the range, by their numbers in the part.
    inside: Range<u32>,
    /// The number of the first of these over all parts.
    base: u32,
    /// For each term that is searched for, the documents that have it.
    postings: Vec<Option<Postings<'a>>>,
}

/// The documents with one term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) document: u32,
    pub(super) length: u32,
    pub(super) frequency: u32,
}

impl<'a> Parts<'a> {
    /// Creates the list of parts with what they have for each term. The parts must be in order and must not overlap.
    pub(super) fn new(parts: impl IntoIterator<Item = Looked<'a>>, within: &Range<Seq>) -> Self {
        let mut all = Self { parts: Vec::new(), documents: 0, tokens: 0 };
        for (part, postings) in parts {
            let inside = part.document_list().numbers(within);
            all.tokens += part.document_list().tokens(&inside);
            let base = all.documents;
            all.documents = base.saturating_add(inside.end - inside.start);
            if !inside.is_empty() {
                all.parts.push(Numbered { part, inside, base, postings });
            }
        }
        all
    }

    /// Returns the exchange and the message of a document.
    pub(super) fn position(&self, document: u32) -> Option<(Seq, u32)> {
        let after = self.parts.partition_point(|numbered| numbered.base <= document);
        let Numbered { part, inside, base, .. } = self.parts.get(after.checked_sub(1)?)?;
        let number = inside.start + (document - base);
        Some((part.document_list().exchange_of(number), part.document_list().get(number)?.message))
    }

    /// Returns the number of documents that have a term, given by its place among those that were looked up.
    pub(super) fn frequency(&self, term: usize) -> Result<u32, DecodeError> {
        let mut frequency = 0_u32;
        for Numbered { part, inside, postings, .. } in &self.parts {
            let Some(postings) = postings.get(term).copied().flatten() else { continue };
            if *inside == (0..part.documents()) {
                frequency = frequency.saturating_add(postings.count());
                continue;
            }
            for posting in postings.read(part.document_list()) {
                frequency = frequency.saturating_add(u32::from(inside.contains(&posting?.document)));
            }
        }
        Ok(frequency)
    }

    /// Passes on each document that has a term, in order.
    pub(super) fn each(&self, term: usize, mut each: impl FnMut(Occurrence)) -> Result<(), DecodeError> {
        for Numbered { part, inside, base, postings } in &self.parts {
            let Some(postings) = postings.get(term).copied().flatten() else { continue };
            let list: &Documents = part.document_list();
            for posting in postings.read(list) {
                let Posting { document, frequency } = posting?;
                let Some(length) = list.get(document).map(|document| document.length) else { continue };
                if inside.contains(&document) {
                    each(Occurrence { document: base + (document - inside.start), length, frequency });
                }
            }
        }
        Ok(())
    }
}
