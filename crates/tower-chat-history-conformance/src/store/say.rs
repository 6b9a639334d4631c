//! Assertions whose failures show the expected value, the store's answer, and the sentence of the contract that it
//! breaks.
//!
//! Within this module tree, `assert!`, `assert_eq!` and `assert_ne!` are these macros, not those of the standard
//! library. Each quotes the `CLAUSE` in its scope: that of the behavior if it has one, otherwise that of its group. The
//! default is [`PROFILES`], the first sentence of the contract. The first operand of a comparison is the store's
//! answer.
//!
//! [`PROFILES`]: crate::clause::PROFILES

use std::{error::Error, fmt::Debug};

use crate::clause::Clause;

/// The maximum length of a shown value, in bytes.
const SHOWN: usize = 600;

/// Compares the store's answer with the expected value.
macro_rules! assert_eq {
    ($found:expr, $expected:expr $(,)?) => {
        assert_eq!($found, $expected, "")
    };
    ($found:expr, $expected:expr, $($when:tt)+) => {
        match (&$found, &$expected) {
            (found, expected) => if !(*found == *expected) {
                $crate::store::say::differs(&CLAUSE, stringify!($found), &found, &expected, &format!($($when)+));
            }
        }
    };
}

/// Compares the store's answer with a value that it must not be.
macro_rules! assert_ne {
    ($found:expr, $not:expr $(,)?) => {
        match (&$found, &$not) {
            (found, not) => {
                if *found == *not {
                    let expected = format!("anything but {}", stringify!($not));
                    $crate::store::say::fail(&CLAUSE, stringify!($found), &expected, &format!("{found:?}"), "");
                }
            }
        }
    };
}

/// Checks a condition. The message describes the store's answer.
macro_rules! assert {
    ($condition:expr $(,)?) => {
        assert!($condition, "something for which this does not hold")
    };
    ($condition:expr, $($did:tt)+) => {
        if !$condition {
            $crate::store::say::fail(&CLAUSE, "", stringify!($condition), &format!($($did)+), "");
        }
    };
}

/// Fails because the store returned something else.
macro_rules! unexpected {
    ($expected:literal, $found:expr) => {
        $crate::store::say::fail(&CLAUSE, "", &format!($expected), &format!("{:?}", $found), "")
    };
}

/// Unwraps a value that the store must return.
pub(super) trait Must<T> {
    /// Returns the value. Fails if there is none. `why` says why there must be one.
    #[track_caller]
    fn must(self, why: &str, clause: &Clause) -> T;
}

impl<T, E: Error> Must<T> for Result<T, E> {
    fn must(self, why: &str, clause: &Clause) -> T {
        self.unwrap_or_else(|error| {
            fail(clause, "", &format!("success, because {why}"), &format!("the error \"{error}\""), "")
        })
    }
}

impl<T> Must<T> for Option<T> {
    fn must(self, why: &str, clause: &Clause) -> T {
        self.unwrap_or_else(|| fail(clause, "", &format!("a value, because {why}"), "no value", ""))
    }
}

/// Fails, and shows the parts of both values in which they differ.
#[track_caller]
pub(super) fn differs(clause: &Clause, asked: &str, found: &dyn Debug, expected: &dyn Debug, when: &str) -> ! {
    let (mut came, mut should) = (format!("{found:?}"), format!("{expected:?}"));
    if came == should {
        // The short form does not show the difference.
        (came, should) = (format!("{found:#?}"), format!("{expected:#?}"));
    }
    let (came, should) = around_the_difference(&came, &should);
    report(clause, asked, &should, &came, when)
}

/// Fails. Long texts are cut off.
#[track_caller]
pub(super) fn fail(clause: &Clause, asked: &str, expected: &str, found: &str, when: &str) -> ! {
    report(clause, asked, &cut(expected, 0), &cut(found, 0), when)
}

#[track_caller]
fn report(clause: &Clause, asked: &str, expected: &str, found: &str, when: &str) -> ! {
    let line = |name: &str, text: &str| if text.is_empty() { String::new() } else { format!("\n  {name}: {text}") };
    panic!(
        "the store does not keep its contract{}{}{}{}{}",
        line("contract", &clause.to_string()),
        line("asked for", asked),
        line("in the case", &cut(when, 0)),
        line("expected", expected),
        line("the store returned", found),
    )
}

/// Returns the parts of two long texts in which they differ.
fn around_the_difference(one: &str, other: &str) -> (String, String) {
    if one == other {
        let alike = "the same sizes and positions, but other bytes or other times";
        return (format!("{} ({alike})", cut(one, 0)), cut(other, 0));
    }
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let from = if one.len().max(other.len()) > SHOWN { same.saturating_sub(SHOWN / 4) } else { 0 };
    (cut(one, from), cut(other, from))
}

fn cut(text: &str, from: usize) -> String {
    let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let (from, to) = (boundary(from), boundary(from.saturating_add(SHOWN)));
    let begins = if from > 0 { "…" } else { "" };
    let left = text.len() - to;
    let ends = if left > 0 { format!("… ({left} more bytes)") } else { String::new() };
    format!("{begins}{}{ends}", &text[from..to])
}
