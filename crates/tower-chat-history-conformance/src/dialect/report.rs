//! Failures that show the sentence of the contract and the element.

use std::fmt::Debug;

use crate::clause::Clause;

/// The maximum length of a shown value, in characters.
const SHOWN: usize = 600;

/// Fails if the condition does not hold.
#[track_caller]
pub(super) fn require(holds: bool, clause: &Clause, element: &str, expected: &str) {
    if !holds {
        fail(clause, element, expected, "something else");
    }
}

/// Fails if the two values differ.
#[track_caller]
pub(super) fn same<T: Debug + PartialEq>(found: &T, expected: &T, clause: &Clause, element: &str, of: &str) {
    if found != expected {
        fail(clause, element, &format!("{of}: {expected:?}"), &format!("{found:?}"));
    }
}

/// Fails.
#[track_caller]
pub(super) fn fail(clause: &Clause, element: &str, expected: &str, found: &str) -> ! {
    panic!(
        "the dialect does not keep its contract\n  contract: {clause}\n  element: {}\n  expected: {}\n  found: {}",
        cut(element),
        cut(expected),
        cut(found),
    )
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} more bytes)", &text[..end], text.len() - end),
        None => text.to_owned(),
    }
}
