//! Random tests: a seed determines a scenario, and the rules must hold in every scenario.
//!
//! A [`Scenario`] is a function of a seed and of [`Ingredients`]: the kinds of hostile behavior that it may
//! mix in. It returns [`Figures`] that count what it did, or the [`Violation`] that it found. The program
//! `random` runs all of them in child processes, so that it also finds a process that aborts or hangs.
//! `tests/it/random.rs` starts it with a few seeds. `random --scenario NAME --seed SEED` repeats one case.
//!
//! To add a scenario, write a function and list it in [`SCENARIOS`]. Scenarios check the rules of the
//! documentation (the pages *guarantees* and *cases*), and use public items only. An oracle is written
//! independently of the code that it judges. For example, `rules` does not call `check_chat_rules`.

mod cancel;
mod disturbed;
mod engine;
mod entry;
mod ingredients;
mod neighbors;
mod notes;
mod outcome;
mod panics;
mod rules;
mod shutdown;
mod stores;
mod streams;
mod words;

pub use self::{
    ingredients::{Ingredient, Ingredients},
    outcome::{Checked, Figures, Violation},
    panics::count_panics,
};

/// A random test.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// The name, as the program `random` takes it.
    pub name: &'static str,
    /// A description for the user of the program.
    pub about: &'static str,
    /// Runs one case.
    pub run: fn(u64, &Ingredients) -> Checked<Figures>,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "engine", about: "conversations with any log, budget and summarizer", run: engine::run },
    Scenario { name: "neighbors", about: "one conversation, alone and next to hostile ones", run: neighbors::run },
    Scenario { name: "cancel", about: "callers that leave at any await, over an unreliable store", run: cancel::run },
    Scenario { name: "shutdown", about: "runtimes that are shut down after a drain", run: shutdown::run },
    Scenario { name: "streams", about: "streams in any pieces, through every integration", run: streams::run },
    Scenario { name: "stores", about: "stores in this process against a model of the contract", run: stores::local },
    Scenario { name: "servers", about: "stores on servers against the same model", run: stores::remote },
    Scenario { name: "entry", about: "hostile text as input of everything that reads text", run: entry::run },
];

/// Returns the scenario with this name.
#[must_use]
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// Runs one case. It fails if the scenario finds a violation, or if anything panics unintentionally.
///
/// # Errors
///
/// Returns the violation.
pub fn run_case(scenario: &Scenario, seed: u64, ingredients: &Ingredients) -> Checked<Figures> {
    let before = panics::unexpected();
    let ran = std::panic::catch_unwind(|| (scenario.run)(seed, ingredients));
    let panicked = panics::since(before);
    match ran {
        Ok(Err(violation)) => Err(violation),
        Ok(Ok(_)) | Err(_) if !panicked.is_empty() => Err(Violation::new("nothing panics", panicked.join(" | "))),
        Ok(Ok(figures)) => Ok(figures),
        Err(_) => Err(Violation::new("nothing panics", "an intentional panic reached the caller")),
    }
}
