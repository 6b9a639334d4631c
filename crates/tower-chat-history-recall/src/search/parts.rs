//! The documents of several parts as one list.

use std::ops::Range;

use tower_chat_history_core::Seq;

use crate::{
    analyzer::Term,
    index::{Documents, Part},
    varint::DecodeError,
};

/// The documents of a range of the log, numbered from 0 over all parts.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    parts: Vec<Numbered<'a>>,
    pub(super) documents: u32,
    pub(super) tokens: u64,
}

#[derive(Debug)]
struct Numbered<'a> {
    part: &'a Part,
    /// The documents that are in the range, by their numbers in the part.
    inside: Range<u32>,
    /// The number of the first of these over all parts.
    base: u32,
}

/// The documents with one term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) document: u32,
    pub(super) length: u32,
    pub(super) frequency: u32,
}

impl<'a> Parts<'a> {
    /// Creates the list. The parts must be in order and must not overlap.
    pub(super) fn new(parts: impl IntoIterator<Item = &'a Part>, within: &Range<Seq>) -> Self {
        let mut all = Self { parts: Vec::new(), documents: 0, tokens: 0 };
        for part in parts {
            let inside = part.document_list().numbers(within);
            all.tokens += part.document_list().tokens(&inside);
            let base = all.documents;
            all.documents = base.saturating_add(inside.end - inside.start);
            if !inside.is_empty() {
                all.parts.push(Numbered { part, inside, base });
            }
        }
        all
    }

    /// Returns the number of documents that have each of these terms, which must ascend.
    pub(super) fn frequencies(&self, terms: &[Term]) -> Result<Vec<u32>, DecodeError> {
        let mut frequencies = vec![0_u32; terms.len()];
        for numbered in &self.parts {
            let Numbered { part, inside, .. } = numbered;
            let whole = *inside == (0..part.documents());
            for (sum, found) in frequencies.iter_mut().zip(part.find(terms)?) {
                let Some(postings) = found else { continue };
                *sum += if whole {
                    postings.count()
                } else {
                    let mut count = 0;
                    for posting in postings.read(part.document_list()) {
                        count += u32::from(inside.contains(&posting?.document));
                    }
                    count
                };
            }
        }
        Ok(frequencies)
    }

    /// Passes on each document that has one of these terms, which must ascend: by part, then by term, then by document.
    pub(super) fn each(&self, terms: &[Term], mut each: impl FnMut(usize, Occurrence)) -> Result<(), DecodeError> {
        for Numbered { part, inside, base } in &self.parts {
            let list: &Documents = part.document_list();
            for (index, found) in part.find(terms)?.into_iter().enumerate() {
                for posting in found.into_iter().flat_map(|postings| postings.read(list)) {
                    let posting = posting?;
                    let Some(document) = list.get(posting.document) else { continue };
                    if inside.contains(&posting.document) {
                        let number = base + (posting.document - inside.start);
                        each(
                            index,
                            Occurrence { document: number, length: document.length, frequency: posting.frequency },
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the exchange and the message of a document.
    pub(super) fn position(&self, document: u32) -> Option<(Seq, u32)> {
        let after = self.parts.partition_point(|numbered| numbered.base <= document);
        let Numbered { part, inside, base } = self.parts.get(after.checked_sub(1)?)?;
        let number = inside.start + (document - base);
        Some((part.document_list().exchange_of(number), part.document_list().get(number)?.message))
    }
}
