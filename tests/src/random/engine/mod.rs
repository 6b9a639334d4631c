//! Conversations through the engine, with any log, input, policy and summarizer.
//!
//! Two engines share a store. The case imports, edits and forks conversations, asks questions, and answers
//! tool calls rightly and wrongly. It derives an expected log from the reports of the engines, and compares
//! the store with it.

mod base;
mod commit;
mod edits;
mod log;
mod plan_checks;
mod prefix;
mod recall;
mod setup;
mod turns;

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use tokio::runtime::Builder;
use tower_chat_history::{ConversationId, Engine, ExchangeId, Turn};

use self::{base::Base, log::Log, prefix::Sent, setup::Setup};
use super::{
    Figures, Ingredients,
    notes::Notes,
    outcome::{Checked, Violation},
    words::Words,
};
use crate::rng::SeededRng;

/// Runs one case.
pub(super) fn run(seed: u64, ingredients: &Ingredients) -> Checked<Figures> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let case = async {
        let mut rng = SeededRng::new(seed);
        let mut case = Case::new(&mut rng, ingredients).await;
        if case.rng.once_in(6) {
            case.import_blocks().await?;
        }
        let steps = rng.between(10, 60);
        for _ in 0..steps {
            case.step().await?;
        }
        case.end().await?;
        Ok(case.figures)
    };
    runtime.block_on(case)
}

/// A reported summary: its conversation, the end of what it covers, and its outcome.
#[derive(Clone, Debug)]
struct ReportedSummary {
    conversation: ConversationId,
    to: u64,
    outcome: &'static str,
}

/// A profile and its summarizer.
struct Policy {
    setup: Setup,
    notes: Arc<Notes>,
    reported: Arc<Mutex<Vec<ReportedSummary>>>,
}

struct Case {
    base: Base,
    policies: Vec<Policy>,
    /// Each engine, with the index of its policy.
    engines: Vec<(Engine, usize)>,
    talks: Vec<Talk>,
    words: Words,
    rng: SeededRng,
    ingredients: Ingredients,
    figures: Figures,
    forks: usize,
}

/// A conversation.
struct Talk {
    log: Log,
    /// The last stored call, unless something came after it.
    before: Option<Sent>,
    /// Turns that have begun and not ended.
    slow: Vec<Slow>,
    /// Counts of edits and appends. A turn that began under another count may be refused.
    edits: usize,
    appends: usize,
}

struct Slow {
    turn: Turn,
    planned_call: turns::PlannedCall,
    edits: usize,
    appends: usize,
    summaries: Range<usize>,
}

impl Case {
    async fn new(rng: &mut SeededRng, ingredients: &Ingredients) -> Self {
        let base = Base::any(rng).await;
        let many = 1 + rng.index(2);
        let policies: Vec<Policy> = (0..many)
            .map(|number| {
                let setup = Setup::any(rng, ingredients, &format!("p{number}"));
                let notes = setup.notes(rng.fork(), ingredients);
                Policy { setup, notes, reported: Arc::default() }
            })
            .collect();
        let engines = (0..2).map(|number| {
            let policy = number % policies.len();
            let Policy { setup, notes, reported } = &policies[policy];
            let reported = Arc::clone(reported);
            let engine = setup.engine(&base, notes, move |report| {
                let to = report.to.get();
                let (conversation, outcome) = (report.conversation.clone(), report.outcome.kind());
                reported.lock().unwrap().push(ReportedSummary { conversation, to, outcome });
            });
            (engine, policy)
        });
        let engines = engines.collect();
        let talks = (0..1 + rng.index(2)).map(|number| Talk::new(&format!("c{number}"), policies.len())).collect();
        let words = Words::new(rng.fork(), ingredients);
        let (rng, ingredients) = (rng.fork(), ingredients.clone());
        Self { base, policies, engines, talks, words, rng, ingredients, figures: Figures::default(), forks: 0 }
    }

    async fn step(&mut self) -> Checked {
        let talk = self.rng.index(self.talks.len());
        match self.rng.below(20) {
            0 => self.edit(talk).await,
            1 if self.talks[talk].log.entries.len() < 30 => self.import(talk).await,
            2..4 if !self.talks[talk].slow.is_empty() => self.finish_slow(talk).await,
            _ => self.turn(talk).await,
        }
    }

    async fn end(&mut self) -> Checked {
        for talk in 0..self.talks.len() {
            while !self.talks[talk].slow.is_empty() {
                self.finish_slow(talk).await?;
            }
            // A question is always answered, whatever happened before.
            self.ask(talk).await?;
        }
        for Policy { notes, .. } in &self.policies {
            self.figures.add("summaries", notes.written());
        }
        Ok(())
    }

    /// Waits for everything that is running, then checks the log.
    async fn settle(&mut self, talk: usize) -> Checked {
        for (engine, _) in &self.engines {
            let drained = engine.drain(std::time::Duration::from_secs(300)).await;
            drained.map_err(|error| Violation::new("drain ends", error.to_string()))?;
        }
        let pruned = self.policies.iter().any(|policy| policy.setup.retention.is_some());
        let log = &mut self.talks[talk].log;
        log.check(&self.base, pruned).await?;
        for (number, Policy { setup, notes, .. }) in self.policies.iter().enumerate() {
            log.positions(&self.base, number, &setup.profile, notes).await?;
            if let Some(twice) = notes.twice() {
                return Err(Violation::new("no fact is summarized twice", twice));
            }
        }
        Ok(())
    }

    fn exchange_id(&mut self) -> ExchangeId {
        ExchangeId::new(format!("e{}", self.rng.next())).unwrap()
    }
}

impl Talk {
    fn new(name: &str, profiles: usize) -> Self {
        let id = ConversationId::new([name]).unwrap();
        Self { log: Log::new(id, profiles), before: None, slow: Vec::new(), edits: 0, appends: 0 }
    }
}
