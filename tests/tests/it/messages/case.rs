//! The cases: a setup for each of two engines, and the steps of a conversation.

use proptest::prelude::*;

use crate::signing::setup::{Setup, any_setup};

/// A conversation, and the engines that hold it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) setups: [Setup; 2],
    pub(super) steps: Vec<(usize, Step)>,
}

/// Something that happens to a conversation. The first engine or the second one does it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A question in this form, and a reply. A question while calls are open abandons them.
    Ask(Question, Script),
    /// The results of all open calls, in this form, and a reply.
    Answer(Results, Script),
    /// The results of all open calls are stored without a call of the model.
    StoreResults,
    /// A call without input, after results were stored, or after the provider paused.
    Continue(Script),
    /// A question, or the results of all open calls, that is sent now. Its reply arrives with a later [`Step::Arrive`].
    Slow(Script, bool),
    /// The reply of the slow call arrives.
    Arrive,
    /// A turn opens, another process summarizes the log before it, and the turn continues.
    CompactWhileOpen(bool),
    /// Background work of both engines ends.
    Wait,
    /// The log loses its last exchanges.
    Truncate(u64),
    /// The log loses its first exchanges.
    Prune(usize),
    /// The conversation continues in a copy.
    Fork,
    /// Messages are imported, with everything that the API refuses.
    Import,
    /// The caller changes its instructions.
    Head(u8),
    /// Another provider, another account, or another route.
    Origin(u8),
}

/// The form of a question.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Text,
    Blocks,
    /// Two messages of the user.
    Two,
    /// A mark for the cache, which callers move.
    Marked,
    /// A system message follows.
    WithSystem,
}

/// The form of results.
#[derive(Clone, Copy, Debug)]
pub(super) enum Results {
    /// All in one message.
    Together,
    /// A text follows in the same message.
    WithText,
    /// One message for each.
    Apart,
    /// A failed result without content, and an empty text.
    Empty,
}

/// A block of a reply.
#[derive(Clone, Debug)]
pub(super) enum Block {
    Thinking,
    Redacted,
    Text(&'static str),
    Calls(u8),
    Search,
    /// A call of the provider whose result comes with a later reply.
    OpenSearch,
    Unknown,
}

/// A reply.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) blocks: Vec<Block>,
    /// True if a compaction is the first block.
    pub(super) compacts: bool,
    /// The number of blocks that arrive before the reply breaks off, if it does.
    pub(super) interrupted: Option<usize>,
    /// True if the reply begins with the results of the provider's calls that wait for one.
    pub(super) finds: bool,
    /// True if the provider pauses after the reply.
    pub(super) pauses: bool,
}

impl Script {
    pub(super) fn of(blocks: impl IntoIterator<Item = Block>) -> Self {
        Self { blocks: blocks.into_iter().collect(), compacts: false, interrupted: None, finds: true, pauses: false }
    }
}

pub(super) fn any_case() -> impl Strategy<Value = Case> {
    let setups = prop_oneof![
        3 => any_setup().prop_map(|setup| [setup.clone(), setup]),
        1 => [any_setup(), any_setup()],
    ];
    (setups, prop::collection::vec((0..2usize, any_step()), 1..40)).prop_map(|(setups, steps)| Case { setups, steps })
}

fn any_step() -> impl Strategy<Value = Step> {
    use Question::{Blocks, Marked, Text, Two, WithSystem};
    let question = prop::sample::select(vec![Text, Text, Blocks, Two, Marked, WithSystem]);
    let results = prop::sample::select(vec![Results::Together, Results::WithText, Results::Apart, Results::Empty]);
    prop_oneof![
        16 => (question, any_script()).prop_map(|(question, script)| Step::Ask(question, script)),
        32 => (results, any_script()).prop_map(|(results, script)| Step::Answer(results, script)),
        3 => Just(Step::StoreResults),
        10 => any_script().prop_map(Step::Continue),
        4 => (any_script(), any::<bool>()).prop_map(|(script, answers)| Step::Slow(script, answers)),
        3 => Just(Step::Arrive),
        3 => any::<bool>().prop_map(Step::CompactWhileOpen),
        2 => Just(Step::Wait),
        2 => (1..4u64).prop_map(Step::Truncate),
        1 => (1..6usize).prop_map(Step::Prune),
        1 => Just(Step::Fork),
        1 => Just(Step::Import),
        2 => (0..3u8).prop_map(Step::Head),
        2 => (0..4u8).prop_map(Step::Origin),
    ]
}

fn any_script() -> impl Strategy<Value = Script> {
    let block = prop_oneof![
        6 => Just(Block::Thinking),
        1 => Just(Block::Redacted),
        3 => prop::sample::select(vec!["so", "so", "so", "", "\n\n"]).prop_map(Block::Text),
        6 => (1..4u8).prop_map(Block::Calls),
        1 => Just(Block::Search),
        2 => Just(Block::OpenSearch),
        1 => Just(Block::Unknown),
    ];
    let blocks = prop::collection::vec(block, 1..5);
    let interrupted = prop::option::weighted(0.06, 0..6usize);
    (blocks, prop::bool::weighted(0.03), interrupted, prop::bool::weighted(0.8), prop::bool::weighted(0.2)).prop_map(
        |(blocks, compacts, interrupted, finds, pauses)| Script { blocks, compacts, interrupted, finds, pauses },
    )
}
