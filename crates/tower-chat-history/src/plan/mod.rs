//! Deciding what is sent: a pure function of what was loaded, the input and the policy.

mod choice;
mod clearing;
mod fit;
#[cfg(test)]
mod fit_tests;
mod fold;
mod input;
mod load_limit;
mod log;
#[cfg(test)]
mod sequence_tests;
mod sizes;
mod trimming;

use tower_chat_history_core::{Cut, LoadLimit, Message, Recorded, Seq, Window};

pub(crate) use self::{
    fit::{Fit, Fitting},
    log::opens_turn,
};
use self::{fold::Folded, input::check_input, load_limit::cut_truncated};
use crate::{InputError, OnOpenTurn, budget::DoesNotFit};

/// What to send before the input, and what to record beside it.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The log's messages to send, valid together with the input behind them, and how they were made to fit.
    pub(crate) fit: Fit,
    /// The exchange whose calls the input answers.
    pub(crate) continues: Option<Seq>,
    /// How many open calls the input left unanswered, as a new question instead of results.
    pub(crate) superseded: usize,
}

/// What there is to decide from.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) loaded: Option<&'a Window>,
    /// What the caller resent, where it has to stand for a history that could not be loaded.
    pub(crate) resent: &'a [Recorded],
    /// The summary, as it is sent: first of all.
    pub(crate) summary: Option<&'a Message>,
    pub(crate) input: &'a [Message],
    /// What is stored in place of the input.
    pub(crate) instead: Option<&'a [Message]>,
    pub(crate) limit: LoadLimit,
    pub(crate) on_open_turn: OnOpenTurn,
    /// The budget, if there is one.
    pub(crate) fitting: Option<Fitting<'a>>,
}

/// Why there is nothing to send.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refused {
    Input(InputError),
    DoesNotFit(DoesNotFit),
}

impl From<InputError> for Refused {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

pub(crate) fn plan(given: &Given<'_>) -> Result<Plan, Refused> {
    let Given { loaded, resent, summary, input, instead, limit, on_open_turn, ref fitting } = *given;
    let truncated = loaded.and_then(|window| cut_truncated(window, limit));
    let stored = loaded.and_then(|window| window.compaction.as_ref()).map(|compaction| &compaction.cut);
    let cut = truncated.as_ref().or(stored).cloned().unwrap_or_default();
    let exchanges = loaded.map_or(resent, |window| &window.exchanges);
    let start = exchanges.partition_point(|recorded| recorded.seq < cut.window_start);
    let exchanges = &exchanges[start..];

    let mut folded = Folded::of(exchanges, cut.window_start);
    folded.make_way_for(input);
    let answers = check_input(folded.view(), input)?;
    if let Some(instead) = instead
        && check_input(folded.view(), instead)? != answers
    {
        return Err(InputError::InsteadDiffers.into());
    }
    let superseded = if answers { 0 } else { folded.view().open().len() };
    if let Some(position) = folded.open_calls_in(input) {
        return Err(InputError::Resent { position }.into());
    }
    if superseded > 0 {
        if on_open_turn == OnOpenTurn::Reject {
            return Err(InputError::TurnOpen { calls: superseded }.into());
        }
        folded.close();
    }
    let continues = folded.asked_by().filter(|_| answers);
    let items = folded.into_items();
    let mut fit = match fitting {
        Some(fitting) => fit::fit(items, exchanges, &cut, continues, fitting).map_err(Refused::DoesNotFit)?,
        None => fit::unlimited(items, &cut),
    };
    fit.window.splice(0..0, summary.cloned());
    fit.cut = fit.cut.or(truncated).filter(|_| loaded.is_some());
    // What was resent has no positions that anybody else knows.
    Ok(Plan { fit, continues: continues.filter(|_| loaded.is_some()), superseded })
}

/// The cut that the window should have once there is no call: what is left out of it can then be summarized. `None` if it may
/// stay as it is, or if its last turn is still open.
pub(crate) fn next_cut(window: &Window, limit: LoadLimit, fitting: &Fitting<'_>) -> Option<Cut> {
    let truncated = cut_truncated(window, limit);
    let stored = window.compaction.as_ref().map(|compaction| &compaction.cut);
    let cut = truncated.as_ref().or(stored).cloned().unwrap_or_default();
    let start = window.exchanges.partition_point(|recorded| recorded.seq < cut.window_start);
    let exchanges = &window.exchanges[start..];
    let folded = Folded::of(exchanges, cut.window_start);
    if !folded.view().open().is_empty() || folded.view().awaits_reply() {
        return None;
    }
    let fit = fit::fit(folded.into_items(), exchanges, &cut, None, fitting).ok()?;
    fit.cut.or(truncated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tower_chat_history_core::{Compaction, CompactionVersion, Exchange, ExchangeId, Incarnation, Revision};

    use super::*;
    use crate::budget::{Limits, PromptTokens, Watermarks};
    use crate::view::tests::{any_message, breaks_the_rules, calls};

    fn window(exchanges: Vec<Vec<Message>>, truncated: bool) -> Window {
        let exchange = |(seq, messages)| Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), messages));
        let exchanges = (0..).zip(exchanges).map(exchange).collect();
        Window::new(Revision::new(Incarnation::random(), 1), None, exchanges, truncated)
    }

    fn given<'a>(window: &'a Window, input: &'a [Message]) -> Given<'a> {
        let (limit, on_open_turn) = (LoadLimit::default(), OnOpenTurn::Supersede);
        Given {
            loaded: Some(window),
            resent: &[],
            summary: None,
            input,
            instead: None,
            limit,
            on_open_turn,
            fitting: None,
        }
    }

    fn planned(window: &Window, input: &[Message]) -> Result<Plan, InputError> {
        refused(plan(&given(window, input)))
    }

    fn refused(plan: Result<Plan, Refused>) -> Result<Plan, InputError> {
        plan.map_err(|refused| match refused {
            Refused::Input(error) => error,
            Refused::DoesNotFit(_) => unreachable!("there is no budget"),
        })
    }

    #[test]
    fn results_continue_the_exchange_that_asked() {
        let log = window(vec![vec![Message::user("u0"), calls(&["x", "y"])]], false);
        let plan = planned(&log, &[Message::tool("y", "r"), Message::tool("x", "r")]).unwrap();
        assert_eq!((plan.continues, plan.superseded, plan.fit.window.len()), (Some(Seq::FIRST), 0, 2));
    }

    #[test]
    fn results_find_the_round_that_a_summary_has_left_out_meanwhile() {
        // Another process had a question on the open call summarized for, and its exchange has not come, or never will.
        let mut log = window(vec![vec![Message::user("u0"), calls(&["x"])]], false);
        let mut cut = Cut::default();
        cut.rounds_start = Seq::new(1);
        log.compaction = Some(Compaction::new(CompactionVersion::NONE, cut));
        let (input, cost) = ([Message::tool("x", "r")], |_: &Message| 10);
        let parts = PromptTokens { input: 10, ..PromptTokens::default() };
        let (limits, watermarks) = (Limits::NONE, Watermarks::default());
        let fitting = Fitting { limits, watermarks, clear: None, trimmer: None, stores: true, parts, cost: &cost };
        for fitting in [None, Some(fitting)] {
            let plan = refused(plan(&Given { fitting, ..given(&log, &input) })).unwrap();
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
        assert_eq!(refused(plan(&Given { loaded: None, ..given(&log, &[x]) })).unwrap_err(), unexpected(0, "x"));
    }

    #[test]
    fn a_question_on_open_calls_supersedes_them_or_is_rejected() {
        let log = window(vec![vec![Message::user("u0"), calls(&["x", "y"])]], false);
        let input = [Message::user("never mind")];
        let plan = planned(&log, &input).unwrap();
        assert_eq!((plan.continues, plan.superseded, plan.fit.window.len()), (None, 2, 4));
        let rejected = super::plan(&Given { on_open_turn: OnOpenTurn::Reject, ..given(&log, &input) });
        assert_eq!(refused(rejected).unwrap_err(), InputError::TurnOpen { calls: 2 });
    }

    #[test]
    fn what_the_caller_resent_stands_for_a_history_that_is_not_there() {
        let (resent, input) = ([Message::user("u0"), calls(&["x"])], [Message::tool("x", "r")]);
        let log = window(vec![], false);
        let plan =
            plan(&Given { loaded: None, resent: &Recorded::log(resent.to_vec()), ..given(&log, &input) }).unwrap();
        assert_eq!(plan.fit.window, resent);
    }

    #[test]
    fn a_truncated_load_starts_at_three_quarters_of_its_limit() {
        let log = window(vec![vec![Message::user("u"), Message::assistant("a")]; 10], true);
        let limit = LoadLimit::new(20, 1 << 20).unwrap();
        let plan = plan(&Given { limit, ..given(&log, &[Message::user("u")]) }).unwrap();
        assert_eq!(plan.fit.cut.unwrap().window_start, Seq::new(3));
        assert_eq!(plan.fit.window.len(), 14, "it is sent from where the next load will start");
    }

    proptest! {
        #[test]
        fn whatever_is_planned_is_valid_with_the_input_behind_it(
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
