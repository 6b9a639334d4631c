//! The result of a case.

use std::{collections::BTreeMap, fmt};

/// A rule that does not hold, and what was observed.
#[derive(Debug)]
pub struct Violation {
    rule: &'static str,
    seen: String,
}

/// A value, or a violation.
pub type Checked<T = ()> = Result<T, Violation>;

impl Violation {
    /// Creates a violation of this rule.
    pub fn new(rule: &'static str, seen: impl Into<String>) -> Self {
        Self { rule, seen: seen.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.seen)
    }
}

/// Checks that a condition holds.
pub(super) fn holds(it: bool, rule: &'static str, seen: impl FnOnce() -> String) -> Checked {
    if it { Ok(()) } else { Err(Violation::new(rule, seen())) }
}

/// Counts of what a case did, by name. They show that a case does what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures(pub BTreeMap<String, u64>);

impl Figures {
    /// Adds one.
    pub fn count(&mut self, name: &str) {
        self.add(name, 1);
    }

    /// Adds a number.
    pub fn add(&mut self, name: &str, number: u64) {
        if number > 0 {
            *self.0.entry(name.to_owned()).or_default() += number;
        }
    }

    /// Adds the figures of another case.
    pub fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, number)| self.add(name, *number));
    }
}
