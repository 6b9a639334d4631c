//! The options of a profile.

use std::sync::Arc;

use proptest::prelude::*;
use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryOptions,
    budget::{ClearResults, Importance, KeepFirst, TrimTurn, Watermark, Watermarks},
    store::Profile,
    tokens::{ByteEstimate, TokenCounter},
};
use tower_chat_history_openai::tokens::Tiktoken;

use super::call_spec::Integration;

/// A budget and the options that go with it.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) context: u32,
    pub(crate) reserve: u32,
    pub(crate) least: Option<u32>,
    pub(crate) calibrate: bool,
    watermarks: Watermarks,
    clear: Option<(usize, u64, bool)>,
    rule: Rule,
    /// True for a counter of bytes, false for the default counter of the integration.
    bytes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Newest,
    First,
    Important,
}

pub(crate) fn any_policy() -> impl Strategy<Value = Policy> {
    let context = prop_oneof![3 => 100u32..500, 3 => 500u32..3_000, 1 => 30_000u32..60_000];
    let budget = (context, 1u32..150, prop::option::of(1u32..40), any::<bool>());
    let watermarks = prop_oneof![
        4 => Just(Watermarks::default()),
        2 => (1u8..=100, 1u8..=100).prop_map(|(a, b)| Watermarks::new(Watermark::Percent(a.max(b)), Watermark::Percent(a.min(b))).unwrap()),
        1 => (1usize..12).prop_map(Watermarks::last_messages),
        1 => (1usize..6).prop_map(Watermarks::last_turns),
        1 => (1usize..12).prop_map(Watermarks::keep_recent),
    ];
    let clear = prop::option::of((0usize..4, 0u64..50, any::<bool>()));
    let rule = prop_oneof![4 => Just(Rule::Newest), 1 => Just(Rule::First), 1 => Just(Rule::Important)];
    (budget, watermarks, clear, rule, any::<bool>()).prop_map(
        |((context, reserve, least, calibrate), watermarks, clear, rule, bytes)| Policy {
            context,
            reserve,
            least,
            calibrate,
            watermarks,
            clear,
            rule,
            bytes,
        },
    )
}

impl Policy {
    pub(crate) fn options(&self, profile: &Profile) -> HistoryOptions {
        let budget = ContextBudget::tokens(self.context).reply_reserve(self.reserve).calibrate(self.calibrate);
        let budget = self.least.into_iter().fold(budget, ContextBudget::shrink_reply_to);
        let mut context = ContextOptions::new().profile(profile.clone()).budget(budget).watermarks(self.watermarks);
        if let Some((keep, at_least, exclude)) = self.clear {
            let clear = ClearResults::new().keep(keep).clear_at_least(at_least);
            context = context.clear_results(if exclude { clear.exclude_tools(["g"]) } else { clear });
        }
        if self.bytes {
            context = context.token_counter(ByteEstimate::new());
        }
        HistoryOptions::new().context(match self.rule {
            Rule::Newest => context,
            Rule::First => context.trimmer(KeepFirst::new(2)),
            Rule::Important => context.trimmer(Importance::new(|turn: &TrimTurn<'_>| (turn.tokens % 7) as f64)),
        })
    }

    /// Returns the token counter for an integration.
    pub(crate) fn counter(&self, integration: Integration) -> Arc<dyn TokenCounter> {
        match integration {
            Integration::Typed(_) | Integration::Client(_) if !self.bytes => Arc::new(Tiktoken::o200k()),
            _ => Arc::new(ByteEstimate::new()),
        }
    }
}
