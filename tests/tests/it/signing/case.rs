//! The cases: a setup for each of two engines, and the steps of a conversation.

use proptest::prelude::*;
use test_providers::signing::Say;
use tower_chat_history_core::Space;

use super::setup::{Setup, any_setup};

/// A conversation, and the engines that hold it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) setups: [Setup; 2],
    pub(super) steps: Vec<(usize, Step)>,
}

/// Something that happens to a conversation. The first engine or the second one does it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A question, and a reply of these elements. A question while calls are open abandons them.
    Ask(Script),
    /// The results of all open calls, with or without a text, and a reply.
    Answer(Script, bool),
    /// The results of all open calls are stored without a call of the model.
    StoreResults,
    /// A call without input, after results were stored.
    Continue(Script),
    /// A question whose long text is not stored.
    StoreInstead(Script),
    /// A question, or the results of all open calls, that is sent now. Its reply arrives with a later [`Step::Arrive`].
    Slow(Script, bool),
    /// The reply of the slow call arrives.
    Arrive,
    /// A question whose caller leaves.
    Leave,
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
    /// The conversation is deleted.
    Delete,
    /// Messages are imported, with reasoning that nobody signed.
    Import,
    /// The caller changes its instructions.
    Head(u8),
    /// Another provider, or another route of it.
    Origin(u8),
}

/// A reply.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) says: Vec<Say>,
    /// True if the reply breaks off.
    pub(super) interrupted: bool,
}

impl Script {
    pub(super) fn of(says: impl IntoIterator<Item = Say>) -> Self {
        Self { says: says.into_iter().collect(), interrupted: false }
    }

    /// Returns `true` if the reply can be sent again as it was made: it is complete, and no element says nothing.
    pub(super) fn can_be_repeated(&self) -> bool {
        !self.interrupted && !self.says.contains(&Say::Text(String::new()))
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
    prop_oneof![
        16 => any_script().prop_map(Step::Ask),
        32 => (any_script(), any::<bool>()).prop_map(|(script, says)| Step::Answer(script, says)),
        3 => Just(Step::StoreResults),
        4 => any_script().prop_map(Step::Continue),
        2 => any_script().prop_map(Step::StoreInstead),
        4 => (any_script(), any::<bool>()).prop_map(|(script, answers)| Step::Slow(script, answers)),
        3 => Just(Step::Arrive),
        1 => Just(Step::Leave),
        3 => any::<bool>().prop_map(Step::CompactWhileOpen),
        2 => Just(Step::Wait),
        2 => (1..4u64).prop_map(Step::Truncate),
        1 => (1..6usize).prop_map(Step::Prune),
        1 => Just(Step::Fork),
        1 => Just(Step::Delete),
        1 => Just(Step::Import),
        2 => (0..3u8).prop_map(Step::Head),
        2 => (0..4u8).prop_map(Step::Origin),
    ]
}

fn any_script() -> impl Strategy<Value = Script> {
    let says = prop_oneof![
        2 => Just(vec![Say::Text("so".into())]),
        6 => "[a-z]{1,30}".prop_map(|thought| vec![Say::Thought(thought)]),
        2 => Just(vec![Say::ThoughtAndText("hm".into(), "so".into())]),
        6 => (1..4u8).prop_map(calls),
        2 => Just(vec![Say::Plan("first".into())]),
        2 => Just(vec![Say::Sealed("x".into())]),
        1 => Just(vec![Say::Unknown]),
        1 => Just(vec![Say::Text(String::new())]),
    ];
    (prop::collection::vec(says, 1..5), prop::bool::weighted(0.06))
        .prop_map(|(says, interrupted)| Script { says: says.concat(), interrupted })
}

/// Returns parallel calls. The same ids are used in both spaces.
pub(super) fn calls(many: u8) -> Vec<Say> {
    (0..many).map(|n| Say::Call { space: Space(n % 2), id: format!("c{}", n / 2) }).collect()
}
