//! The plan of a call, and what a call does without if it does not fit.

use proptest::prelude::*;
use tower_chat_history_core::{Cuts, Epoch, Exchange, ExchangeId, Incarnation, Recorded, Revision, Window};

use super::*;
use crate::context::{
    budget::{CallLimits, PromptTokens, Watermark, Watermarks},
    view::tests::{any_message, breaks_the_rules, calls},
};

fn window(exchanges: Vec<Vec<Message>>, truncated: bool) -> LoadedWindow {
    let exchange = |(seq, messages)| Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), messages));
    let exchanges = (0..).zip(exchanges).map(exchange).collect();
    LoadedWindow::read(Window::new(Revision::new(Incarnation::random(), 1), None, exchanges, truncated)).unwrap()
}

/// Plans a call with everything that it could do without.
pub(super) fn plan_whole(input: &PlanInput<'_>) -> Result<Plan, FitError> {
    plan_with_extras(input, input.budget, Extras::of(input))
}

pub(super) fn plan_input<'a>(window: &'a LoadedWindow, input: &'a [Message]) -> PlanInput<'a> {
    PlanInput::new(History::Window(window), input)
}

fn planned(window: &LoadedWindow, input: &[Message]) -> Result<Plan, InputError> {
    input_error(plan_prompt(&plan_input(window, input)))
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
        input_error(plan_prompt(&call)).unwrap().recallable
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
    let sizes = PromptTokens { input: 10, ..PromptTokens::default() };
    let call = CallBudget { limits: CallLimits::NONE, sizes };
    let watermarks = Watermarks::default();
    let budget = FitBudget { call, watermarks, clear: None, trimmer: None, stores: true, cost: &cost };
    for budget in [None, Some(budget)] {
        let plan = input_error(plan_prompt(&PlanInput { budget, ..plan_input(&log, &input) })).unwrap();
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
    let unanswered = |ids: &[&str]| InputError::Unanswered { call_ids: ids.iter().map(|id| (*id).into()).collect() };
    let (x, y, z, u) = (Message::tool("x", "r"), Message::tool("y", "r"), Message::tool("z", "r"), Message::user("u"));
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
        input_error(plan_prompt(&PlanInput { history: History::Absent(Epoch::FIRST), ..plan_input(&log, &[x]) }))
            .unwrap_err(),
        unexpected(0, "x")
    );
}

#[test]
fn a_question_while_calls_are_open_supersedes_them_or_is_rejected() {
    let log = window(vec![vec![Message::user("u0"), calls(&["x", "y"])]], false);
    let input = [Message::user("never mind")];
    let plan = planned(&log, &input).unwrap();
    assert_eq!((plan.continues, plan.superseded, plan.fit.window.len()), (None, 2, 5));
    let rejected = plan_prompt(&PlanInput { on_open_turn: OnOpenTurn::Reject, ..plan_input(&log, &input) });
    assert_eq!(input_error(rejected).unwrap_err(), InputError::TurnOpen { calls: 2 });
}

#[test]
fn resent_messages_replace_a_history_that_could_not_be_loaded() {
    let (resent, input) = ([Message::user("u0"), calls(&["x"])], [Message::tool("x", "r")]);
    let log = window(vec![], false);
    let history = &Recorded::log(resent.to_vec());
    let plan = plan_prompt(&PlanInput { history: History::Resent(history), ..plan_input(&log, &input) }).unwrap();
    assert_eq!(plan.fit.window, resent);
}

#[test]
fn a_truncated_load_starts_at_three_quarters_of_its_limit() {
    let log = window(vec![vec![Message::user("u"), Message::assistant("a")]; 10], true);
    let limit = LoadLimit::new(20, 1 << 20).unwrap();
    let plan = plan_prompt(&PlanInput { limit, ..plan_input(&log, &[Message::user("u")]) }).unwrap();
    assert_eq!(plan.fit.cut.unwrap().window_start, Seq::new(3));
    assert_eq!(plan.fit.window.len(), 14, "the prompt starts where the next load will start");
}

proptest! {
    #[test]
    fn a_planned_window_is_valid_with_the_input_after_it(
        log in prop::collection::vec(prop::collection::vec(any_message(), 1..4), 0..8),
        input in prop::collection::vec(any_message().prop_filter("inputs are not blank", |m| m.sendable().as_ref() == m && !m.is_blank()), 1..5),
    ) {
        if let Ok(plan) = planned(&window(log, false), &input) {
            let sent: Vec<Message> = plan.fit.window.into_iter().chain(input).collect();
            prop_assert_eq!(breaks_the_rules(&sent), None);
        }
    }
}

/// Plans a prompt of one turn of 20 tokens and an input of 10. The stored summary has 30 tokens with the constant reply
/// to it, and 50 are reserved for a summary. Returns the plan and the room for a summary, or the required size.
fn planned_within(limit: u64, ratio: f64) -> Result<(Plan, u64), u64> {
    planned_with_overcount(limit, ratio, 0)
}

fn planned_with_overcount(limit: u64, ratio: f64, overcount: u64) -> Result<(Plan, u64), u64> {
    let turn = [Message::user("u"), Message::assistant("a")];
    let exchange = Recorded::new(Seq::FIRST, Exchange::new(ExchangeId::generate(), turn));
    let window = Window::new(Revision::new(Incarnation::random(), 1), None, vec![exchange], false);
    let window = LoadedWindow::read(window).unwrap();
    let (summary, input) = (Message::user("s"), [Message::user("u")]);
    let cost = |_: &Message| 10;
    let limits = CallLimits { context: limit, prompt: limit, reserve: 0, least_reply: None, ratio };
    let sizes = PromptTokens { input: 10, summary: 50, ..PromptTokens::default() };
    let call = CallBudget { limits, sizes };
    let full = Watermark::Percent(100);
    let watermarks = Watermarks { high: full, low: full };
    let budget = FitBudget { call, watermarks, clear: None, trimmer: None, stores: false, cost: &cost };
    let input = PlanInput {
        summary: Some(&summary),
        summary_tokens: 30,
        overcount,
        budget: Some(budget),
        ..plan_input(&window, &input)
    };
    match plan_prompt(&input) {
        Ok(plan) => {
            let room = plan.budget.map_or(0, |budget| budget.sizes.summary);
            Ok((plan, room))
        }
        Err(FitError::DoesNotFit(error)) => Err(error.parts.total()),
        Err(FitError::Input(error)) => unreachable!("{error}"),
    }
}

#[test]
fn a_call_that_does_not_fit_is_planned_with_less_for_summaries() {
    let (plan, room) = planned_within(80, 1.0).unwrap();
    assert_eq!((plan.fit.window.len(), plan.summary_tokens, room), (4, 30, 50));
    let (plan, room) = planned_within(40, 1.0).unwrap();
    assert_eq!((plan.fit.window.len(), plan.summary_tokens, room), (2, 30, 30), "no room for a future summary");
    let (plan, room) = planned_within(30, 1.0).unwrap();
    assert_eq!((plan.fit.window.len(), plan.summary_tokens, room), (2, 0, 0));
    assert!(plan.fit.trimming.left_out_summary);
    assert_eq!(planned_within(9, 1.0).unwrap_err(), 10, "the input alone");
}

#[test]
fn overcounted_tokens_are_used_only_if_nothing_is_left_out() {
    let (plan, room) = planned_with_overcount(64, 1.0, 16).unwrap();
    assert_eq!((plan.fit.window.len(), room, plan.fit.trimming.reason), (4, 50, None), "80 tokens fit");
    assert_eq!(plan.raised_by, 16);
    assert_eq!(plan.budget.unwrap().limits.max_prompt(0), 64, "other readers see the plain limit");
    let (plan, room) = planned_with_overcount(64, 1.0, 15).unwrap();
    assert_eq!((plan.fit.window.len(), room), (2, 50), "the turn is left out");
    assert_eq!(plan.raised_by, 0);
    assert_eq!(planned_with_overcount(9, 1.0, 0).unwrap_err(), 10);
}

#[test]
fn the_correction_factor_refuses_no_call() {
    let (plan, _) = planned_within(10, 1.5).unwrap();
    assert!((plan.budget.unwrap().limits.ratio - 1.0).abs() < f64::EPSILON);
}
