//! The numbers of things that happened in all cases.

use std::{collections::BTreeMap, fmt, sync::Mutex};

/// Numbers by name.
#[derive(Debug, Default)]
pub(super) struct Figures(Mutex<BTreeMap<&'static str, u64>>);

impl Figures {
    pub(super) fn count(&self, name: &'static str, many: u64) {
        *self.0.lock().unwrap().entry(name).or_default() += many;
    }

    pub(super) fn add(&self, other: &Self) {
        other.0.lock().unwrap().iter().for_each(|(name, many)| self.count(name, *many));
    }

    /// Panics if a kind of event that the property is about never happened.
    pub(super) fn check_that_all_happened(&self) {
        for name in [
            "prompts compared with the one before",
            "reasoning kept",
            "reasoning left out",
            "reasoning kept in its turn",
            "results stored",
            "turns that are bound and too large",
        ] {
            assert!(self.get(name) > 0, "no {name}");
        }
    }

    fn get(&self, name: &str) -> u64 {
        self.0.lock().unwrap().get(name).copied().unwrap_or_default()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, many) in &*self.0.lock().unwrap() {
            write!(f, "{many} {name}, ")?;
        }
        let share = |name: &str, left_out: &str| {
            let (kept, left_out) = (self.get(name), self.get(left_out));
            100.0 * kept as f64 / (kept + left_out).max(1) as f64
        };
        // All that was valid was kept, so this share is the best possible one.
        let all = share("reasoning kept", "reasoning left out");
        let in_turn = share("reasoning kept in its turn", "reasoning left out in its turn");
        write!(f, "{all:.2}% of the reasoning in the windows kept, {in_turn:.2}% in turns that continue")
    }
}
