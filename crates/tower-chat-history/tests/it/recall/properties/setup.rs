//! Random options and steps of a conversation.

use std::time::Duration;

use proptest::prelude::*;
use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryOptions,
    budget::Watermarks,
    recall::{RecallError, RecallOptions},
    store::{Citation, LoadLimit, Recalled, Seq},
    summary::{Summaries, SummarizeWhen},
};

use super::super::support::{Answer, ScriptedRecall};
use crate::summaries::support::Facts;

/// The options of both engines.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) context: u32,
    pub(super) reply: u32,
    pub(super) least_reply: Option<u32>,
    pub(super) watermarks: Watermarks,
    pub(super) load_messages: usize,
    pub(super) percent: u8,
    pub(super) summaries: Option<SummarizeWhen>,
    pub(super) found: Vec<Found>,
}

/// The answer to a search.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    Nothing,
    /// Messages of this share of the allowance, in percent, which cite the exchange at this share of the log.
    Shows(u64, u64),
    /// Messages that cite the window.
    Window,
    Fails,
    TimesOut,
    Unprepared,
}

/// A step of the conversation.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Turn(Turn),
    /// Both engines begin a turn before either of them stores its exchange. The sizes are those of the questions.
    Together(usize, usize),
}

/// A turn of one or more calls.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) question: usize,
    pub(super) answer: usize,
    /// For each round, the number of calls and the size of each result.
    pub(super) rounds: Vec<(usize, usize)>,
    pub(super) end: End,
    /// The engine of each call, as bits.
    pub(super) engines: u8,
}

/// The end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Answered,
    /// The last reply breaks off, and the call is repeated.
    BrokenOff,
    /// The last model call fails.
    Failed,
    /// The last call is not stored.
    NotStored,
}

pub(super) fn any_setup() -> impl Strategy<Value = Setup> {
    let marks = prop_oneof![
        4 => Just(Watermarks::default()),
        1 => (1usize..12).prop_map(Watermarks::keep_recent),
        1 => (1usize..6).prop_map(Watermarks::last_turns),
    ];
    let when = prop_oneof![
        (50u8..=100).prop_map(|percent| SummarizeWhen::AfterReply { percent }),
        Just(SummarizeWhen::BeforeCall),
        Just(SummarizeWhen::BeforeEveryCall),
    ];
    let found = prop_oneof![
        1 => Just(Found::Nothing),
        6 => (1u64..=100, 0u64..=100).prop_map(|(share, at)| Found::Shows(share, at)),
        1 => Just(Found::Shows(150, 0)),
        1 => prop::sample::select(vec![Found::Window, Found::Fails, Found::TimesOut, Found::Unprepared]),
    ];
    (
        (300u32..1_500, 0u32..60, prop::option::of(1u32..40)),
        marks,
        prop_oneof![4 => Just(10_000usize), 1 => 6usize..40],
        10u8..60,
        prop::option::weighted(0.3, when),
        prop::collection::vec(found, 1..8),
    )
        .prop_map(|((context, reply, least_reply), watermarks, load_messages, percent, summaries, found)| Setup {
            context,
            reply,
            least_reply,
            watermarks,
            load_messages,
            percent,
            summaries,
            found,
        })
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![5 => Just(End::Answered), 1 => Just(End::BrokenOff), 1 => Just(End::Failed), 1 => Just(End::NotStored)];
    let rounds = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec((1usize..3, 0usize..120), 1..4)];
    // A few questions take most of the prompt.
    let question = || prop_oneof![8 => 0usize..60, 1 => 60usize..900];
    let turn = (question(), 1usize..60, rounds, end, any::<u8>())
        .prop_map(|(question, answer, rounds, end, engines)| Turn { question, answer, rounds, end, engines });
    prop_oneof![8 => turn.prop_map(Step::Turn), 1 => (question(), question()).prop_map(|(a, b)| Step::Together(a, b))]
}

impl Setup {
    /// Returns the search. Its texts differ.
    pub(super) fn recall(&self) -> ScriptedRecall {
        let found = self.found.clone();
        ScriptedRecall::new(move |number, search| match found[number % found.len()] {
            Found::Nothing => Answer::Nothing,
            Found::Shows(share, at) => {
                // A message has 4 tokens in addition to its text.
                let bytes = usize::try_from(search.allowance * share / 100 * 4).unwrap().saturating_sub(16);
                let text = format!("recalled {number} {}", "r".repeat(bytes));
                let text = &text[..bytes.max(14).min(text.len())];
                let cited = Seq::new((search.before.get() - 1) * at / 100);
                Answer::Shows(Recalled::new(text, vec![Citation::new(cited, 0..1)]))
            }
            Found::Window => Answer::Shows(Recalled::new("recalled", vec![Citation::new(search.before, 0..1)])),
            Found::Fails => Answer::Fails(RecallError::search("broken")),
            Found::TimesOut => Answer::Late(Duration::from_secs(10)),
            Found::Unprepared => Answer::Unprepared(100),
        })
    }

    pub(super) fn options(&self, recall: &ScriptedRecall) -> HistoryOptions {
        let mut budget = ContextBudget::tokens(self.context).reply_reserve(self.reply).calibrate(false);
        if let Some(least) = self.least_reply {
            budget = budget.shrink_reply_to(least);
        }
        let limit = LoadLimit::new(self.load_messages, 1 << 20).unwrap();
        let context = ContextOptions::new().budget(budget).watermarks(self.watermarks).load_limit(limit);
        let recall = RecallOptions::new(recall.clone()).percent(self.percent);
        let options = HistoryOptions::new().context(context).recall(recall);
        match self.summaries {
            Some(when) => {
                let summaries = Summaries::new(Facts::new()).when(when).max_tokens(60).least_room(20);
                options.summaries(summaries.chunk_tokens(200))
            }
            None => options,
        }
    }
}
