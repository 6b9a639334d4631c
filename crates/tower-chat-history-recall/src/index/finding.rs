//! The lookup of terms in a part, in steps.

use super::{
    part::IndexPart,
    postings::{Lookup, Postings, Terms},
};
use crate::{analyzer::Term, varint::DecodeError};

/// The number of terms of a table that a step passes over.
const PASSED: usize = 1 << 15;

/// Looks up terms in a part. A table is read from its beginning, so a lookup may pass over all of its terms.
#[derive(Debug)]
pub(crate) struct Finding<'a, 't> {
    part: &'a IndexPart,
    /// The terms that are not looked up yet.
    terms: &'t [Term],
    found: Vec<Option<Postings<'a>>>,
    table: Option<(u8, Terms<'a>)>,
}

impl<'a, 't> Finding<'a, 't> {
    /// Begins to look up terms, which must ascend.
    pub(super) fn new(part: &'a IndexPart, terms: &'t [Term]) -> Self {
        Self { part, terms, found: Vec::with_capacity(terms.len()), table: None }
    }

    /// Looks up some terms. Returns `false` after the last one.
    pub(crate) fn step(&mut self) -> Result<bool, DecodeError> {
        let mut left = PASSED;
        while let Some((&term, rest)) = self.terms.split_first() {
            let bucket = if self.part.is_segment() { term.bucket() } else { 0 };
            let mut here = match self.table.take() {
                Some((of, table)) if of == bucket => table,
                _ => self.part.terms(bucket)?,
            };
            let looked = here.find(term, &mut left)?;
            self.table = Some((bucket, here));
            match looked {
                Lookup::Done(postings) => self.found.push(postings),
                Lookup::Paused => return Ok(true),
            }
            self.terms = rest;
        }
        Ok(false)
    }

    /// Returns the postings of each term.
    pub(crate) fn finish(self) -> Vec<Option<Postings<'a>>> {
        self.found
    }
}
