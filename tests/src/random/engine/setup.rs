//! The configuration of an engine.

use std::{sync::Arc, time::Duration};

use tower_chat_history::{
    ContextBudget, ContextOptions, Engine, HistoryOptions, Policies, Retention, Summaries,
    budget::{ClearResults, Importance, KeepFirst, TrimTurn, Watermark, Watermarks},
    policy::{OnConflict, OnOpenTurn, QueueLimits},
    store::{LoadLimit, Profile},
    summary::{SummarizeWhen, SummaryReport},
};

use super::{
    super::{Ingredients, notes::Notes},
    recall::RecallSetup,
};
use crate::rng::SeededRng;

/// The policies of one profile.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) profile: Profile,
    /// The token limit of a prompt, if there is one.
    pub(super) limit: Option<u32>,
    pub(super) on_open_turn: OnOpenTurn,
    pub(super) on_conflict: OnConflict,
    pub(super) retention: Option<Retention>,
    pub(super) has_trimmer: bool,
    pub(super) summarizes: bool,
    pub(super) recall: Option<RecallSetup>,
    load: LoadLimit,
    watermarks: Watermarks,
    clear: Option<ClearResults>,
    trimmer: u64,
    when: SummarizeWhen,
    reliable: bool,
}

const RESERVE: u32 = 50;

impl Setup {
    pub(super) fn any(rng: &mut SeededRng, ingredients: &Ingredients, name: &str) -> Self {
        let window = u32::try_from(rng.between(200, 3_000)).unwrap_or(3_000);
        let percent = |rng: &mut SeededRng| u8::try_from(rng.between(20, 95)).unwrap_or(50);
        let number = |rng: &mut SeededRng| rng.index(8) + 2;
        let watermarks = match rng.below(6) {
            0 => Watermarks::new(Watermark::Percent(90), Watermark::Percent(40)).unwrap(),
            1 => Watermarks::last_messages(number(rng)),
            2 => Watermarks::last_turns(number(rng)),
            3 => Watermarks::keep_recent(number(rng)),
            _ => Watermarks::default(),
        };
        let load = match rng.below(2) {
            0 => LoadLimit::new(usize::try_from(rng.between(4, 33)).unwrap_or(4), 1 << 20).unwrap(),
            _ => LoadLimit::default(),
        };
        let trimmer = rng.below(12);
        Self {
            profile: Profile::new(name).unwrap(),
            limit: (!rng.once_in(4)).then_some(window - RESERVE),
            on_open_turn: if rng.once_in(8) { OnOpenTurn::Reject } else { OnOpenTurn::Supersede },
            on_conflict: match rng.below(6) {
                0 => OnConflict::Reject,
                1 => OnConflict::Serialize(QueueLimits::default()),
                _ => OnConflict::Rebase,
            },
            retention: match rng.below(10) {
                0 => Some(Retention::LastTurns(number(rng))),
                1 => Some(Retention::LastMessages(number(rng) * 3)),
                _ => None,
            },
            has_trimmer: trimmer < 2,
            summarizes: rng.once_in(2),
            recall: rng.once_in(2).then(|| RecallSetup::any(rng, ingredients)),
            load,
            watermarks,
            clear: rng.once_in(3).then(|| ClearResults::new().keep(rng.index(4))),
            trimmer,
            when: match rng.below(3) {
                0 => SummarizeWhen::AfterReply { percent: percent(rng) },
                1 => SummarizeWhen::BeforeCall,
                _ => SummarizeWhen::BeforeEveryCall,
            },
            reliable: rng.once_in(2),
        }
    }

    pub(super) fn notes(&self, rng: SeededRng, ingredients: &Ingredients) -> Arc<Notes> {
        // A summary before every call is made in the task of the caller, who would get the panic.
        let panics = self.when != SummarizeWhen::BeforeEveryCall;
        Arc::new(Notes::new(rng, ingredients, self.reliable, panics))
    }

    fn options(
        &self,
        store: &super::base::Base,
        notes: &Arc<Notes>,
        on_summary: impl Fn(&SummaryReport) + Send + Sync + 'static,
    ) -> HistoryOptions {
        let mut context = ContextOptions::new()
            .profile(self.profile.clone())
            .load_limit(self.load)
            .watermarks(self.watermarks)
            .budget(self.limit.map_or_else(ContextBudget::unlimited, |limit| {
                ContextBudget::tokens(limit + RESERVE).reply_reserve(RESERVE)
            }));
        if let Some(clear) = &self.clear {
            context = context.clear_results(clear.clone());
        }
        context = match self.trimmer {
            0 => context.trimmer(KeepFirst::new(1)),
            1 => context
                .trimmer(Importance::new(|turn: &TrimTurn<'_>| f64::from(u8::from(turn.tokens.is_multiple_of(2))))),
            _ => context,
        };
        let policies = Policies::new().on_open_turn(self.on_open_turn).on_conflict(self.on_conflict);
        let mut options = HistoryOptions::new().context(context).policies(policies);
        if let Some(recall) = &self.recall {
            options = options.recall(recall.options(store.for_recall()));
        }
        if self.summarizes {
            let summaries = Summaries::new(Arc::clone(notes)).max_tokens(20).least_room(1).chunk_tokens(200);
            options =
                options.summaries(summaries.when(self.when).timeout(Duration::from_secs(5)).on_summary(on_summary));
        }
        options
    }

    pub(super) fn engine(
        &self,
        store: &super::base::Base,
        notes: &Arc<Notes>,
        on_summary: impl Fn(&SummaryReport) + Send + Sync + 'static,
    ) -> Engine {
        store.engine(self.options(store, notes, on_summary), self.retention)
    }
}
