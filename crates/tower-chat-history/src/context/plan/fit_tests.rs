//! Properties of every window that was made to fit.

use proptest::prelude::*;
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{Cut, Cuts, Incarnation, LoadLimit, Message, Recorded, Revision, Seq, Window};

use super::{
    CallBudget, FitBudget, FitError, LoadedWindow, Plan, PlanInput,
    tests::{plan_input, plan_whole as plan},
};
use crate::context::{
    budget::{
        CallLimits, ClearResults, ContextBudget, Importance, KeepFirst, PromptTokens, TrimTurn, Trimmer, Watermark,
        Watermarks,
    },
    request::RequestInfo,
    tokens::{ByteEstimate, TokenCounter},
    view::tests::{any_message, breaks_the_rules, calls},
};

/// The cost of a message: by its bytes, or arbitrary, so that a longer text may cost less.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cost {
    Bytes,
    Any,
}

impl Cost {
    fn of(self, message: &Message) -> u64 {
        match self {
            Self::Bytes => ByteEstimate::new().count_message(message).into(),
            Self::Any => 1 + message.bytes() as u64 * 7 % 31,
        }
    }

    fn total(self, messages: &[Message]) -> u64 {
        messages.iter().map(|message| self.of(message)).sum()
    }
}

pub(super) fn text(tokens: usize) -> String {
    "1234".repeat(tokens)
}

/// A turn of a question, rounds of parallel calls, and an answer.
fn turn(question: usize, rounds: &[(usize, usize)], answer: usize) -> Vec<Message> {
    let mut messages = vec![Message::user(text(question))];
    for (parallel, result) in rounds {
        let ids: Vec<&str> = ["x", "y", "z"].into_iter().take(*parallel).collect();
        messages.push(calls(&ids));
        messages.extend(ids.iter().map(|id| Message::tool(id, text(*result))));
    }
    messages.push(Message::assistant(text(answer)));
    messages
}

pub(super) fn any_turn() -> impl Strategy<Value = Vec<Message>> {
    let sound = (0usize..40, prop::collection::vec((1usize..4, 0usize..60), 0..4), 1usize..40);
    prop_oneof![
        6 => sound.prop_map(|(question, rounds, answer)| turn(question, &rounds, answer)),
        1 => prop::collection::vec(any_message(), 1..6),
    ]
}

/// A log that ends after a turn or within one, and an input for it.
fn any_log() -> impl Strategy<Value = (Vec<Message>, Vec<Message>)> {
    (prop::collection::vec(any_turn(), 0..8), any::<bool>(), 0usize..80).prop_map(|(turns, within, input)| {
        let mut log = turns.concat();
        if !within {
            return (log, vec![Message::user(text(input))]);
        }
        log.extend([Message::user("1234"), calls(&["x", "y"])]);
        let results = vec![Message::tool("x", text(input)), Message::tool("y", "r")];
        (log, results)
    })
}

fn any_marks() -> impl Strategy<Value = Watermarks> {
    prop_oneof![
        4 => Just(Watermarks::default()),
        1 => (1u8..=100, 1u8..=100).prop_map(|(a, b)| Watermarks::new(Watermark::Percent(a.max(b)), Watermark::Percent(a.min(b))).unwrap()),
        1 => (0usize..12).prop_map(Watermarks::last_messages),
        1 => (0usize..6).prop_map(Watermarks::last_turns),
        1 => (0usize..12).prop_map(Watermarks::keep_recent),
    ]
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Newest,
    First,
    Important,
}

#[derive(Clone, Debug)]
pub(super) struct Policy {
    limits: CallLimits,
    watermarks: Watermarks,
    clear: Option<ClearResults>,
    rule: Rule,
    head: u64,
    cost: Cost,
}

pub(super) fn any_policy() -> impl Strategy<Value = Policy> {
    let clear = prop::option::of(
        (0usize..4, 0u64..50).prop_map(|(keep, least)| ClearResults::new().keep(keep).clear_at_least(least)),
    );
    let rule = prop_oneof![4 => Just(Rule::Newest), 1 => Just(Rule::First), 1 => Just(Rule::Important)];
    let cost = prop_oneof![3 => Just(Cost::Bytes), 1 => Just(Cost::Any)];
    let budget = (10u32..800, 0u32..100, prop::option::of(0u32..50), prop_oneof![Just(1.0), 1.0..1.5]);
    (budget, any_marks(), clear, rule, 0u64..100, cost).prop_map(
        |((context, reserve, least, ratio), watermarks, clear, rule, head, cost)| {
            let budget = ContextBudget::tokens(context);
            let budget = least.into_iter().fold(budget, ContextBudget::shrink_reply_to);
            let limits = CallLimits { ratio, ..budget.limits(&request(reserve)).unwrap() };
            Policy { limits, watermarks, clear, rule, head, cost }
        },
    )
}

fn request(reserve: u32) -> RequestInfo {
    let mut request = RequestInfo::new();
    request.max_output = Some(reserve);
    request
}

pub(super) fn window(log: &[Recorded], cut: Option<&Cut>) -> LoadedWindow {
    let start = cut.map_or(Seq::FIRST, |cut| cut.window_start);
    let exchanges = log.iter().filter(|recorded| recorded.seq >= start).cloned().collect();
    let window = Window::new(Revision::new(Incarnation::random(), 1), None, exchanges, false);
    let cuts = cut.cloned().map(Cuts::new);
    LoadedWindow { cuts, ..LoadedWindow::read(window).unwrap() }
}

fn fitted(log: &[Recorded], cut: Option<&Cut>, input: &[Message], policy: &Policy) -> Result<Plan, FitError> {
    fitted_once(log, cut, input, policy, true)
}

fn fitted_once(
    log: &[Recorded],
    cut: Option<&Cut>,
    input: &[Message],
    policy: &Policy,
    stores: bool,
) -> Result<Plan, FitError> {
    policy.plan(&window(log, cut), LoadLimit::default(), input, stores, None)
}

impl Policy {
    pub(super) fn without_clearing(self) -> Self {
        Self { clear: None, ..self }
    }

    pub(super) fn with_rule(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    pub(super) fn cost(&self, message: &Message) -> u64 {
        self.cost.of(message)
    }

    /// Plans a call with this window and this input. With a reserve for recalled messages, the plan may use fallbacks.
    pub(super) fn plan(
        &self,
        window: &LoadedWindow,
        limit: LoadLimit,
        input: &[Message],
        stores: bool,
        recall_reserve: Option<u64>,
    ) -> Result<Plan, FitError> {
        let importance = Importance::new(|turn: &TrimTurn<'_>| (turn.tokens % 7) as f64);
        let first = KeepFirst::new(2);
        let trimmer: Option<&dyn Trimmer> = match self.rule {
            Rule::Newest => None,
            Rule::First => Some(&first),
            Rule::Important => Some(&importance),
        };
        let cost = |message: &Message| self.cost.of(message);
        let sizes = PromptTokens { head: self.head, input: self.cost.total(input), ..PromptTokens::default() };
        let call = CallBudget { limits: self.limits, sizes };
        let (watermarks, clear) = (self.watermarks, self.clear.as_ref());
        let budget = Some(FitBudget { call, watermarks, clear, trimmer, stores, cost: &cost });
        let call = PlanInput { limit, recall_reserve, budget, ..plan_input(window, input) };
        if recall_reserve.is_some() { super::plan_prompt(&call) } else { plan(&call) }
    }
}

fn prompt(plan: &Plan, input: &[Message]) -> Vec<Message> {
    plan.fit.window.iter().chain(input).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(5_000)))]

    /// Invariants 2 and 3: the prompt obeys the chat rules and fits, for any log, input and policy.
    #[test]
    fn every_plan_is_valid_and_within_its_budget((log, input) in any_log(), policy in any_policy()) {
        let log = Recorded::log(log);
        let Ok(plan) = fitted(&log, None, &input, &policy) else { return Ok(()) };
        prop_assert_eq!(breaks_the_rules(&prompt(&plan, &input)), None);
        prop_assert_eq!(plan.fit.tokens, policy.cost.total(&plan.fit.window));
        let size = policy.head + plan.fit.tokens + policy.cost.total(&input);
        let reply = plan.fit.reply.unwrap_or(policy.limits.reserve);
        prop_assert!(size <= policy.limits.max_prompt(reply), "{} of {}", size, policy.limits.max_prompt(reply));
        prop_assert!(reply <= policy.limits.reserve && reply >= policy.limits.least_reply.unwrap_or(policy.limits.reserve));
    }

    /// Invariant 3: a call is refused only if the turn of the input, without its earlier rounds, is too large by
    /// itself.
    #[test]
    fn only_a_call_that_cannot_fit_is_refused((log, input) in any_log(), policy in any_policy()) {
        let log = Recorded::log(log);
        let Err(refused) = fitted(&log, None, &input, &policy) else { return Ok(()) };
        let FitError::DoesNotFit(error) = refused else { return Err(TestCaseError::fail("the input is sound")) };
        let least = policy.limits.least_reply.unwrap_or(policy.limits.reserve);
        prop_assert!(error.parts.total() > policy.limits.max_prompt(least), "{}", error);
        if !input[0].is_tool_result() {
            prop_assert_eq!(error.parts.window, 0);
        }
    }

    /// Invariant 13: stored cuts move forward, start at an opening, and do not move the window's start within a turn.
    #[test]
    fn each_stored_cut_may_follow_the_one_before((log, input) in any_log(), policies in prop::collection::vec(any_policy(), 1..4)) {
        let log = Recorded::log(log);
        let mut stored: Option<Cut> = None;
        for policy in policies {
            let Ok(plan) = fitted(&log, stored.as_ref(), &input, &policy) else { continue };
            let Some(cut) = plan.fit.cut else { continue };
            let opens_turn = |seq: Seq| log.iter().any(|recorded| recorded.seq == seq && recorded.exchange.opens_turn());
            prop_assert_eq!(cut.check(stored.as_ref(), log.len() as u64 + 1, opens_turn), Ok(()));
            prop_assert_ne!(Some(&cut), stored.as_ref(), "a cut that changes nothing is not stored");
            if input[0].is_tool_result() {
                prop_assert_eq!(cut.window_start, stored.as_ref().map_or(Seq::FIRST, |cut| cut.window_start));
            }
            stored = Some(cut);
        }
    }

    /// Invariant 10: between compactions, the window of a call begins with the window of the previous call.
    #[test]
    fn windows_only_grow_between_compactions(turns in prop::collection::vec(any_turn(), 1..12), policy in any_policy()) {
        let policy = Policy { rule: Rule::Newest, ..policy };
        let whole = Recorded::log(turns.concat());
        let (mut stored, mut before): (Option<Cut>, Option<Vec<Message>>) = (None, None);
        for (at, recorded) in whole.iter().enumerate() {
            let messages = &recorded.exchange.messages;
            let input = &messages[..messages.len() - usize::from(messages.len() > 1)];
            if input.iter().any(Message::is_blank) {
                // A blank reply is never sent, and the log's view does not contain it.
                before = None;
                continue;
            }
            let Ok(plan) = fitted(&whole[..at], stored.as_ref(), input, &policy) else { before = None; continue };
            let compacted = plan.fit.cut.is_some();
            if let Some(before) = before.take().filter(|_| !compacted && !plan.fit.for_this_call) {
                prop_assert!(plan.fit.window.starts_with(&before), "exchange {}", at);
            }
            before = (!plan.fit.for_this_call).then(|| plan.fit.window.clone());
            stored = plan.fit.cut.or(stored);
        }
    }
}

proptest! {
    // Each case tries all pairs of cutoffs.
    #![proptest_config(ProptestConfig::with_cases(cases(2_000)))]

    /// Of all pairs of cutoffs that fit, the planner uses the pair that keeps the most tokens.
    #[test]
    fn no_other_pair_of_cutoffs_keeps_more((log, input) in any_log(), context in 10u32..600) {
        let log = Recorded::log(log);
        let limits = ContextBudget::tokens(context).limits(&request(0)).unwrap();
        let watermarks = Watermarks::new(Watermark::Percent(100), Watermark::Percent(100)).unwrap();
        let policy = Policy { limits, watermarks, clear: None, rule: Rule::Newest, head: 0, cost: Cost::Bytes };
        let Ok(plan) = fitted_once(&log, None, &input, &policy, false) else { return Ok(()) };
        let room = u64::from(context) - policy.cost.total(&input);
        let (answers, asked) = (plan.continues.is_some(), plan.continues.unwrap_or_default());
        // A last round that the input does not answer may be left out too: the next exchange follows it.
        let most_rounds = log.len() as u64 + u64::from(!answers);
        // No call is open at a start, so results are not sent, and neither are blank replies.
        let begins_with_reply = |recorded: &Recorded| {
            let is_sent = |message: &&Message| !message.is_tool_result() && !message.is_blank();
            recorded.exchange.messages.iter().find(is_sent).is_some_and(Message::is_reply)
        };
        let may_start = |recorded: &&Recorded| {
            recorded.seq == Seq::FIRST || recorded.exchange.opens_turn() && !begins_with_reply(recorded)
        };
        let starts: Vec<Seq> = log.iter().filter(may_start).map(|recorded| recorded.seq).collect();
        let last = starts.iter().rev().find(|start| !answers || **start <= asked).copied().unwrap_or_default();
        let mut most = if answers { None } else { Some(0) };
        for start in starts.into_iter().filter(|start| *start <= last) {
            for rounds in (0..=most_rounds).map(Seq::new) {
                let mut cut = Cut::window_from(start);
                cut.rounds_start = rounds.max(start);
                let window = window(&log, Some(&cut));
                let call = plan_input(&window, &input);
                let kept = policy.cost.total(&plan_of(&call).fit.window);
                most = most.max(Some(kept).filter(|kept| *kept <= room));
            }
        }
        prop_assert_eq!(Some(plan.fit.tokens), most);
    }
}

fn plan_of(call: &PlanInput<'_>) -> Plan {
    plan(call).unwrap_or_else(|error| unreachable!("{error:?}"))
}
