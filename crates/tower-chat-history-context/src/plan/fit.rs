//! Making a window fit its budget.
//!
//! A compaction is two positions, where the window starts and before which position rounds are left out, and optionally a
//! third, before which results are cleared. Of all pairs of positions that fit, the one is taken that keeps most tokens.
//!
//! Two things are decided: what this call sends, and what is stored for the next ones. They differ where only this call is
//! too large, and within a turn, where what is stored moves no window's start.

use std::fmt;

use tower_chat_history_core::{Cut, Message, Recorded, Seq};

use super::{
    clearing,
    cutoff_search::CutoffSearch,
    fold::Item,
    sizes::{Cutoffs, Size},
    trimming,
    window_index::WindowIndex,
};
use crate::budget::{ClearResults, DoesNotFit, Limits, PromptTokens, Trimmer, Trimming, Watermarks};

/// The budget that a window has to fit, and the rules by which it is made to.
#[derive(Clone, Copy)]
pub struct FitBudget<'a> {
    pub limits: Limits,
    pub watermarks: Watermarks,
    pub clear: Option<&'a ClearResults>,
    pub trimmer: Option<&'a dyn Trimmer>,
    /// True if a compaction is stored: otherwise there is no next call, and nothing is left out for its sake.
    pub stores: bool,
    /// The sizes of everything but the window, with the room that is reserved for a summary.
    pub parts: PromptTokens,
    pub cost: &'a dyn Fn(&Message) -> u64,
}

impl fmt::Debug for FitBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FitBudget").field("limits", &self.limits).field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// A window that fits.
#[derive(Debug, Default)]
pub struct Fit {
    pub window: Vec<Message>,
    /// The compaction that the next calls begin with, if it is another one than that of the given cut.
    pub cut: Option<Cut>,
    /// What the reply has to be limited to.
    pub reply: Option<u64>,
    pub tokens: u64,
    pub evicted: Size,
    /// Why it was made smaller, and how.
    pub trimming: Trimming,
    /// True if more was left out for this call than the next ones will leave out.
    pub for_this_call: bool,
}

/// Makes the items of these exchanges fit. `cut` is what holds so far, `continues` the exchange whose calls the input answers.
pub(super) fn fit(
    mut items: Vec<Item>,
    exchanges: &[Recorded],
    cut: &Cut,
    continues: Option<Seq>,
    budget: &FitBudget<'_>,
) -> Result<Fit, DoesNotFit> {
    let log = WindowIndex::of(exchanges, cut, continues);
    let cost = |item: &Item| (budget.cost)(&item.message);
    let cleared = log.index(cut.cleared_before);
    if let Some(clear) = budget.clear {
        clearing::apply(&mut items, clear, budget, log.seq(cleared));
    }
    let mut search = CutoffSearch { sizes: log.sizes(&items, cost), log: &log, budget };
    let before = search.sizes.kept(log.base);
    let mut fitted = Fitted { cut, log: &log, before, cleared, trimming: Trimming::default() };
    if !search.is_due() {
        return Ok(fitted.fit(items, &search, log.base, log.base));
    }
    fitted.trimming.reason = Some(search.reason());
    if let Some(reply) = search.shrunk_reply(log.base).filter(|_| !search.has_too_many(log.base)) {
        fitted.trimming.shrunk_reply = true;
        return Ok(Fit { reply: Some(reply), ..fitted.fit(items, &search, log.base, log.base) });
    }

    let lasting = search.is_lasting();
    let mut cleared_once = false;
    if let Some(clear) = budget.clear {
        let wanted = if lasting { search.gain(true).max(clear.at_least) } else { search.gain(false) };
        let position = clearing::position(&items, clear, budget, (log.seq(cleared), log.seq(log.len)), wanted);
        clearing::apply(&mut items, clear, budget, position);
        search.sizes = log.sizes(&items, cost);
        fitted.trimming.cleared_results = log.index(position) > cleared;
        if lasting {
            fitted.cleared = log.index(position);
        } else {
            cleared_once = fitted.trimming.cleared_results;
        }
    }
    let trimmer = budget.trimmer.filter(|_| !search.has_too_many(log.base));
    if let Some(trimmer) = trimmer
        && let Some((items, tokens)) = trimming::trim(&items, &search, trimmer)
    {
        let after = Size { tokens, messages: items.len() };
        fitted.trimming.by_trimmer = true;
        let fit = fitted.fit(items, &search, log.base, log.base);
        return Ok(Fit { tokens, evicted: fitted.before.less(after), for_this_call: true, ..fit });
    }
    // What a trimmer could not do is for this call too.
    fitted.trimming.trimmer_failed = trimmer.is_some();
    let (stored, sent) = search.positions(lasting && trimmer.is_none());
    let fits = search.total(sent) <= search.limit();
    let reply = if fits { None } else { Some(search.shrunk_reply(sent).ok_or_else(|| search.refused())?) };
    fitted.trimming.shrunk_reply = reply.is_some();
    let fit = fitted.fit(items, &search, stored, sent);
    Ok(Fit { reply, for_this_call: fit.for_this_call || cleared_once, ..fit })
}

/// A window without a budget: all of it but what the cut leaves out.
pub(super) fn unlimited(items: Vec<Item>, cut: &Cut) -> Fit {
    let is_sent = |item: &Item| item.round.is_none_or(|round| round.followed >= cut.rounds_start);
    let window = items.into_iter().filter(is_sent).map(|item| item.message).collect();
    Fit { window, ..Fit::default() }
}

/// The state of a fit, from which its outcome is made.
struct Fitted<'a> {
    cut: &'a Cut,
    log: &'a WindowIndex,
    before: Size,
    /// Before which index results are cleared for good.
    cleared: usize,
    trimming: Trimming,
}

impl Fitted<'_> {
    fn fit(&self, items: Vec<Item>, search: &CutoffSearch<'_>, stored: Cutoffs, sent: Cutoffs) -> Fit {
        let Self { cut, log, before, cleared, mut trimming } = *self;
        let (window, rounds) = (log.seq(sent.window), log.seq(sent.rounds.max(sent.window)));
        let window = items.into_iter().filter(|item| item.is_behind(window, rounds)).map(|item| item.message).collect();
        trimming.left_out_turns = sent.window > log.base.window;
        trimming.left_out_rounds = sent.rounds.max(sent.window) > log.base.rounds.max(sent.window);
        let mut next = cut.clone();
        if stored != log.base {
            next.window_start = next.window_start.max(log.seq(stored.window));
            next.rounds_start = next.rounds_start.max(log.seq(stored.rounds));
        }
        if cleared > log.index(cut.cleared_before) {
            next.cleared_before = log.seq(cleared);
        }
        let after = search.sizes.kept(sent);
        Fit {
            window,
            cut: (next != *cut).then_some(next),
            reply: None,
            tokens: after.tokens,
            evicted: before.less(after),
            trimming,
            for_this_call: sent != stored,
        }
    }
}
