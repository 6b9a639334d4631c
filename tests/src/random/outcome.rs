//! What a case comes to.

use std::{collections::BTreeMap, fmt};

/// A rule that does not hold, and what was seen.
#[derive(Debug)]
pub struct Violation {
    rule: &'static str,
    seen: String,
}

/// Something, or a violation.
pub type Checked<T = ()> = Result<T, Violation>;

impl Violation {
    /// That rule does not hold.
    pub fn new(rule: &'static str, seen: impl Into<String>) -> Self {
        Self { rule, seen: seen.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.seen)
    }
}

/// Checks that something holds.
pub(super) fn holds(it: bool, rule: &'static str, seen: impl FnOnce() -> String) -> Checked {
    if it { Ok(()) } else { Err(Violation::new(rule, seen())) }
}

/// What a case did, by name: to see that it does what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures(pub BTreeMap<String, u64>);

impl Figures {
    /// Counts one.
    pub fn count(&mut self, name: &str) {
        self.add(name, 1);
    }

    /// Counts that many.
    pub fn add(&mut self, name: &str, number: u64) {
        if number > 0 {
            *self.0.entry(name.to_owned()).or_default() += number;
        }
    }

    /// Adds another case's figures.
    pub fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, number)| self.add(name, *number));
    }
}
