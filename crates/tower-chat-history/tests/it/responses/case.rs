//! The cases: the configuration of an engine, and the steps of a conversation.

use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use tower_chat_history::{
    BoxError, ContextBudget, ContextOptions, HistoryOptions, Summaries,
    budget::{ClearResults, Watermarks},
    store::{LoadLimit, Origin},
    summary::{SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};
use tower_chat_history_test::responses::{CallType, Say};

/// A conversation.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) setup: Setup,
    pub(super) steps: Vec<Step>,
}

/// The configuration of an engine.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    window: u32,
    watermarks: Watermarks,
    clear: Option<usize>,
    summarizes: Option<u8>,
    load: Option<usize>,
}

/// Something that happens to a conversation.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A question, and a response. A question while calls are open abandons them.
    Ask(Vec<Say>),
    /// The outputs of all open calls, with or without a question, and a response.
    Answer(Vec<Say>, bool),
    /// Two calls at the same time with the outputs of all open calls. Their responses are stored in this order.
    AnswerTwice(Vec<Say>, Vec<Say>),
    /// The outputs of all open calls, and a response of which only the text before the first call arrives, and at most
    /// this number of items. The outputs can be sent again.
    AnswerInterrupted(Vec<Say>, usize),
    /// A question, and a response of which only this number of items arrives.
    Interrupted(Vec<Say>, usize),
    /// Another account, or another route.
    Origin(u8),
    /// Another process summarizes everything before the last turn.
    Summarize,
    /// The log loses its last exchanges.
    Truncate(u64),
    /// Background work ends.
    Wait,
}

pub(super) fn any_case() -> impl Strategy<Value = Case> {
    let window = prop_oneof![1 => Just(1_000_000), 4 => 250..2_500u32];
    let watermarks = prop_oneof![
        2 => Just(Watermarks::default()),
        2 => (1..10usize).prop_map(Watermarks::last_messages),
        1 => (1..4usize).prop_map(Watermarks::last_turns),
    ];
    let setup = (
        window,
        watermarks,
        prop::option::weighted(0.3, 0..3usize),
        prop::option::weighted(0.3, 20..90u8),
        prop::option::weighted(0.2, 4..20usize),
    );
    let setup = setup.prop_map(|(window, watermarks, clear, summarizes, load)| Setup {
        window,
        watermarks,
        clear,
        summarizes,
        load,
    });
    (setup, prop::collection::vec(any_step(), 1..30)).prop_map(|(setup, steps)| Case { setup, steps })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_script().prop_map(Step::Ask),
        12 => (any_script(), any::<bool>()).prop_map(|(script, asks)| Step::Answer(script, asks)),
        3 => (any_script(), any_script()).prop_map(|(first, second)| Step::AnswerTwice(first, second)),
        3 => (any_script(), 1..6usize).prop_map(|(script, items)| Step::AnswerInterrupted(script, items)),
        1 => (any_script(), 0..6usize).prop_map(|(script, items)| Step::Interrupted(script, items)),
        1 => (0..4u8).prop_map(Step::Origin),
        1 => Just(Step::Summarize),
        1 => (1..4u64).prop_map(Step::Truncate),
        1 => Just(Step::Wait),
    ]
}

fn any_script() -> impl Strategy<Value = Vec<Say>> {
    // Two kinds of calls in most cases, with the same ids.
    let kind = prop_oneof![
        3 => Just(CallType::Function),
        3 => Just(CallType::Custom),
        2 => prop::sample::select(&CallType::ALL[..]),
    ];
    let call = (kind, prop::sample::select(vec!["x", "y"])).prop_map(|(kind, id)| Say::Call {
        kind,
        id: id.into(),
        name: "look".into(),
        arguments: "{}".into(),
    });
    let phase = prop::sample::select(vec![None, Some("commentary"), Some("final_answer")]);
    let output = prop_oneof![
        6 => prop::collection::vec("[a-z ]{0,40}", 0..2).prop_map(Say::Reasoning),
        4 => ("[a-z ]{0,40}", phase).prop_map(|(text, phase)| Say::Message { text, phase }),
        8 => call,
        1 => Just(Say::Refusal("No.".into())),
        1 => Just(Say::WebSearch),
        1 => Just(Say::Compaction),
        1 => Just(Say::Unknown),
    ];
    // A complete response does not end with reasoning.
    (prop::collection::vec(output, 0..5), any::<bool>()).prop_map(|(mut outputs, asks)| {
        outputs.push(if asks { Say::call("z", "look", "{}") } else { Say::text("so") });
        outputs
    })
}

impl Setup {
    pub(super) fn options(&self) -> HistoryOptions {
        let budget = ContextBudget::tokens(self.window).reply_reserve(20).calibrate(false);
        let mut context = ContextOptions::new().budget(budget).watermarks(self.watermarks);
        if let Some(load) = self.load {
            context = context.load_limit(LoadLimit::new(load, 1 << 20).unwrap());
        }
        if let Some(keep) = self.clear {
            context = context.clear_results(ClearResults::new().keep(keep));
        }
        let mut options = HistoryOptions::new().context(context).origin(origin(0));
        if let Some(percent) = self.summarizes {
            let summaries = Summaries::new(Counts).max_tokens(20).least_room(1).chunk_tokens(200);
            let when = SummarizeWhen::AfterReply { percent };
            options = options.summaries(summaries.when(when).timeout(Duration::from_secs(5)));
        }
        options
    }
}

/// Returns one of four origins: two accounts of one provider, another route, another provider.
pub(super) fn origin(number: u8) -> Origin {
    let one = Origin::unknown().provider("one").route("eu").account("a");
    match number {
        0 => one,
        1 => one.account("b"),
        2 => one.route("us"),
        _ => one.provider("two"),
    }
}

/// Summarizes by counting.
#[derive(Debug)]
pub(super) struct Counts;

#[async_trait]
impl Summarizer for Counts {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        Ok(SummaryResponse::new(format!("{} messages", request.messages.len())))
    }
}
