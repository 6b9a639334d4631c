//! Making a window fit its budget.
//!
//! A compaction consists of two cutoffs: the start of the window, and the position before which rounds are left out. A
//! third position, before which results are cleared, is optional. Of all pairs of cutoffs that fit, the pair that keeps
//! the most tokens is used.
//!
//! There is one pair for the prompt of this call, and one that is stored for the next calls. They differ if only this
//! call is too large, and within a turn, during which the stored start of the window does not move.
//!
//! # Decisions
//!
//! - **The best of all pairs is used.** Leaving out all rounds first, and then turns, wastes a tenth of the budget.
//! - **A compaction goes down to a low watermark and is stored**, so that the beginning of the prompt stays cached for
//!   many turns: in 500 simulated turns, 91% of the input tokens (`replay --synthetic 500 --context 8000`). A window
//!   that slides at every turn is never cached.
//! - **A call that continues a turn doesn't move the window's start**, because the turn's next call needs its question.

use std::iter;

use tower_chat_history_core::{Cut, Message, Positions, Recorded, Seq};

use super::{
    call_budget::{CallBudget, FitBudget},
    clearing,
    cutoff_search::CutoffSearch,
    item::{Extent, Item},
    media::MediaSize,
    reasoning::{self, Conditions, Reasoning, Rule},
    thoughts::{self, Thoughts},
    trimming,
    window_index::{Cutoffs, Size, WindowIndex},
};
use crate::context::{
    bridge,
    budget::{DoesNotFit, Trimming},
};

/// A window that fits.
#[derive(Debug, Default)]
pub(crate) struct Fit {
    pub(crate) window: Vec<Message>,
    /// The cut with which the next calls begin, if it differs from the previous cut.
    pub(crate) cut: Option<Cut>,
    /// The lowered limit of the reply, if it has to shrink.
    pub(crate) reply: Option<u64>,
    pub(crate) tokens: u64,
    /// The positions of the exchanges of which the prompt has a message, in order.
    pub(crate) sent: Vec<Seq>,
    /// The position before which the prompt lacks the questions of the log. Parts of the log after it may be left out,
    /// too. If the prompt begins within a reply, it is the position after this reply.
    pub(crate) recallable_before: Seq,
    /// True if the prompt begins with a message that stands for everything before it.
    pub(crate) restarts: bool,
    pub(crate) evicted: Size,
    /// The account of how the window was made smaller.
    pub(crate) trimming: Trimming,
    /// True if this call leaves out more than the next calls will.
    pub(crate) for_this_call: bool,
    /// The positions of the cut under which the prompt is sent.
    pub(crate) sent_under: Positions,
    /// The reasoning that was left out.
    pub(crate) reasoning: Reasoning,
    /// The media that are left out of the messages that are sent.
    pub(crate) media: MediaSize,
    /// The unsigned reasoning of earlier turns.
    pub(crate) thoughts: Thoughts,
}

/// The window of a call, before it is made to fit.
#[derive(Debug)]
pub(super) struct WholeWindow<'a> {
    pub(super) items: Vec<Item>,
    pub(super) exchanges: &'a [Recorded],
    /// The previous cut.
    pub(super) cut: &'a Cut,
    /// The exchange whose calls the input answers.
    pub(super) continues: Option<Seq>,
    pub(super) summary: Option<&'a Message>,
    pub(super) conditions: Conditions<'a>,
}

impl WholeWindow<'_> {
    /// Leaves out the reasoning that is not valid in the prompt under the cut.
    pub(super) fn apply_rule(&mut self, log: &WindowIndex<'_>) -> Reasoning {
        let Self { items, exchanges, cut, summary, conditions, .. } = self;
        Rule { call: *conditions, summary: *summary, exchanges, cut, log }.apply(items)
    }
}

/// Makes the window fit.
pub(super) fn fit(mut window: WholeWindow<'_>, budget: &FitBudget<'_>) -> Result<Fit, DoesNotFit> {
    let WholeWindow { exchanges, cut, continues, .. } = window;
    let log = WindowIndex::of(exchanges, cut, continues);

    // The results that earlier calls cleared, and the reasoning that is not valid any more.
    let cleared = log.index(cut.cleared_before);
    if let Some(clear) = budget.clear {
        clearing::apply(&mut window.items, clear, budget.cost, log.seq(cleared));
    }
    let reasoning = window.apply_rule(&log);

    let mut items = window.items;
    let before = log.size(&items, budget.cost);
    let mut account = Account {
        cut,
        log: &log,
        call: window.conditions,
        cost: budget.cost,
        before,
        next: cut.positions,
        without_reasoning: false,
        cleared_for_this_call: None,
        reasoning,
        trimming: Trimming::default(),
    };

    // A compaction that is due has to wait until a turn with bound reasoning ends.
    let binds_turn = reasoning::binds_turn(&items, &log);
    let is_due = budget.is_due(before, || log.turns(log.base.window));
    if !is_due || binds_turn && budget.call.total(before) <= budget.call.limit() {
        return Ok(account.fit(items, before, log.base, log.base));
    }

    // First, the reply shrinks.
    let mut search = CutoffSearch::of(&items, &log, budget);
    account.trimming.reason = Some(search.reason());
    if let Some(reply) = search.shrunk_reply(log.base).filter(|_| binds_turn || !search.has_too_many(log.base)) {
        account.trimming.shrunk_reply = true;
        return Ok(Fit { reply: Some(reply), ..account.fit(items, search.sizes.kept(log.base), log.base, log.base) });
    }

    // Anything else changes the prompt, so that the reasoning of an open turn is not valid any more.
    if binds_turn && !window.conditions.request.may_drop_reasoning {
        return Err(DoesNotFit { turn_is_bound: true, ..search.does_not_fit_at(log.base) });
    }

    let lasting = search.is_lasting();
    let mut left_out_for_this_call = false;
    if account.leave_out_reasoning(&mut items, lasting) {
        search.measure(&items);
        left_out_for_this_call = !lasting;
    }

    // Then, old reasoning is left out. If that is enough, nothing else is.
    if lasting && account.leave_out_thoughts(&mut items) {
        search.measure(&items);
        if !search.is_due() && search.tokens_to_clear(lasting) == 0 {
            return Ok(account.fit(items, search.sizes.kept(log.base), log.base, log.base));
        }
    }

    // Then, recalled messages of earlier turns are left out, and results are cleared.
    if lasting && account.leave_out_recalled(&mut items) {
        search.measure(&items);
        if !search.is_due() {
            // The prompt still begins as before, up to the first of the messages that were left out.
            return Ok(account.fit(items, search.sizes.kept(log.base), log.base, log.base));
        }
    }

    if let Some(clear) = budget.clear {
        let wanted = search.tokens_to_clear(lasting).max(if lasting { clear.at_least } else { 0 });
        let position = clearing::position(&items, clear, budget.cost, (log.seq(cleared), log.seq(log.len)), wanted);
        clearing::apply(&mut items, clear, budget.cost, position);
        search.measure(&items);

        let clears_more = log.index(position) > cleared;
        account.trimming.cleared_results = clears_more;
        if !lasting {
            left_out_for_this_call |= clears_more;
            account.cleared_for_this_call = Some(position);
        } else if clears_more {
            account.next.cleared_before = log.seq(log.index(position));
        }
    }

    // Then, a trimmer chooses turns. The continuations of a turn cannot repeat a choice of the trimmer, and such a
    // request needs their reasoning.
    let may_trim = !window.conditions.request.thinks_with_budget;
    let trimmer = budget.trimmer.filter(|_| may_trim && !search.has_too_many(log.base));
    if let Some(trimmer) = trimmer
        && let Some((items, tokens)) = trimming::trim(&items, &search, trimmer)
    {
        let after = Size { tokens, messages: items.len() };
        account.trimming.by_trimmer = true;
        let fit = account.fit(items, search.sizes.kept(log.base), log.base, log.base);
        return Ok(Fit { tokens, evicted: account.before.less(after), for_this_call: true, ..fit });
    }

    // Last, the oldest rounds and turns are left out. If the trimmer failed, its replacement applies to this call
    // only, too.
    account.trimming.trimmer_failed = trimmer.is_some();
    let (stored, sent) = search.positions(lasting && trimmer.is_none());

    let mut reply = None;
    if search.total(sent) > budget.call.limit() {
        reply = Some(search.shrunk_reply(sent).ok_or_else(|| search.does_not_fit())?);
    }
    account.trimming.shrunk_reply = reply.is_some();

    let fit = account.fit(items, search.sizes.kept(sent), stored, sent);
    Ok(Fit { reply, for_this_call: fit.for_this_call || left_out_for_this_call, ..fit })
}

impl Fit {
    /// Puts the summary first, and a constant reply after it if a question follows. `input` is the first message after
    /// the window. Returns the constant reply if it's not needed.
    pub(super) fn begin_with(&mut self, summary: &Message, input: Option<&Message>) -> Option<Message> {
        let reply = bridge::reply_to_summary(summary, self.window.first().or(input));
        let unused = if reply.is_none() { bridge::constant_reply(summary, bridge::UNDERSTOOD) } else { None };
        self.window.splice(0..0, iter::once(summary.clone()).chain(reply));
        unused
    }

    /// Lets the reply shrink only as far as the prompt needs it without the tokens that are reserved for recalled
    /// messages.
    pub(super) fn keep_reply(&mut self, CallBudget { limits, sizes }: CallBudget) {
        if self.reply.is_none() || sizes.recalled == 0 {
            return;
        }

        let prompt = sizes.total().saturating_add(self.tokens).saturating_sub(sizes.recalled);
        self.reply = (prompt > limits.max_prompt(limits.reserve)).then(|| limits.max_reply(prompt));
        self.trimming.shrunk_reply = self.reply.is_some();
        if self.trimming == (Trimming { reason: self.trimming.reason, ..Trimming::default() }) {
            self.trimming = Trimming::default();
        }
    }
}

/// Returns the window without a budget: all messages except the rounds that the cut leaves out.
pub(super) fn unlimited(mut window: WholeWindow<'_>) -> Fit {
    let WholeWindow { exchanges, cut, continues, .. } = window;
    let mut reasoning = Reasoning::default();
    if window.items.iter().any(Item::is_ruled) {
        reasoning = window.apply_rule(&WindowIndex::of(exchanges, cut, continues));
    }

    let items = kept(window.items, Extent { window: Seq::FIRST, rounds: cut.rounds_start });
    let Begin { restarts, recallable_before } = Begin::of(&items, cut.window_start, reasoning);
    let media = MediaSize::left_out_of(&items);
    let (window, sent) = messages(items);
    Fit { window, sent, recallable_before, restarts, sent_under: cut.positions, reasoning, media, ..Fit::default() }
}

/// Returns what a prompt with this extent contains of these items.
pub(super) fn kept(items: Vec<Item>, extent: Extent) -> Vec<Item> {
    // Between two compactions, all items are kept.
    if items.iter().all(|item| item.is_kept(extent)) {
        return items;
    }
    items.into_iter().filter_map(|item| item.kept(extent)).collect()
}

/// Returns the messages of these items, and the positions of their exchanges.
fn messages(items: Vec<Item>) -> (Vec<Message>, Vec<Seq>) {
    let mut sent = Vec::with_capacity(items.len());
    sent.extend(items.iter().filter(|item| !item.is_bridge).map(|item| item.seq));
    sent.dedup();

    // Results can be after a later exchange than their calls.
    if !sent.is_sorted() {
        sent.sort_unstable();
        sent.dedup();
    }

    (items.into_iter().map(|item| item.message).collect(), sent)
}

/// The beginning of a prompt.
struct Begin {
    /// True if it is a message that stands for everything before it.
    restarts: bool,
    recallable_before: Seq,
}

impl Begin {
    /// Returns the beginning of a prompt with these items. `start` is the start of the window.
    fn of(items: &[Item], start: Seq, reasoning: Reasoning) -> Self {
        let restarts = reasoning.restarts && items.iter().any(|item| item.message.index().restarts);
        let Some(first) = items.first().filter(|_| restarts) else {
            return Self { restarts, recallable_before: start };
        };

        let sent_from = start.max(first.seq);
        let recallable_before = if first.is_reply { sent_from.next() } else { sent_from };
        Self { restarts, recallable_before }
    }
}

/// The account of a fit: what is left out of the prompt, and of the next ones.
struct Account<'a> {
    /// The previous cut.
    cut: &'a Cut,
    log: &'a WindowIndex<'a>,
    call: Conditions<'a>,
    /// Counts the tokens of a message.
    cost: &'a dyn Fn(&Message) -> u64,
    /// The size of the window at the previous cut.
    before: Size,
    /// The positions of the next prompts, without the cutoffs of the window.
    next: Positions,
    reasoning: Reasoning,
    /// The position before which results are cleared in this prompt only.
    cleared_for_this_call: Option<Seq>,
    /// True if all bound reasoning is left out, because the prompt changes.
    without_reasoning: bool,
    trimming: Trimming,
}

impl Account<'_> {
    /// Leaves out the recalled messages of earlier turns, in this prompt and in the next ones. Returns `false` if there
    /// are none.
    fn leave_out_recalled(&mut self, items: &mut Vec<Item>) -> bool {
        let current_turn = self.log.seq(self.log.most.window);
        let all = items.len();
        items.retain(|item| !item.is_recalled || item.seq >= current_turn);
        let are_left_out = items.len() < all;
        if are_left_out {
            self.next.recalled_from = self.next.recalled_from.max(current_turn);
            self.trimming.left_out_recalled = true;
        }
        are_left_out
    }

    /// Leaves out the old reasoning that nobody has signed, in this prompt and in the next ones. Returns `false` if
    /// there is none.
    fn leave_out_thoughts(&mut self, items: &mut [Item]) -> bool {
        let Some(turns) = self.call.old_reasoning else { return false };
        let before = self.log.seq(self.log.start_of_newest(usize::try_from(turns).unwrap_or(usize::MAX)));
        let are_left_out = thoughts::leave_out(items, before, self.call.compat);
        if are_left_out {
            self.next.thoughts_from = self.next.thoughts_from.max(before);
            self.trimming.left_out_reasoning = true;
        }
        are_left_out
    }

    /// Leaves out all reasoning that is bound to its prompt: any other cut changes the prompt. If the cut lasts, the
    /// next prompts leave it out, too. Returns `false` if there is none.
    fn leave_out_reasoning(&mut self, items: &mut Vec<Item>, lasting: bool) -> bool {
        let left_out = reasoning::leave_out_bound_to_prefix(items, self.log.continues);
        self.reasoning.left_out += left_out;
        self.without_reasoning = true;
        if lasting && self.reasoning.left_out > 0 {
            self.next.reasoning_from = self.log.seq(self.log.len);
        }
        left_out > 0
    }

    /// Builds the fit from the size of what is sent, the cutoffs that are stored, and the cutoffs of the prompt.
    fn fit(&self, items: Vec<Item>, after: Size, stored: Cutoffs, sent: Cutoffs) -> Fit {
        let Self { cut, log, before, reasoning, mut trimming, .. } = *self;

        let extent = log.extent(sent);
        let items = kept(items, extent);
        let Begin { restarts, recallable_before } = Begin::of(&items, extent.window, reasoning);
        let media = MediaSize::left_out_of(&items);
        let mut thoughts = Thoughts::default();
        if self.call.old_reasoning.is_some() {
            thoughts = Thoughts::of(&items, log.seq(log.most.window), self.cost);
        }
        let (window, sent_exchanges) = messages(items);

        trimming.left_out_turns = sent.window > log.base.window;
        trimming.left_out_rounds = sent.rounds.max(sent.window) > log.base.rounds.max(sent.window);

        // The cut of the next prompts.
        let mut next = cut.clone();
        next.positions = self.next;
        if stored != log.base {
            next.window_start = next.window_start.max(log.seq(stored.window));
            next.rounds_start = next.rounds_start.max(log.seq(stored.rounds));
        }

        // The positions of this prompt, if it leaves out more.
        let mut sent_under = next.positions;
        if self.without_reasoning && self.reasoning.left_out > 0 {
            sent_under.reasoning_from = log.seq(log.len);
        }
        if let Some(position) = self.cleared_for_this_call {
            sent_under.cleared_before = sent_under.cleared_before.max(position);
        }
        if sent != stored {
            sent_under.window_start = sent_under.window_start.max(log.seq(sent.window));
            sent_under.rounds_start = sent_under.rounds_start.max(log.seq(sent.rounds));
        }

        Fit {
            window,
            cut: (next != *cut).then_some(next),
            reply: None,
            tokens: after.tokens,
            sent: sent_exchanges,
            recallable_before,
            restarts,
            evicted: before.less(after),
            trimming,
            for_this_call: sent != stored,
            sent_under,
            reasoning,
            media,
            thoughts,
        }
    }
}
