//! The cases: the configuration of the engines, and the steps of a conversation.

use proptest::prelude::*;
use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryOptions, Policies, budget::ClearResults, policy::OnOtherDialect,
    store::Origin,
};
use tower_chat_history_core::LoadLimit;

/// A conversation.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) setup: Setup,
    pub(super) steps: Vec<Step>,
}

/// The configuration of all engines.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    window: Option<u32>,
    clear: Option<usize>,
    load: Option<usize>,
    /// True if the provider of chat completions is DeepSeek, and not OpenAI.
    pub(super) deepseek: bool,
    /// True if requests in the format of Anthropic enable thinking with a budget.
    pub(super) thinks: bool,
}

/// The API of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Messages,
    Responses,
}

impl Api {
    pub(super) const ALL: [Self; 3] = [Self::Chat, Self::Messages, Self::Responses];
}

/// Something that happens to a conversation.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A question, and a reply. A question while calls are open abandons them.
    Ask(Api, Question, Vec<Said>),
    /// The results of all open calls, with or without a question, and a reply.
    Answer(Results, bool, Vec<Said>),
    /// The results of this number of open calls, one by one, without a model call.
    Store(usize),
    /// The results of the open calls in another dialect, which is refused.
    AnswerInOther(Api),
    /// A question, and a reply of which only this number of elements arrives.
    Interrupted(Api, Vec<Said>, usize),
    /// Another process summarizes everything before the last turn.
    Summarize,
    /// The log loses its last exchanges.
    Truncate(u64),
}

/// The form of a question.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Text,
    WithImage,
    WithFile,
    WithInstruction,
}

/// The form of results.
#[derive(Clone, Copy, Debug)]
pub(super) enum Results {
    Text,
    WithImage,
    Empty,
}

/// A part of a reply.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Thinking,
    Text,
    /// A call of a kind, with this id.
    Call(usize, &'static str),
    Search,
    Compaction,
    Refusal,
}

impl Setup {
    /// Returns `true` if nothing is ever left out of prompts.
    pub(super) fn sends_everything(&self) -> bool {
        self.window.is_none() && self.clear.is_none() && self.load.is_none()
    }

    pub(super) fn options(&self, api: Api) -> HistoryOptions {
        let budget = ContextBudget::tokens(self.window.unwrap_or(1_000_000)).reply_reserve(20).calibrate(false);
        let mut context = ContextOptions::new().budget(budget);
        if let Some(load) = self.load {
            context = context.load_limit(LoadLimit::new(load, 1 << 20).unwrap());
        }
        if let Some(keep) = self.clear {
            context = context.clear_results(ClearResults::new().keep(keep));
        }
        let provider = match api {
            Api::Chat if self.deepseek => "deepseek",
            Api::Chat | Api::Responses => "openai",
            Api::Messages => "anthropic",
        };
        let policies = Policies::new().on_other_dialect(OnOtherDialect::Translate);
        HistoryOptions::new().context(context).policies(policies).origin(Origin::unknown().provider(provider))
    }
}

pub(super) fn any_case() -> impl Strategy<Value = Case> {
    let setup = (
        prop::option::weighted(0.4, 300..3_000u32),
        prop::option::weighted(0.2, 0..3usize),
        prop::option::weighted(0.2, 4..20usize),
        any::<bool>(),
        any::<bool>(),
    );
    let setup = setup.prop_map(|(window, clear, load, deepseek, thinks)| {
        let is_small = window.is_some();
        // Half of the cases send everything, so that prompts can be compared.
        Setup { window, clear: clear.filter(|_| is_small), load: load.filter(|_| is_small), deepseek, thinks }
    });
    (setup, prop::collection::vec(any_step(), 1..20)).prop_map(|(setup, steps)| Case { setup, steps })
}

fn any_api() -> impl Strategy<Value = Api> {
    prop::sample::select(&Api::ALL[..])
}

fn any_step() -> impl Strategy<Value = Step> {
    let question = prop_oneof![
        4 => Just(Question::Text),
        1 => Just(Question::WithImage),
        1 => Just(Question::WithFile),
        1 => Just(Question::WithInstruction),
    ];
    let results = prop_oneof![3 => Just(Results::Text), 1 => Just(Results::WithImage), 1 => Just(Results::Empty)];
    prop_oneof![
        6 => (any_api(), question, any_script()).prop_map(|(api, question, script)| Step::Ask(api, question, script)),
        9 => (results, any::<bool>(), any_script()).prop_map(|(form, asks, script)| Step::Answer(form, asks, script)),
        4 => (1..4usize).prop_map(Step::Store),
        1 => any_api().prop_map(Step::AnswerInOther),
        1 => (any_api(), any_script(), 0..4usize).prop_map(|(api, script, many)| Step::Interrupted(api, script, many)),
        1 => Just(Step::Summarize),
        1 => (1..4u64).prop_map(Step::Truncate),
    ]
}

fn any_script() -> impl Strategy<Value = Vec<Said>> {
    let call = || (0..16usize, prop::sample::select(vec!["x", "x", "x", "y", "functions.look:0"]));
    let said = prop_oneof![
        4 => Just(Said::Thinking),
        4 => Just(Said::Text),
        6 => call().prop_map(|(kind, id)| Said::Call(kind, id)),
        1 => Just(Said::Search),
        1 => Just(Said::Compaction),
        1 => Just(Said::Refusal),
    ];
    // A complete reply does not end with thinking.
    (prop::collection::vec(said, 0..5), prop::option::of(call())).prop_map(|(mut script, last)| {
        script.push(last.map_or(Said::Text, |(kind, id)| Said::Call(kind, id)));
        script
    })
}
