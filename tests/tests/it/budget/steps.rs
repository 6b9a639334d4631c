//! The random steps of callers and the model in a conversation.

use proptest::{prelude::*, sample::Index};
use tower_chat_history::Message;

/// The caller's part of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// A question, which supersedes open calls.
    Ask,
    /// A question after a complete tool round of the caller, if the integration accepts that.
    AskWithRound,
    /// A question with a slow reply, if no calls are open.
    AskSlowly,
    /// The results of the open calls in reverse order, with or without a question after them.
    Answer { question: bool },
    /// Like `Answer`, with a slow reply.
    AnswerSlowly,
    /// Finishes the oldest slow reply.
    Finish,
}

/// The model's part of a step.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    Text(usize),
    Nothing,
    Refusal,
    Calls(Vec<&'static str>, usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) act: Act,
    pub(crate) say: Say,
    /// Selects one of the integrations of the conversation.
    pub(crate) integration: Index,
    pub(crate) profile: usize,
    /// The size of the head: none, small or large.
    pub(crate) head: usize,
    /// The size of each new text, in words.
    pub(crate) size: usize,
    pub(crate) limit: Option<(&'static str, u32)>,
    pub(crate) tools: bool,
    pub(crate) dont_store: bool,
    /// The position in the log from which the caller resends messages, if it does.
    pub(crate) from: Index,
    /// The provider's tokens, in percent of the counted ones.
    pub(crate) charged: Option<u64>,
}

/// Returns a text of `words` words. Each word is one token in every encoding, and two tokens by its bytes.
pub(crate) fn text(words: usize) -> String {
    " because".repeat(words)
}

pub(crate) fn calls(ids: &[&str], words: usize) -> Message {
    let arguments = text(words);
    let call = |(at, id): (usize, &&str)| {
        let name = if at == 1 { "g" } else { "f" };
        format!(r#"{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":"{arguments}"}}}}"#)
    };
    let calls: Vec<String> = ids.iter().enumerate().map(call).collect();
    Message::from_json(format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","))).unwrap()
}

impl Say {
    pub(crate) fn message(&self) -> Message {
        match self {
            Self::Text(words) => Message::assistant(text(*words)),
            Self::Nothing => Message::from_json(r#"{"role":"assistant","content":null}"#).unwrap(),
            Self::Refusal => Message::from_json(r#"{"role":"assistant","content":null,"refusal":"no"}"#).unwrap(),
            Self::Calls(ids, words) => calls(ids, *words),
        }
    }
}

fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![40 => 0usize..40, 4 => 40usize..600, 1 => Just(12_000)]
}

fn any_say() -> impl Strategy<Value = Say> {
    let ids = prop::sample::subsequence(vec!["x", "y", "z"], 1..=3).prop_shuffle();
    prop_oneof![
        6 => (1usize..60).prop_map(Say::Text),
        1 => Just(Say::Nothing),
        1 => Just(Say::Refusal),
        6 => (ids, 0usize..20).prop_map(|(ids, words)| Say::Calls(ids, words)),
    ]
}

pub(crate) fn any_step() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        6 => Just(Act::Ask),
        1 => Just(Act::AskWithRound),
        2 => Just(Act::AskSlowly),
        8 => any::<bool>().prop_map(|question| Act::Answer { question }),
        3 => Just(Act::AnswerSlowly),
        3 => Just(Act::Finish),
    ];
    let limit = prop::option::of((prop::sample::select(vec!["max_completion_tokens", "max_tokens"]), 1u32..150));
    let call = (limit, prop::bool::weighted(0.2), prop::bool::weighted(0.1), any::<Index>());
    let place = (any::<Index>(), 0usize..2, prop::sample::select(vec![5, 5, 5, 5, 0, 50]));
    let charged = prop::option::of(80u64..140);
    (act, any_say(), place, any_size(), call, charged).prop_map(|(act, say, place, size, call, charged)| {
        let ((integration, profile, head), (limit, tools, dont_store, from)) = (place, call);
        Step { act, say, integration, profile, head, size, limit, tools, dont_store, from, charged }
    })
}

/// A message of the log before the conversation: a greeting, and turns that are complete, incomplete or
/// repeated.
pub(crate) fn any_logged() -> impl Strategy<Value = Message> {
    prop_oneof![
        4 => (0usize..40).prop_map(|words| Message::user(text(words))),
        4 => (0usize..40).prop_map(|words| Message::assistant(text(words))),
        2 => prop::sample::subsequence(vec!["x", "y", "z"], 1..=3).prop_map(|ids| calls(&ids, 3)),
        4 => (prop::sample::select(vec!["x", "y", "z"]), 0usize..60).prop_map(|(id, words)| Message::tool(id, text(words))),
    ]
}
