//! The plan of a call: the messages that are sent, as a pure function of the loaded history, the input and the policy.

mod call_budget;
mod clearing;
mod cutoff_search;
mod error;
pub mod explain;
mod fallbacks;
mod fit;
#[cfg(test)]
mod fit_tests;
mod fold;
#[cfg(test)]
mod fold_tests;
mod grown;
mod history;
mod input;
mod item;
mod linked;
mod load_limit;
mod loaded;
mod pinned;
mod provenance;
mod reasoning;
mod restart;
mod same_call;
mod same_message;
mod same_said;
#[cfg(test)]
mod sequence_tests;
mod sizes;
pub mod transcript;
mod trimming;
#[cfg(test)]
mod trimming_tests;
mod unreplied;
mod window_index;

use tower_chat_history_core::{Cut, LoadLimit, Message, Origin, Recorded, Seq};

pub use self::{
    call_budget::{CallBudget, FitBudget},
    error::{FitError, InputError, TranscriptError},
    fallbacks::plan,
    fit::Fit,
    grown::GrownWindow,
    history::{History, first_uncovered},
    input::{OnOpenTurn, refuse_foreign},
    loaded::LoadedWindow,
    pinned::pinned,
    provenance::{Conditions, RENDERER, SentPrompt, provenance},
    reasoning::Reasoning,
    sizes::Size,
    window_index::can_start_window,
};
use self::{
    fold::Folded,
    input::{check_continued, check_input},
    item::Item,
    load_limit::cut_truncated,
};
use crate::request::RequestInfo;

/// The plan of a call: the messages to send before the input, and the values that are recorded with the exchange.
#[derive(Debug, Default)]
pub struct Plan {
    /// The messages of the log to send, and the account of how they were made to fit. Followed by the input, the
    /// messages obey the chat rules.
    pub fit: Fit,
    /// The exchange whose calls the input answers.
    pub continues: Option<Seq>,
    /// The number of open calls that a new question in the input closed without results.
    pub superseded: usize,
    /// The budget that the prompt fits, if there is one.
    pub budget: Option<CallBudget>,
    /// The tokens by which the prompt may exceed the budget's largest prompt, because the provider counts fewer.
    pub raised_by: u64,
    /// The size of the summary that is sent.
    pub summary_tokens: u64,
    /// The part of the log from which messages can be recalled for this call, which may be empty if messages of other
    /// conversations can be. `None` if nothing is to be recalled.
    pub recallable: Option<Recallable>,
}

/// The part of the log that a prompt does not contain, and the room for messages of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recallable {
    /// The position before which the prompt lacks the questions of the log.
    pub before: Seq,
    /// The tokens that are free in the prompt. `None` without a budget.
    pub room: Option<u64>,
}

/// The input of the planner. `Debug` shows no text, because the `Debug` of messages shows none.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    pub history: History<'a>,
    /// The summary, as the message that is sent first.
    pub summary: Option<&'a Message>,
    pub summary_tokens: u64,
    pub input: &'a [Message],
    /// The messages that are stored in place of the input.
    pub instead: Option<&'a [Message]>,
    pub limit: LoadLimit,
    pub on_open_turn: OnOpenTurn,
    /// The tokens that the counter counts and the provider does not, at the beginning of the prompt.
    pub spare: u64,
    /// The tokens to reserve for messages that are recalled for this call. `None` if nothing is to be recalled.
    pub recall_reserve: Option<u64>,
    /// True if messages of other conversations may be recalled, also if the prompt contains the whole log.
    pub recalls_others: bool,
    /// True if the recalled messages of all earlier exchanges are left out.
    pub leaves_out_recalled: bool,
    /// The conditions on which the validity of reasoning depends.
    pub conditions: Conditions<'a>,
    /// The budget, if there is one. Its [`summary`](crate::budget::PromptTokens::summary) is the room that is reserved
    /// for a summary.
    pub budget: Option<FitBudget<'a>>,
}

/// Plans a call with this summary and this budget, without fallbacks.
fn plan_once(call: &PlanInput<'_>) -> Result<Plan, FitError> {
    let PlanInput { history, summary, summary_tokens, input, instead, limit, on_open_turn, .. } = *call;
    let mut budget = call.budget;
    let window = history.window();
    let truncated = window.and_then(|window| cut_truncated(window, limit));
    let cut = truncated.as_ref().or(history.cut()).cloned().unwrap_or_default();
    let exchanges = history.exchanges();
    let start = exchanges.partition_point(|recorded| recorded.seq < cut.window_start);
    let exchanges = &exchanges[start..];

    let next = exchanges.last().map_or(cut.window_start, |last| last.seq.next());
    let recalled_from = if call.leaves_out_recalled { next } else { cut.recalled_from };
    let mut folded = Folded::of(exchanges, cut.window_start, recalled_from);
    folded.make_way_for(input);
    let answers = check_input(folded.state(), input)?;
    if let Some(instead) = instead
        && check_input(folded.state(), instead)? != answers
    {
        return Err(InputError::InsteadDiffers.into());
    }
    let superseded = if answers { 0 } else { folded.open().len() };
    if let Some(position) = folded.open_calls_in(input) {
        return Err(InputError::Resent { position }.into());
    }
    if superseded > 0 && on_open_turn == OnOpenTurn::Reject {
        return Err(InputError::TurnOpen { calls: superseded }.into());
    }
    let continues = folded.state().asked().filter(|_| answers);
    let items = before_input(folded, exchanges, input, answers, call.conditions.request);
    // Only an input that opens a turn gets recalled messages, so they are never between a call and its result.
    let recall_reserve = call.recall_reserve.filter(|_| !answers);
    // Without the log, nothing is known about the conversation, not even if it exists.
    let recalls_others = call.recalls_others && !matches!(history, History::Resent(_));
    let begins_within = window.is_some_and(|window| cut.window_start > window.revision.first());
    if let Some(budget) = &mut budget {
        budget.parts.recalled = recall_reserve.filter(|_| begins_within || recalls_others).unwrap_or(0);
    }
    let planned = fit::Window { items, exchanges, cut: &cut, continues, summary, conditions: call.conditions };
    let mut fit = match &budget {
        Some(budget) => fit::fit(planned, budget)?,
        None => fit::unlimited(planned),
    };
    if input.is_empty() {
        let last = fit.sent.last().and_then(|seq| exchanges.iter().rfind(|recorded| recorded.seq == *seq));
        check_continued(last, continues)?;
    }
    // A message that stands for everything before it stands for the summary, too.
    let summary = summary.filter(|_| !fit.restarts);
    let summary_tokens = summary.map_or(0, |_| summary_tokens);
    if summary.is_none() {
        fit.sent_under.covers_to = Seq::FIRST;
    }
    fit.sent_under.recalled_from = fit.sent_under.recalled_from.max(recalled_from);
    if let Some(budget) = &budget {
        fit.keep_reply(budget);
    }
    fit.window.splice(0..0, summary.cloned());
    fit.cut = fit.cut.or(truncated).filter(|_| window.is_some());
    if call.leaves_out_recalled && recalled_from > cut.recalled_from && budget.is_some_and(|budget| budget.stores) {
        fit.cut.get_or_insert(cut).recalled_from = recalled_from;
    }
    let has_more = |window: &LoadedWindow| fit.recallable_before > window.revision.first();
    let recallable = recall_reserve.filter(|_| recalls_others || window.is_some_and(has_more)).map(|_| {
        let taken = |budget: &FitBudget<'_>| fit.tokens.saturating_add(budget.parts.total() - budget.parts.recalled);
        let room =
            |budget: &FitBudget<'_>| budget.limits.max_prompt(budget.limits.reserve).saturating_sub(taken(budget));
        Recallable { before: fit.recallable_before, room: budget.as_ref().map(room) }
    });
    Ok(Plan {
        fit,
        // Positions in a list that the caller resent are not positions of the log.
        continues: continues.filter(|_| window.is_some()),
        superseded,
        budget: budget.map(|budget| CallBudget { limits: budget.limits, parts: budget.parts }),
        raised_by: 0,
        summary_tokens,
        recallable,
    })
}

/// Returns the items of these exchanges before an input, which `answers` the open calls or opens a turn.
fn before_input(
    mut folded: Folded,
    exchanges: &[Recorded],
    input: &[Message],
    answers: bool,
    request: &RequestInfo,
) -> Vec<Item> {
    if !answers {
        folded.close();
    }
    let mut items = folded.into_items(answers && input.iter().all(Message::is_tool_result));
    unreplied::end_rounds(&mut items, exchanges, !answers, request);
    items
}

/// Returns the cut that the window should have after a call. The exchanges that it leaves out can then be summarized in
/// advance. `origin` is that of the next call, whose prompt lacks everything that this origin cannot read. Returns
/// `None` if the window can stay as it is, or if its last turn is still open.
#[must_use]
pub fn next_cut(window: &LoadedWindow, limit: LoadLimit, budget: &FitBudget<'_>, origin: &Origin) -> Option<Cut> {
    let truncated = cut_truncated(window, limit);
    let cut = truncated.as_ref().or(window.cut()).cloned().unwrap_or_default();
    let start = window.exchanges.partition_point(|recorded| recorded.seq < cut.window_start);
    let exchanges = &window.exchanges[start..];
    let folded = Folded::of(exchanges, cut.window_start, cut.recalled_from);
    if !folded.open().is_empty() || folded.state().awaits_reply() {
        return None;
    }
    let watermarks = budget.watermarks.as_if_due();
    // The head of the next prompt is not known yet. Without reasoning, the sizes are the smallest possible ones.
    let conditions = Conditions { origin, ..Conditions::unknown() };
    let items = folded.into_items(false);
    let window = fit::Window { items, exchanges, cut: &cut, continues: None, summary: None, conditions };
    let fit = fit::fit(window, &FitBudget { watermarks, ..*budget }).ok()?;
    fit.cut.or(truncated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tower_chat_history_core::{Cuts, Epoch, Exchange, ExchangeId, Incarnation, Recorded, Revision, Window};

    use super::*;
    use crate::budget::{Limits, PromptTokens, Watermarks};
    use crate::view::tests::{any_message, breaks_the_rules, calls};

    fn window(exchanges: Vec<Vec<Message>>, truncated: bool) -> LoadedWindow {
        let exchange = |(seq, messages)| Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), messages));
        let exchanges = (0..).zip(exchanges).map(exchange).collect();
        LoadedWindow::read(Window::new(Revision::new(Incarnation::random(), 1), None, exchanges, truncated)).unwrap()
    }

    pub(super) fn plan_input<'a>(window: &'a LoadedWindow, input: &'a [Message]) -> PlanInput<'a> {
        let (limit, on_open_turn) = (LoadLimit::default(), OnOpenTurn::Supersede);
        PlanInput {
            history: History::Window(window),
            summary: None,
            summary_tokens: 0,
            input,
            instead: None,
            limit,
            on_open_turn,
            recall_reserve: None,
            recalls_others: false,
            spare: 0,
            leaves_out_recalled: false,
            conditions: Conditions::unknown(),
            budget: None,
        }
    }

    fn planned(window: &LoadedWindow, input: &[Message]) -> Result<Plan, InputError> {
        input_error(plan(&plan_input(window, input)))
    }

    fn input_error(plan: Result<Plan, FitError>) -> Result<Plan, InputError> {
        plan.map_err(|error| match error {
            FitError::Input(error) => error,
            FitError::DoesNotFit(_) => unreachable!("there is no budget"),
        })
    }

    #[test]
    fn messages_of_others_are_recallable_if_the_history_is_known() {
        let (log, input) = (window(vec![vec![Message::user("u0")]], false), [Message::user("u1")]);
        let resent = [log.exchanges[0].clone()];
        let recallable = |history, recalls_others| {
            let call = PlanInput { history, recall_reserve: Some(9), recalls_others, ..plan_input(&log, &input) };
            input_error(plan(&call)).unwrap().recallable
        };
        let nothing_before = Some(Recallable { before: Seq::FIRST, room: None });
        for history in [History::Absent(Epoch::FIRST), History::Window(&log)] {
            assert_eq!([false, true].map(|others| recallable(history, others)), [None, nothing_before]);
        }
        assert_eq!(recallable(History::Resent(&resent), true), None);
    }

    #[test]
    fn results_continue_the_exchange_with_their_calls() {
        let log = window(vec![vec![Message::user("u0"), calls(&["x", "y"])]], false);
        let plan = planned(&log, &[Message::tool("y", "r"), Message::tool("x", "r")]).unwrap();
        assert_eq!((plan.continues, plan.superseded, plan.fit.window.len()), (Some(Seq::FIRST), 0, 2));
    }

    #[test]
    fn results_continue_a_round_that_a_summary_of_another_process_left_out() {
        // Another process asked a question while the call was open, and stored a compaction for it. Its exchange is not
        // stored yet, or never will be.
        let mut log = window(vec![vec![Message::user("u0"), calls(&["x"])]], false);
        let mut cut = Cut::default();
        cut.rounds_start = Seq::new(1);
        log.cuts = Some(Cuts::new(cut));
        let (input, cost) = ([Message::tool("x", "r")], |_: &Message| 10);
        let parts = PromptTokens { input: 10, ..PromptTokens::default() };
        let (limits, watermarks) = (Limits::NONE, Watermarks::default());
        let budget = FitBudget { limits, watermarks, clear: None, trimmer: None, stores: true, parts, cost: &cost };
        for budget in [None, Some(budget)] {
            let plan = input_error(plan(&PlanInput { budget, ..plan_input(&log, &input) })).unwrap();
            assert_eq!((plan.continues, plan.fit.window.len()), (Some(Seq::FIRST), 2));
        }
    }

    #[test]
    fn results_may_be_followed_by_a_question() {
        let log = window(vec![vec![Message::user("u0"), calls(&["x"])]], false);
        let plan = planned(&log, &[Message::tool("x", "r"), Message::user("and?")]).unwrap();
        assert_eq!(plan.continues, Some(Seq::FIRST));
    }

    #[test]
    fn results_that_do_not_answer_the_open_calls_are_refused() {
        let log = window(vec![vec![Message::user("u0"), calls(&["x", "y"])]], false);
        let unexpected = |position, id: &str| InputError::UnexpectedResult { position, call_id: id.into() };
        let unanswered =
            |ids: &[&str]| InputError::Unanswered { call_ids: ids.iter().map(|id| (*id).into()).collect() };
        let (x, y, z, u) =
            (Message::tool("x", "r"), Message::tool("y", "r"), Message::tool("z", "r"), Message::user("u"));
        for (input, error) in [
            (vec![], InputError::Empty),
            (vec![x.clone()], unanswered(&["y"])),
            (vec![x.clone(), u.clone(), y.clone()], unanswered(&["y"])),
            (vec![x.clone(), y.clone(), z], unexpected(2, "z")),
            (vec![x.clone(), x.clone()], unexpected(1, "x")),
            (vec![u.clone(), x.clone()], unexpected(1, "x")),
            (vec![u.clone(), calls(&["q"])], unanswered(&["q"])),
        ] {
            assert_eq!(planned(&log, &input).unwrap_err(), error);
        }
        assert_eq!(
            input_error(plan(&PlanInput { history: History::Absent(Epoch::FIRST), ..plan_input(&log, &[x]) }))
                .unwrap_err(),
            unexpected(0, "x")
        );
    }

    #[test]
    fn a_question_while_calls_are_open_supersedes_them_or_is_rejected() {
        let log = window(vec![vec![Message::user("u0"), calls(&["x", "y"])]], false);
        let input = [Message::user("never mind")];
        let plan = planned(&log, &input).unwrap();
        assert_eq!((plan.continues, plan.superseded, plan.fit.window.len()), (None, 2, 4));
        let rejected = super::plan(&PlanInput { on_open_turn: OnOpenTurn::Reject, ..plan_input(&log, &input) });
        assert_eq!(input_error(rejected).unwrap_err(), InputError::TurnOpen { calls: 2 });
    }

    #[test]
    fn resent_messages_replace_a_history_that_could_not_be_loaded() {
        let (resent, input) = ([Message::user("u0"), calls(&["x"])], [Message::tool("x", "r")]);
        let log = window(vec![], false);
        let history = &Recorded::log(resent.to_vec());
        let plan = plan(&PlanInput { history: History::Resent(history), ..plan_input(&log, &input) }).unwrap();
        assert_eq!(plan.fit.window, resent);
    }

    #[test]
    fn a_truncated_load_starts_at_three_quarters_of_its_limit() {
        let log = window(vec![vec![Message::user("u"), Message::assistant("a")]; 10], true);
        let limit = LoadLimit::new(20, 1 << 20).unwrap();
        let plan = plan(&PlanInput { limit, ..plan_input(&log, &[Message::user("u")]) }).unwrap();
        assert_eq!(plan.fit.cut.unwrap().window_start, Seq::new(3));
        assert_eq!(plan.fit.window.len(), 14, "the prompt starts where the next load will start");
    }

    proptest! {
        #[test]
        fn a_planned_window_is_valid_with_the_input_after_it(
            log in prop::collection::vec(prop::collection::vec(any_message(), 1..4), 0..8),
            input in prop::collection::vec(any_message().prop_filter("inputs are not blank", |m| m.sendable().as_ref() == m && !m.is_blank_reply()), 1..5),
        ) {
            if let Ok(plan) = planned(&window(log, false), &input) {
                let sent: Vec<Message> = plan.fit.window.into_iter().chain(input).collect();
                prop_assert_eq!(breaks_the_rules(&sent), None);
            }
        }
    }
}
