//! The search for the cutoffs of a window that has to be compacted.

use super::{
    FitBudget,
    call_budget::share,
    sizes::{Bounds, Cutoffs, Sizes},
    window_index::WindowIndex,
};
use crate::context::budget::{CallLimits, DoesNotFit, PromptTokens, TrimReason, Watermark};

/// The percentage of the limit to which a compaction goes down if the low watermark counts messages or turns.
const DEFAULT_LOW_PERCENT: u8 = 75;

/// A window, and the budget that it has to fit.
pub(super) struct CutoffSearch<'a> {
    pub(super) sizes: Sizes,
    pub(super) log: &'a WindowIndex<'a>,
    pub(super) budget: &'a FitBudget<'a>,
}

impl CutoffSearch<'_> {
    /// Returns the size of the prompt at these cutoffs.
    pub(super) fn total(&self, at: Cutoffs) -> u64 {
        self.budget.total(self.sizes.kept(at))
    }

    /// Returns `true` if a compaction is due.
    pub(super) fn is_due(&self) -> bool {
        let base = self.log.base;
        self.budget.is_due(self.sizes.kept(base), || self.log.turns(base.window))
    }

    /// Returns the reason of a compaction that is due.
    pub(super) fn reason(&self) -> TrimReason {
        match self.budget.watermarks.high {
            Watermark::Messages(_) if self.has_too_many(self.log.base) => TrimReason::Messages,
            Watermark::Turns(_) if self.has_too_many(self.log.base) => TrimReason::Turns,
            Watermark::Percent(_) | Watermark::Messages(_) | Watermark::Turns(_) => TrimReason::Tokens,
        }
    }

    /// Returns `true` if there are more messages or turns than the high watermark allows.
    pub(super) fn has_too_many(&self, at: Cutoffs) -> bool {
        self.budget.has_too_many(self.sizes.kept(at), || self.log.turns(at.window))
    }

    /// Returns `true` if the window itself is too large, so that the next calls need a smaller one too. If only this
    /// call's input is large, messages are left out for this call only.
    pub(super) fn is_lasting(&self) -> bool {
        let base = self.log.base;
        let window = self.budget.parts.fixed().saturating_add(self.sizes.kept(base).tokens);
        self.budget.stores && (self.has_too_many(base) || window > self.target_prompt())
    }

    /// Returns the size to which the reply has to shrink, if shrinking it is necessary, allowed and sufficient.
    pub(super) fn shrunk_reply(&self, at: Cutoffs) -> Option<u64> {
        let total = self.total(at);
        let fits = total <= self.budget.limits.max_prompt(self.budget.limits.least_reply?);
        (fits && total > self.budget.limit()).then(|| self.budget.limits.max_reply(total))
    }

    /// Returns the number of tokens that clearing has to free so that nothing else has to be left out.
    pub(super) fn tokens_to_clear(&self, lasting: bool) -> u64 {
        let kept = self.sizes.kept(self.log.base).tokens;
        let for_this_call = kept.saturating_sub(self.budget.room(self.budget.limit()).unwrap_or_default());
        if lasting { for_this_call.max(kept.saturating_sub(self.target())) } else { for_this_call }
    }

    /// Returns the size to which a compaction brings the prompt. It is at least the size of the fixed parts and half of
    /// the remaining limit.
    fn target_prompt(&self) -> u64 {
        let limit = self.budget.limit();
        let fixed = self.budget.parts.fixed();
        let percent = match self.budget.watermarks.low {
            Watermark::Percent(percent) => percent,
            Watermark::Messages(_) | Watermark::Turns(_) => DEFAULT_LOW_PERCENT,
        };
        share(limit, percent).max(fixed.midpoint(limit)).min(limit)
    }

    /// Returns the size to which a compaction brings the window. An input that is larger than the difference between
    /// limit and target is ignored, because it is not typical of the next calls.
    fn target(&self) -> u64 {
        let target = self.target_prompt();
        let input = Some(self.budget.parts.input).filter(|input| *input <= self.budget.limit() - target).unwrap_or(0);
        target.saturating_sub(self.budget.parts.fixed()).saturating_sub(input)
    }

    /// Returns the cutoffs that are stored, and the cutoffs of the prompt. The prompt fits, unless no prompt does:
    /// then it is the smallest one.
    pub(super) fn positions(&self, lasting: bool) -> (Cutoffs, Cutoffs) {
        let stored = if lasting { self.stored() } else { self.log.base };
        if self.total(stored) <= self.budget.limit() && !self.has_too_many(stored) {
            return (stored, stored);
        }
        (stored, self.sent(stored).unwrap_or(self.log.most))
    }

    /// Returns the cutoffs with which the next calls begin.
    fn stored(&self) -> Cutoffs {
        let base = self.log.base;
        let most = self.log.most;
        let to = self.budget.watermarks.low;
        let target = self.target();

        if self.log.continues {
            // Within a turn, only the cutoff of rounds is stored.
            let rounds = Bounds { least: base, most: Cutoffs { window: base.window, ..most } };
            let found = self.best(rounds, target, to).or_else(|| self.best(Bounds { least: base, most }, target, to));
            return found.map_or(base, |at| Cutoffs { window: base.window, ..at });
        }

        let last = Cutoffs { window: self.log.last_start(), rounds: self.log.len };
        let bounds = Bounds { least: base, most: last };
        let found = self.best(bounds, target, to);
        // The last turn may be larger than the target, and still fit.
        found
            .or_else(|| self.best(bounds, self.budget.room(self.budget.limit())?, Watermark::Percent(100)))
            .unwrap_or(last)
    }

    /// Returns the cutoffs for this call, if the stored ones are not sufficient.
    fn sent(&self, stored: Cutoffs) -> Option<Cutoffs> {
        let bounds = Bounds { least: stored, most: self.log.most };
        let within = self.budget.room(self.budget.limit());
        // Within a turn, the next call resembles this one. Going down further than needed keeps its beginning the same.
        let target = within.filter(|_| self.budget.stores && self.log.continues).map(|room| room.min(self.target()));
        let least_reply = self.budget.limits.least_reply;
        let with_least_reply = least_reply.and_then(|reply| self.budget.room(self.budget.limits.max_prompt(reply)));
        let high = self.budget.watermarks.high;
        let rooms = [target, within, with_least_reply].into_iter().flatten();
        let within_watermark = rooms.clone().find_map(|room| self.best(bounds, room, high));
        // The required messages may exceed a watermark that counts messages or turns, but not the room.
        within_watermark.or_else(|| rooms.into_iter().find_map(|room| self.best(bounds, room, Watermark::Percent(100))))
    }

    /// Returns the best cutoffs for a window of at most `room` tokens and, if the watermark counts messages or
    /// turns, of at most that many messages or turns.
    fn best(&self, bounds: Bounds, room: u64, mark: Watermark) -> Option<Cutoffs> {
        let starts = self.log.starts().iter().copied();
        match mark {
            Watermark::Percent(_) => self.sizes.best(starts, bounds, |size| size.tokens <= room),
            Watermark::Messages(most) => {
                self.sizes.best(starts, bounds, |size| size.tokens <= room && size.messages <= most)
            }
            Watermark::Turns(most) => {
                let starts = starts.filter(|start| self.log.turns(*start) <= most);
                self.sizes.best(starts, bounds, |size| size.tokens <= room)
            }
        }
    }

    /// Returns the error for a call for which no prompt fits.
    pub(super) fn does_not_fit(&self) -> DoesNotFit {
        self.does_not_fit_at(self.log.most)
    }

    /// Returns the error for a call whose prompt at these cutoffs does not fit and cannot be smaller.
    pub(super) fn does_not_fit_at(&self, at: Cutoffs) -> DoesNotFit {
        let CallLimits { context, prompt, reserve, least_reply, .. } = self.budget.limits;
        let reply_reserve = least_reply.unwrap_or(reserve);
        DoesNotFit {
            parts: PromptTokens { window: self.sizes.kept(at).tokens, ..self.budget.parts },
            context_window: context.min(prompt.saturating_add(reply_reserve)),
            reply_reserve,
            turn_is_bound: false,
        }
    }
}
