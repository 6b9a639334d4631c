//! Deciding what is sent: a pure function of what was loaded, the input and the policy.

use tower_chat_history_core::{Cut, LoadLimit, Message, Recorded, Seq, Window};

use crate::{InputError, OnOpenTurn, OpenCalls, View};

/// What to send before the input, and what to record beside it.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The log's messages to send, valid together with the input behind them.
    pub(crate) window: Vec<Message>,
    /// The exchange whose calls the input answers.
    pub(crate) continues: Option<Seq>,
    /// How many open calls the input left unanswered, as a new question instead of results.
    pub(crate) superseded: usize,
    /// The compaction to store with the exchange.
    pub(crate) cut: Option<Cut>,
}

/// What there is to decide from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub(crate) loaded: Option<&'a Window>,
    /// What the caller resent, where it has to stand for a history that could not be loaded.
    pub(crate) resent: &'a [Message],
    pub(crate) input: &'a [Message],
    /// What is stored in place of the input.
    pub(crate) instead: Option<&'a [Message]>,
    pub(crate) limit: LoadLimit,
    pub(crate) on_open_turn: OnOpenTurn,
}

pub(crate) fn plan(given: Given<'_>) -> Result<Plan, InputError> {
    let Given { loaded, resent, input, instead, limit, on_open_turn } = given;
    let mut view = View::default();
    view.extend(resent);
    let cut = loaded.and_then(|window| cut_truncated(window, limit));
    let mut asked_by = None;
    for recorded in loaded.into_iter().flat_map(|window| from_start(window, cut.as_ref())) {
        for message in &recorded.exchange.messages {
            view.push(message);
            if !message.tool_calls().is_empty() {
                asked_by = Some(recorded.seq);
            }
        }
    }
    let answers = check_input(view.open(), input)?;
    if let Some(instead) = instead
        && check_input(view.open(), instead)? != answers
    {
        return Err(InputError::InsteadDiffers);
    }
    let superseded = if answers { 0 } else { view.open().len() };
    if superseded > 0 {
        if on_open_turn == OnOpenTurn::Reject {
            return Err(InputError::TurnOpen { calls: superseded });
        }
        view.close();
    }
    Ok(Plan { window: view.into_messages(), continues: asked_by.filter(|_| answers), superseded, cut })
}

fn from_start<'a>(window: &'a Window, cut: Option<&Cut>) -> impl Iterator<Item = &'a Recorded> {
    let start = cut.map_or(Seq::FIRST, |cut| cut.window_start);
    window.exchanges.iter().filter(move |recorded| recorded.seq >= start)
}

/// A load that its limit cut off moves the window's start for good, and at once to 75% of the limit: were it left to the
/// limit, the start would slide with every turn and no provider could cache the prompt.
fn cut_truncated(window: &Window, limit: LoadLimit) -> Option<Cut> {
    if !window.truncated {
        return None;
    }
    let keep = (limit.messages() / 4 * 3, limit.bytes() / 4 * 3);
    let (mut messages, mut bytes, mut start) = (0, 0, None);
    for recorded in window.exchanges.iter().rev() {
        messages += recorded.exchange.messages.len();
        bytes += recorded.exchange.bytes();
        // The newest turn stays whole even where it is larger.
        if start.is_some() && (messages > keep.0 || bytes > keep.1) {
            break;
        }
        if recorded.exchange.opens_turn() {
            start = Some(recorded.seq);
        }
    }
    let mut cut = window.compaction.as_ref().map(|compaction| compaction.cut.clone()).unwrap_or_default();
    cut.window_start = cut.window_start.max(start?);
    cut.rounds_start = cut.rounds_start.max(cut.window_start);
    Some(cut)
}

/// Checks that the input can stand behind a log with these open calls, and says whether it answers them.
///
/// The input must be whole: results answer calls that are there, all of them, and it leaves no call of its own open. A new
/// question on open calls is legal here; what then becomes of them is policy.
pub(crate) fn check_input(open: &OpenCalls, input: &[Message]) -> Result<bool, InputError> {
    let answers = input.first().ok_or(InputError::Empty)?.is_tool_result();
    let mut open = if answers { open.clone() } else { OpenCalls::default() };
    for (position, message) in input.iter().enumerate() {
        if message.is_tool_result() {
            if !open.answer(message) {
                let call_id = message.tool_call_id().unwrap_or_default().to_owned();
                return Err(InputError::UnexpectedResult { position, call_id });
            }
            continue;
        }
        unanswered(&open)?;
        open = OpenCalls::of(message);
    }
    unanswered(&open)?;
    Ok(answers)
}

fn unanswered(open: &OpenCalls) -> Result<(), InputError> {
    let call_ids: Vec<String> = open.ids().map(str::to_owned).collect();
    if call_ids.is_empty() { Ok(()) } else { Err(InputError::Unanswered { call_ids }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tower_chat_history_core::{Exchange, ExchangeId, Incarnation, Revision};

    use super::*;
    use crate::view::tests::{any_message, breaks_the_rules, calls};

    fn window(exchanges: Vec<Vec<Message>>, truncated: bool) -> Window {
        let exchange = |(seq, messages)| Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), messages));
        let exchanges = (0..).zip(exchanges).map(exchange).collect();
        Window::new(Revision::new(Incarnation::random(), 1), None, exchanges, truncated)
    }

    fn given<'a>(window: &'a Window, input: &'a [Message]) -> Given<'a> {
        let (limit, on_open_turn) = (LoadLimit::default(), OnOpenTurn::Supersede);
        Given { loaded: Some(window), resent: &[], input, instead: None, limit, on_open_turn }
    }

    fn planned(window: &Window, input: &[Message]) -> Result<Plan, InputError> {
        plan(given(window, input))
    }

    #[test]
    fn results_continue_the_exchange_that_asked() {
        let log = window(vec![vec![Message::user("u0"), calls(&["x", "y"])]], false);
        let plan = planned(&log, &[Message::tool("y", "r"), Message::tool("x", "r")]).unwrap();
        assert_eq!((plan.continues, plan.superseded, plan.window.len()), (Some(Seq::FIRST), 0, 2));
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
        assert_eq!(plan(Given { loaded: None, ..given(&log, &[x]) }).unwrap_err(), unexpected(0, "x"));
    }

    #[test]
    fn a_question_on_open_calls_supersedes_them_or_is_rejected() {
        let log = window(vec![vec![Message::user("u0"), calls(&["x", "y"])]], false);
        let input = [Message::user("never mind")];
        let plan = planned(&log, &input).unwrap();
        assert_eq!((plan.continues, plan.superseded, plan.window.len()), (None, 2, 4));
        let rejected = super::plan(Given { on_open_turn: OnOpenTurn::Reject, ..given(&log, &input) });
        assert_eq!(rejected.unwrap_err(), InputError::TurnOpen { calls: 2 });
    }

    #[test]
    fn what_the_caller_resent_stands_for_a_history_that_is_not_there() {
        let (resent, input) = ([Message::user("u0"), calls(&["x"])], [Message::tool("x", "r")]);
        let log = window(vec![], false);
        let plan = plan(Given { loaded: None, resent: &resent, ..given(&log, &input) }).unwrap();
        assert_eq!((plan.window.as_slice(), plan.continues), (resent.as_slice(), None));
    }

    #[test]
    fn a_truncated_load_starts_at_three_quarters_of_its_limit() {
        let log = window(vec![vec![Message::user("u"), Message::assistant("a")]; 10], true);
        let limit = LoadLimit::new(20, 1 << 20).unwrap();
        let plan = plan(Given { limit, ..given(&log, &[Message::user("u")]) }).unwrap();
        assert_eq!(plan.cut.unwrap().window_start, Seq::new(3));
        assert_eq!(plan.window.len(), 14, "it is sent from where the next load will start");
    }

    proptest! {
        #[test]
        fn whatever_is_planned_is_valid_with_the_input_behind_it(
            log in prop::collection::vec(prop::collection::vec(any_message(), 1..4), 0..8),
            input in prop::collection::vec(any_message().prop_filter("inputs are not blank", |m| m.sendable().as_ref() == m && !m.is_blank_reply()), 1..5),
        ) {
            if let Ok(plan) = planned(&window(log, false), &input) {
                let sent: Vec<Message> = plan.window.into_iter().chain(input).collect();
                prop_assert_eq!(breaks_the_rules(&sent), None);
            }
        }
    }
}
