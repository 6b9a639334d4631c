//! The configuration of an engine.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use proptest::prelude::*;
use tests::FullStore;
use tower_chat_history::{
    BoxError, ContextBudget, ContextOptions, Engine, HistoryOptions, Policies, Summaries,
    budget::{ClearResults, KeepFirst, Watermarks},
    policy::{OnConflict, QueueLimits},
    recall::{PrepareRequest, Recall, RecallError, RecallOptions, RecallRequest, Recollection},
    store::{Citation, LoadLimit, Origin, Recalled, Seq},
    summary::{SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};

/// The tokens that are reserved for a reply.
const RESERVE: u32 = 20;

/// The configuration of an engine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setup {
    /// The context window in tokens.
    window: u32,
    /// True if token counts are corrected by the usage that the provider reports.
    calibrates: bool,
    watermarks: Watermarks,
    /// The number of results that are not cleared.
    clear: Option<usize>,
    trims: bool,
    summarizes: Option<SummarizeWhen>,
    recalls: bool,
    /// The largest number of exchanges that are loaded.
    load: Option<usize>,
    on_conflict: OnConflict,
}

pub(crate) fn any_setup() -> impl Strategy<Value = Setup> {
    let window = prop_oneof![1 => Just(1_000_000), 4 => 150..2_500u32];
    let watermarks = prop_oneof![
        3 => Just(Watermarks::default()),
        1 => (2..9usize).prop_map(Watermarks::last_messages),
        1 => (1..5usize).prop_map(Watermarks::last_turns),
    ];
    let summarizes = prop_oneof![
        3 => Just(None),
        1 => (20..90u8).prop_map(|percent| Some(SummarizeWhen::AfterReply { percent })),
        1 => Just(Some(SummarizeWhen::BeforeCall)),
    ];
    let on_conflict = prop_oneof![
        4 => Just(OnConflict::Rebase),
        1 => Just(OnConflict::Reject),
        1 => Just(OnConflict::Serialize(QueueLimits::default())),
    ];
    let context =
        (window, watermarks, prop::option::weighted(0.3, 0..3usize), prop::bool::weighted(0.1), any::<bool>());
    (context, summarizes, prop::bool::weighted(0.3), prop::option::weighted(0.2, 4..20usize), on_conflict).prop_map(
        |((window, watermarks, clear, trims, calibrates), summarizes, recalls, load, on_conflict)| Setup {
            window,
            calibrates,
            watermarks,
            clear,
            trims,
            summarizes,
            recalls,
            load,
            on_conflict,
        },
    )
}

impl Setup {
    /// Returns `true` if prompts have everything that the cut keeps.
    pub(crate) fn is_complete(&self) -> bool {
        self.load.is_none() && !self.trims
    }

    /// Returns `true` if calls of one conversation wait for each other.
    pub(crate) const fn queues(&self) -> bool {
        matches!(self.on_conflict, OnConflict::Serialize(_))
    }

    pub(crate) fn engine(&self, store: Arc<dyn FullStore>, origin: Origin) -> Engine {
        let budget = ContextBudget::tokens(self.window).reply_reserve(RESERVE).calibrate(self.calibrates);
        let mut context = ContextOptions::new().budget(budget).watermarks(self.watermarks);
        if let Some(load) = self.load {
            context = context.load_limit(LoadLimit::new(load, 1 << 20).unwrap());
        }
        if let Some(keep) = self.clear {
            context = context.clear_results(ClearResults::new().keep(keep));
        }
        if self.trims {
            context = context.trimmer(KeepFirst::new(1));
        }
        let policies = Policies::new().on_conflict(self.on_conflict);
        let mut options = HistoryOptions::new().context(context).policies(policies).origin(origin);
        if let Some(when) = self.summarizes {
            let summaries = Summaries::new(Counts).max_tokens(20).least_room(1).chunk_tokens(200);
            options = options.summaries(summaries.when(when).timeout(Duration::from_secs(5)));
        }
        if self.recalls {
            options = options.recall(RecallOptions::new(First).percent(20));
        }
        Engine::with_options(store, options)
    }
}

/// Summarizes by counting.
#[derive(Debug)]
struct Counts;

#[async_trait]
impl Summarizer for Counts {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        Ok(SummaryResponse::new(format!("{} messages", request.messages.len())))
    }
}

/// Always recalls the first exchange.
#[derive(Debug)]
struct First;

#[async_trait]
impl Recall for First {
    async fn recall(&self, request: RecallRequest<'_>) -> Result<Recollection, RecallError> {
        if request.before == Seq::FIRST || request.allowance < 40 {
            return Ok(Recollection::nothing());
        }
        Ok(Recollection::shown(Recalled::new("earlier: and?", vec![Citation::new(Seq::FIRST, 0..1)])))
    }

    async fn prepare(&self, _: PrepareRequest<'_>) -> Result<bool, RecallError> {
        Ok(false)
    }
}
