//! Random options and steps of a conversation.

use proptest::prelude::*;
use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryOptions, Policies,
    budget::{ClearResults, Watermarks},
    policy::OnOtherDialect,
    recall::RecallOptions,
    store::{Citation, LoadLimit, Recalled, Seq},
    summary::{Summaries, SummarizeWhen},
};

use super::api::{Api, Says};
use crate::{
    recall::support::{Answer, ScriptedRecall},
    summaries::support::Facts,
};

/// A conversation.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) setup: Setup,
    pub(super) steps: Vec<Step>,
}

/// The options of the engine and of its requests.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    context: Option<u32>,
    watermarks: Watermarks,
    clear: Option<usize>,
    load_messages: usize,
    summaries: Option<SummarizeWhen>,
    recalls: bool,
    /// True if requests in the format of Anthropic have a budget for thinking.
    pub(super) thinks: bool,
    pub(super) may_drop_reasoning: bool,
}

/// Something that happens to a conversation.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A question of this size, and a reply. A question while calls are open abandons them.
    Ask(Api, usize, Says),
    /// The results of all open calls, each of this size, with or without a question, and a reply.
    Answer(usize, bool, Says),
    /// The result of one open call, without a call of the model.
    StoreResult,
    /// A question whose reply breaks off.
    BreaksOff(Api),
    /// Results whose reply breaks off, and the same results again.
    Repeat(usize),
    /// Results that are planned before a question is stored, and stored after it.
    Overtaken(usize),
    /// Two questions, each planned before the other one is stored.
    Together(Api, Says),
    /// A question whose reply pauses. It is continued without input, or not at all.
    Pause(bool),
    /// A question that the provider refuses until encrypted elements are left out.
    Refused(Api),
    /// A question of which another text is stored.
    StoreInstead(Api),
    /// Other instructions.
    Head(u8),
    /// The log loses its last exchanges.
    Truncate(u64),
    /// The log keeps its newest turns. If true, everything that was made from the others is erased, too.
    Prune(usize, bool),
    /// The conversation continues in a copy, which lacks this number of exchanges.
    Fork(u64),
}

impl Setup {
    pub(super) fn options(&self) -> HistoryOptions {
        let budget = match self.context {
            Some(tokens) => ContextBudget::tokens(tokens).reply_reserve(20).calibrate(false),
            None => ContextBudget::unlimited(),
        };
        let limit = LoadLimit::new(self.load_messages, 1 << 20).unwrap();
        let mut context = ContextOptions::new().budget(budget).watermarks(self.watermarks).load_limit(limit);
        if let Some(keep) = self.clear {
            context = context.clear_results(ClearResults::new().keep(keep));
        }
        let policies = Policies::new().on_other_dialect(OnOtherDialect::Translate);
        let mut options = HistoryOptions::new().context(context).policies(policies);
        if let Some(when) = self.summaries {
            let summaries = Summaries::new(Facts::new()).when(when).max_tokens(60).least_room(20);
            options = options.summaries(summaries.chunk_tokens(200));
        }
        if self.recalls {
            options = options.recall(RecallOptions::new(recall()).percent(20));
        }
        options
    }
}

/// Returns a search that shows something in two of three calls.
fn recall() -> ScriptedRecall {
    ScriptedRecall::new(|number, search| {
        if number % 3 == 0 || search.before == Seq::FIRST {
            return Answer::Nothing;
        }
        let cited = Seq::new(search.before.get() - 1);
        Answer::Shows(Recalled::new(format!("recalled {number}"), vec![Citation::new(cited, 0..1)]))
    })
}

pub(super) fn any_case() -> impl Strategy<Value = Case> {
    let marks = prop_oneof![
        3 => Just(Watermarks::default()),
        1 => (4usize..16).prop_map(Watermarks::keep_recent),
        1 => (1usize..6).prop_map(Watermarks::last_turns),
    ];
    let when = prop_oneof![
        (30u8..=90).prop_map(|percent| SummarizeWhen::AfterReply { percent }),
        Just(SummarizeWhen::BeforeCall),
        Just(SummarizeWhen::BeforeEveryCall),
    ];
    let setup = (
        prop::option::weighted(0.8, 250u32..1_200),
        marks,
        prop::option::weighted(0.4, 0usize..3),
        prop_oneof![4 => Just(1_000usize), 1 => 6usize..30],
        prop::option::weighted(0.5, when),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    let setup = setup.prop_map(|setup| {
        let (context, watermarks, clear, load_messages, summaries, recalls, thinks, may_drop_reasoning) = setup;
        let summaries = summaries.filter(|_| context.is_some());
        Setup { context, watermarks, clear, load_messages, summaries, recalls, thinks, may_drop_reasoning }
    });
    // Most conversations are held with one API.
    let apis = prop_oneof![
        3 => prop::sample::select(&Api::ALL[..]).prop_map(|api| vec![api]),
        1 => Just(Api::ALL.to_vec()),
    ];
    (setup, apis).prop_flat_map(|(setup, apis)| {
        let steps = prop::collection::vec(any_step(apis), 1..30);
        steps.prop_map(move |steps| Case { setup: setup.clone(), steps })
    })
}

fn any_step(apis: Vec<Api>) -> impl Strategy<Value = Step> {
    let api = move || prop::sample::select(apis.clone());
    let says = || {
        prop_oneof![
            3 => (0usize..80).prop_map(Says::Text),
            1 => Just(Says::ReasonedText),
            3 => (1usize..4).prop_map(Says::Calls),
            2 => (1usize..3).prop_map(Says::ReasonedCalls),
            1 => Just(Says::Compaction),
            1 => Just(Says::Nothing),
        ]
    };
    let size = || prop_oneof![3 => 0usize..120, 1 => 200usize..600];
    prop_oneof![
        8 => (api(), size(), says()).prop_map(|(api, size, says)| Step::Ask(api, size, says)),
        10 => (size(), prop::bool::weighted(0.2), says()).prop_map(|(size, asks, says)| Step::Answer(size, asks, says)),
        2 => Just(Step::StoreResult),
        1 => api().prop_map(Step::BreaksOff),
        2 => (0usize..80).prop_map(Step::Repeat),
        1 => size().prop_map(Step::Overtaken),
        1 => (api(), says()).prop_map(|(api, says)| Step::Together(api, says)),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => api().prop_map(Step::Refused),
        1 => api().prop_map(Step::StoreInstead),
        1 => (0u8..3).prop_map(Step::Head),
        1 => (1u64..4).prop_map(Step::Truncate),
        1 => (1usize..5, prop::bool::weighted(0.3)).prop_map(|(turns, erases)| Step::Prune(turns, erases)),
        1 => (0u64..4).prop_map(Step::Fork),
    ]
}
