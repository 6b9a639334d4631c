//! The room of an exchange in the record of its block.

use std::collections::HashSet;

use super::postings::Posting;
use crate::analyzer::Term;

/// The bytes of an exchange's terms in the record of a block.
///
/// The terms of 64 exchanges have 4,096,000 bytes. An attachment has 4,194,304 bytes. The rest is for the documents,
/// which have at most 5 bytes each, and for 8,192 terms whose distance needs more than [`TERM`] says.
const BYTES: usize = 64_000;
/// The bytes of a term: 5 for its distance to the term before it, 1 for the number of its postings, and 1 for their
/// size. Of more than 8,192 terms, the others are so near that 5 bytes are enough. More than 127 postings have room for
/// a longer number and size, because the distances between their documents are short.
const TERM: usize = 7;

/// The room that is left. So a block of 64 exchanges always fits into its record, whatever they say.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
    seen: HashSet<Term>,
}

impl Room {
    /// Returns the room of an exchange.
    pub(super) fn of_exchange() -> Self {
        Self { left: BYTES, seen: HashSet::new() }
    }

    /// Takes the room of a posting. Returns `false` if it does not fit.
    pub(super) fn take(&mut self, term: Term, posting: Posting) -> bool {
        // The document's distance needs two bytes: a block has at most 8,192 documents.
        let of_posting = match posting.frequency {
            1 => 2,
            2..128 => 3,
            _ => 4,
        };
        let of_term = if self.seen.contains(&term) { 0 } else { TERM };
        let Some(left) = self.left.checked_sub(of_posting + of_term) else { return false };
        self.left = left;
        self.seen.insert(term);
        true
    }
}
