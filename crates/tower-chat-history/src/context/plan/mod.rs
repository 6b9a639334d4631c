//! The plan of a call: the messages that are sent, as a pure function of the loaded history, the input and the policy.
//!
//! Begin with [`plan_prompt`]. It folds the log's window into [items](item), leaves out [reasoning] that is not valid any
//! more, and makes the rest [fit] the budget.

mod adapt;
#[cfg(test)]
mod adapt_tests;
#[cfg(test)]
mod asking_tests;
mod call_budget;
mod clearing;
mod cutoff_search;
pub(crate) mod explain;
mod fit;
#[cfg(test)]
mod fit_tests;
mod fold;
#[cfg(test)]
mod fold_tests;
mod history;
mod input;
mod item;
mod media;
#[cfg(test)]
mod media_tests;
mod reasoning;
#[cfg(test)]
mod reasoning_tests;
mod same;
#[cfg(test)]
mod same_tests;
#[cfg(test)]
mod sequence_tests;
#[cfg(test)]
mod server_tools_tests;
#[cfg(test)]
mod tests;
mod thoughts;
#[cfg(test)]
mod thoughts_tests;
pub(crate) mod transcript;
#[cfg(test)]
mod transcript_tests;
mod trimming;
#[cfg(test)]
mod trimming_tests;
mod window_index;

use tower_chat_history_core::{Cut, LoadLimit, MediaCompat, Message, Origin, Positions, Recorded, Seq};

pub(crate) use self::{
    adapt::forms_to_count,
    call_budget::{CallBudget, FitBudget, GrownWindow},
    history::{History, LoadedWindow, first_uncovered, pinned},
    input::refuse_foreign,
    media::MediaSize,
    reasoning::{Conditions, SentPrompt, provenance},
    window_index::can_start_window,
};
use self::{
    adapt::{Around, adapt},
    fit::{Fit, WholeWindow},
    fold::Folded,
    history::cut_truncated,
    input::{check_continued, check_input, continues_turn},
    item::Extent,
};
pub use self::{
    input::{InputError, OnOpenTurn},
    transcript::TranscriptError,
};
use crate::context::{
    bridge,
    budget::{DoesNotFit, TrimReason, Trimming},
};

/// A list that cannot be made to fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// The list is not a valid prompt.
    #[error("the messages are not a valid prompt: {0}")]
    Input(#[from] InputError),
    /// The messages that have to be sent are too large.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
}

/// The plan of a call: the messages to send before the input, and the values that are recorded with the exchange.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The messages of the log to send, and the account of how they were made to fit. Followed by the input, the
    /// messages obey the chat rules.
    pub(crate) fit: Fit,
    /// The exchange whose calls the input answers.
    pub(crate) continues: Option<Seq>,
    /// The number of open calls that a new question in the input closed without results.
    pub(crate) superseded: usize,
    /// The budget that the prompt fits, if there is one.
    pub(crate) budget: Option<CallBudget>,
    /// The tokens by which the prompt may exceed the budget's largest prompt, because the provider counts fewer.
    pub(crate) raised_by: u64,
    /// The size of the summary that is sent, with the constant reply to it.
    pub(crate) summary_tokens: u64,
    /// The part of the log from which messages can be recalled for this call, which may be empty if messages of other
    /// conversations can be. `None` if nothing is to be recalled.
    pub(crate) recallable: Option<Recallable>,
}

/// The part of the log that a prompt does not contain, and the room for messages of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recallable {
    /// The position before which the prompt lacks the questions of the log.
    pub(crate) before: Seq,
    /// The tokens that are free in the prompt. `None` without a budget.
    pub(crate) room: Option<u64>,
}

/// The input of the planner. `Debug` shows no text, because the `Debug` of messages shows none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanInput<'a> {
    pub(crate) history: History<'a>,
    /// The summary, as the message that is sent first.
    pub(crate) summary: Option<&'a Message>,
    /// The size of the summary and of the constant reply to it.
    pub(crate) summary_tokens: u64,
    pub(crate) input: &'a [Message],
    /// The messages that are stored in place of the input.
    pub(crate) instead: Option<&'a [Message]>,
    pub(crate) limit: LoadLimit,
    pub(crate) on_open_turn: OnOpenTurn,
    /// The tokens that the counter counts and the provider does not, at the beginning of the prompt.
    pub(crate) overcount: u64,
    /// The tokens to reserve for messages that are recalled for this call. `None` if nothing is to be recalled.
    pub(crate) recall_reserve: Option<u64>,
    /// True if messages of other conversations may be recalled, also if the prompt contains the whole log.
    pub(crate) recalls_others: bool,
    /// The conditions on which the validity of reasoning depends.
    pub(crate) conditions: Conditions<'a>,
    /// The budget, if there is one. Its [`summary`](crate::context::budget::PromptTokens::summary) is the room that is
    /// reserved for a summary.
    pub(crate) budget: Option<FitBudget<'a>>,
}

impl<'a> PlanInput<'a> {
    /// Returns the input of a call without a summary, a budget and recall, with the default policies.
    pub(crate) fn new(history: History<'a>, input: &'a [Message]) -> Self {
        Self {
            history,
            summary: None,
            summary_tokens: 0,
            input,
            instead: None,
            limit: LoadLimit::default(),
            on_open_turn: OnOpenTurn::default(),
            overcount: 0,
            recall_reserve: None,
            recalls_others: false,
            conditions: Conditions::unknown(),
            budget: None,
        }
    }
}

/// Plans the prompt of a call.
///
/// Returns the first prompt that fits, with as much as possible of what the call [can do without](Extras).
///
/// # Errors
///
/// Returns an error if the input is not valid, or if the smallest prompt does not fit.
pub(crate) fn plan_prompt(input: &PlanInput<'_>) -> Result<Plan, FitError> {
    let Some(budget) = input.budget else { return plan_with_extras(input, None, Extras::of(input)) };
    let limits = budget.call.limits;

    // Overcounted tokens are those of the prompt's beginning. They raise the limits only if nothing is left out.
    let (raised, raised_by) = limits.raised(input.overcount);
    if raised_by > 0
        && let Ok(mut plan) = plan_within(input, budget.with_limits(raised))
        && plan.fit.trimming.reason.is_none()
    {
        plan.raised_by = raised_by;
        if let Some(budget) = &mut plan.budget {
            budget.limits = limits;
        }
        return Ok(plan);
    }

    match plan_within(input, budget) {
        // If a wrong correction factor made all calls fail, no provider's report could ever correct it.
        Err(FitError::DoesNotFit(_)) if limits.ratio > 1.0 => {
            plan_within(input, budget.with_limits(limits.as_counted()))
        }
        planned => planned,
    }
}

/// Plans a call within this budget. Each round of the loop does without one thing more.
fn plan_within(input: &PlanInput<'_>, budget: FitBudget<'_>) -> Result<Plan, FitError> {
    let mut extras = Extras::of(input);
    loop {
        let error = match plan_with_extras(input, Some(budget), extras) {
            Err(FitError::DoesNotFit(error)) => error,
            planned => return planned,
        };

        // Room that is reserved for a larger summary in the future is not needed for this call.
        let reserves_more = extras.summary_room != extras.summary_tokens;
        if error.turn_is_bound {
            // Without anything that earlier prompts of the turn contained, its reasoning would not be valid.
            if !reserves_more {
                return Err(error.into());
            }
            extras.summary_room = extras.summary_tokens;
        } else if extras.recall_reserve.is_some() {
            extras.recall_reserve = None;
        } else if extras.sends_recalled && continues_turn(input.input) && input.history.has_recalled() {
            // If the input opens a turn, nothing of the window has to be sent, so recalled messages are not the reason.
            extras.sends_recalled = false;
        } else if reserves_more {
            extras.summary_room = extras.summary_tokens;
        } else if extras.summary.is_some() {
            // The call is more important than the summary.
            extras.summary = None;
            extras.summary_tokens = 0;
            extras.summary_room = 0;
        } else {
            return Err(error.into());
        }
    }
}

/// The parts that a prompt can do without if it does not fit.
#[derive(Clone, Copy)]
struct Extras<'a> {
    /// The tokens to reserve for messages that are recalled for this call. `None` if nothing is to be recalled.
    recall_reserve: Option<u64>,
    /// True if the recalled messages of earlier exchanges are sent.
    sends_recalled: bool,
    /// The room for a summary: the stored one, or a larger one in the future.
    summary_room: u64,
    summary: Option<&'a Message>,
    summary_tokens: u64,
}

impl<'a> Extras<'a> {
    fn of(input: &PlanInput<'a>) -> Self {
        Self {
            recall_reserve: input.recall_reserve,
            sends_recalled: true,
            summary_room: input.budget.map_or(0, |budget| budget.call.sizes.summary),
            summary: input.summary,
            summary_tokens: input.summary_tokens,
        }
    }

    /// Records which extras of the input the prompt does without.
    fn record(self, input: &PlanInput<'_>, trimming: &mut Trimming) {
        if !self.sends_recalled {
            trimming.left_out_recalled = true;
            trimming.reason.get_or_insert(TrimReason::Tokens);
        }
        if input.summary.is_some() && self.summary.is_none() {
            trimming.left_out_summary = true;
            trimming.reason.get_or_insert(TrimReason::Tokens);
        }
    }
}

/// Plans a call with these extras, and without fallbacks.
///
/// If media are left out and the prompt becomes smaller, they are counted again in what is left, because the next
/// prompts count them there. The other prompt can have another size, so this can take more than one step.
fn plan_with_extras(
    input: &PlanInput<'_>,
    budget: Option<FitBudget<'_>>,
    extras: Extras<'_>,
) -> Result<Plan, FitError> {
    const MOST_STEPS: usize = 3;

    let mut counted = Extent::of(input.history.cut().map_or_else(Positions::default, |cut| cut.positions));
    let mut plan = plan_with_media(input, budget, extras, counted)?;
    for _ in 0..MOST_STEPS {
        let sent = Extent::of(plan.fit.sent_under);
        if plan.fit.media.number == 0 || sent == counted {
            break;
        }
        counted = sent;
        let Ok(next) = plan_with_media(input, budget, extras, counted) else { break };
        plan = next;
    }
    Ok(plan)
}

/// Plans a call with these extras. The media in this extent count.
fn plan_with_media(
    input: &PlanInput<'_>,
    mut budget: Option<FitBudget<'_>>,
    extras: Extras<'_>,
    counted: Extent,
) -> Result<Plan, FitError> {
    let history = input.history;
    let window = history.window();

    // The exchanges of the window, by the stored cut, or by the one that a truncated load causes.
    let truncated = window.and_then(|window| cut_truncated(window, input.limit));
    let cut = truncated.as_ref().or(history.cut()).cloned().unwrap_or_default();
    let exchanges = in_window(history.exchanges(), &cut);
    let mut positions = cut.positions;
    if !extras.sends_recalled {
        positions.recalled_from = exchanges.last().map_or(cut.window_start, |last| last.seq.next());
    }

    // The items of the prompt, if the input can follow them.
    let mut folded = Folded::of(exchanges, positions);
    folded.drop_attempt_before(input.input);
    let answers = check(&folded, input)?;
    let continues = folded.state().asked().filter(|_| answers);
    let superseded = if answers { 0 } else { folded.open().len() };
    let items = folded.into_items_before(input.input, answers);
    let has_summary = extras.summary.is_some();
    let around = Around { exchanges, call: input.conditions, input: input.input, has_summary, counted };
    let mut items = adapt(items, around);

    // The old reasoning that earlier compactions left out, or that leaves at the end of each turn.
    let thoughts_from = thoughts::left_out_before(input.conditions, exchanges, &cut, continues);
    let leaves_out_thoughts = thoughts::leave_out(&mut items, thoughts_from, input.conditions.compat);

    // The room for a summary and for recalled messages. Only a question that opens a turn gets recalled messages, so
    // they are never between a call and its result. Without the log, nothing is known about the conversation, not even
    // if it exists.
    let first = bridge::first_of(input.input);
    let recall_reserve = extras.recall_reserve.filter(|_| !answers && first.is_some_and(bridge::is_question));
    let recalls_others = input.recalls_others && !matches!(history, History::Resent(_));
    let begins_within = window.is_some_and(|window| cut.window_start > window.revision.first());
    if let Some(FitBudget { call, .. }) = &mut budget {
        call.sizes.summary = extras.summary_room;
        call.sizes.recalled = recall_reserve.filter(|_| begins_within || recalls_others).unwrap_or(0);
    }

    // The part of the items that fits, after the summary.
    let whole =
        WholeWindow { items, exchanges, cut: &cut, continues, summary: extras.summary, conditions: input.conditions };
    let mut fit = match &budget {
        Some(budget) => fit::fit(whole, budget)?,
        None => fit::unlimited(whole),
    };
    if input.input.is_empty() {
        let last = fit.sent.last().and_then(|seq| exchanges.iter().rfind(|recorded| recorded.seq == *seq));
        check_continued(last, continues)?;
    }

    // The summary. A message that stands for everything before it stands for the summary, too.
    let mut summary_tokens = 0;
    if let Some(summary) = extras.summary.filter(|_| !fit.restarts) {
        let unused = fit.begin_with(summary, first);
        let unused = unused.zip(budget.as_ref()).map_or(0, |(reply, budget)| (budget.cost)(&reply));
        summary_tokens = extras.summary_tokens.saturating_sub(unused);
    } else {
        fit.sent_under.covers_to = Seq::FIRST;
    }

    // The cut to store with the exchange.
    if leaves_out_thoughts {
        fit.sent_under.thoughts_from = fit.sent_under.thoughts_from.max(thoughts_from);
    }
    fit.sent_under.recalled_from = fit.sent_under.recalled_from.max(positions.recalled_from);
    fit.cut = fit.cut.or(truncated).filter(|_| window.is_some());
    if positions.recalled_from > cut.recalled_from && budget.is_some_and(|budget| budget.stores) {
        fit.cut.get_or_insert(cut).recalled_from = positions.recalled_from;
    }

    // The account of what the prompt does without.
    let budget = budget.map(|budget| budget.call);
    if let Some(budget) = budget {
        fit.keep_reply(budget);
    }
    extras.record(input, &mut fit.trimming);

    // The part of the log from which messages can be recalled.
    let lacks_messages = window.is_some_and(|window| fit.recallable_before > window.revision.first());
    let recallable = recall_reserve.filter(|_| recalls_others || lacks_messages).map(|_| Recallable {
        before: fit.recallable_before,
        room: budget.map(|budget| budget.room_for_recalled(fit.tokens)),
    });

    Ok(Plan {
        fit,
        // Positions in a list that the caller resent are not positions of the log.
        continues: continues.filter(|_| window.is_some()),
        superseded,
        budget,
        raised_by: 0,
        summary_tokens,
        recallable,
    })
}

/// Checks that the input can follow the log. Returns `true` if it answers the open calls, and `false` if it opens a
/// turn.
fn check(log: &Folded, input: &PlanInput<'_>) -> Result<bool, InputError> {
    let answers = check_input(log.state(), input.input)?;
    if let Some(instead) = input.instead
        && check_input(log.state(), instead)? != answers
    {
        return Err(InputError::InsteadDiffers);
    }
    if let Some(position) = log.open_calls_in(input.input) {
        return Err(InputError::Resent { position });
    }

    let calls = log.open().len();
    if !answers && calls > 0 && input.on_open_turn == OnOpenTurn::Reject {
        return Err(InputError::TurnOpen { calls });
    }
    Ok(answers)
}

/// Returns the exchanges from the start of the window on.
fn in_window<'a>(exchanges: &'a [Recorded], cut: &Cut) -> &'a [Recorded] {
    let start = exchanges.partition_point(|recorded| recorded.seq < cut.window_start);
    &exchanges[start..]
}

/// Returns the cut that the window should have after a call. The exchanges that it leaves out can then be summarized in
/// advance. `origin` and `media` are those of the next call's reader. Its prompt lacks everything that it cannot read.
/// Returns `None` if the window can stay as it is, or if its last turn is still open.
pub(crate) fn next_cut(
    window: &LoadedWindow,
    limit: LoadLimit,
    budget: &FitBudget<'_>,
    origin: &Origin,
    media: MediaCompat,
    old_reasoning: Option<u32>,
) -> Option<Cut> {
    let truncated = cut_truncated(window, limit);
    let cut = truncated.as_ref().or(window.cut()).cloned().unwrap_or_default();
    let exchanges = in_window(&window.exchanges, &cut);
    let folded = Folded::of(exchanges, cut.positions);
    if !folded.open().is_empty() || folded.state().awaits_reply() {
        return None;
    }

    // The head of the next prompt is not known yet. Without reasoning, the sizes are the smallest possible ones.
    let conditions = Conditions { origin, old_reasoning, ..Conditions::unknown() };
    let mut items = folded.into_items(false);
    media::leave_out(&mut items, media, &[], Extent::of(cut.positions));
    let thoughts_from = thoughts::left_out_before(conditions, exchanges, &cut, None);
    thoughts::leave_out(&mut items, thoughts_from, conditions.compat);
    let whole = WholeWindow { items, exchanges, cut: &cut, continues: None, summary: None, conditions };
    let watermarks = budget.watermarks.as_if_due();
    let fit = fit::fit(whole, &FitBudget { watermarks, ..*budget }).ok()?;
    fit.cut.or(truncated)
}
