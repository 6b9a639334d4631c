//! Making a window fit its budget.
//!
//! A compaction is two positions, where the window starts and before which position rounds are left out, and optionally a
//! third, before which results are cleared. Of all pairs of positions that fit, the one is taken that keeps most tokens.
//!
//! Two things are decided: what this call sends, and what is stored for the next ones. They differ where only this call is
//! too large, and within a turn, where what is stored moves no window's start.

use tower_chat_history_core::{Cut, Message, Recorded, Role, Seq};

use super::{
    clearing,
    fold::Item,
    sizes::{Bounds, Positions, Size, Sizes, index},
    trimming,
};
use crate::budget::{ClearResults, DoesNotFit, Limits, Mark, Marks, PromptTokens, Trimmer};

/// The budget of one call.
#[derive(Clone, Copy)]
pub(crate) struct Fitting<'a> {
    pub(crate) limits: Limits,
    pub(crate) marks: Marks,
    pub(crate) clear: Option<&'a ClearResults>,
    pub(crate) trimmer: Option<&'a dyn Trimmer>,
    /// Whether a compaction is stored: otherwise there is no next call, and nothing is left out for its sake.
    pub(crate) stores: bool,
    /// The sizes of everything but the window.
    pub(crate) parts: PromptTokens,
    pub(crate) cost: &'a dyn Fn(&Message) -> u64,
}

/// A window that fits.
#[derive(Debug, Default)]
pub(crate) struct Fit {
    pub(crate) window: Vec<Message>,
    /// The compaction that the next calls begin with, if it is another one than that of the given cut.
    pub(crate) cut: Option<Cut>,
    /// What the reply has to be limited to.
    pub(crate) reply: Option<u64>,
    pub(crate) tokens: u64,
    pub(crate) evicted: Size,
    /// Whether more was left out for this call than the next ones will leave out.
    pub(crate) for_this_call: bool,
}

/// Makes the items of these exchanges fit. `cut` is what holds so far, `continues` the exchange whose calls the input answers.
pub(super) fn fit(
    mut items: Vec<Item>,
    exchanges: &[Recorded],
    cut: &Cut,
    continues: Option<Seq>,
    fitting: &Fitting<'_>,
) -> Result<Fit, DoesNotFit> {
    let log = Log::of(exchanges, cut, continues);
    let mut cleared = index(cut.cleared_before, log.first).min(log.len);
    if let Some(clear) = fitting.clear {
        clearing::apply(&mut items, clear, log.seq(cleared));
    }
    let mut compaction = Compaction { sizes: log.sizes(&items, fitting), log: &log, fitting };
    let before = compaction.sizes.kept(log.base);
    if !compaction.is_due() {
        return Ok(compaction.done(items, cut, cleared, log.base, log.base, before));
    }
    if let Some(reply) = compaction.shrunk_reply(log.base).filter(|_| !compaction.has_too_many()) {
        let fit = compaction.done(items, cut, cleared, log.base, log.base, before);
        return Ok(Fit { reply: Some(reply), ..fit });
    }
    if let Some(clear) = fitting.clear {
        let gain = before.tokens.saturating_sub(compaction.target());
        cleared = index(clearing::position(&items, clear, fitting, log.seq(cleared), gain), log.first).min(log.len);
        clearing::apply(&mut items, clear, log.seq(cleared));
        compaction.sizes = log.sizes(&items, fitting);
    }
    if let Some(trimmer) = fitting.trimmer
        && let Some((items, tokens)) = trimming::trim(&items, &log, &compaction, trimmer)
    {
        let after = Size { tokens, messages: items.len() };
        let fit = compaction.done(items, cut, cleared, log.base, log.base, before);
        let evicted = Size { tokens: before.tokens - after.tokens, messages: before.messages - after.messages };
        return Ok(Fit { tokens, evicted, for_this_call: true, ..fit });
    }
    let (stored, sent) = compaction.positions();
    if compaction.total(sent) <= compaction.limit() {
        return Ok(compaction.done(items, cut, cleared, stored, sent, before));
    }
    let reply = compaction.shrunk_reply(sent).ok_or_else(|| compaction.refused())?;
    let fit = compaction.done(items, cut, cleared, stored, sent, before);
    Ok(Fit { reply: Some(reply), ..fit })
}

/// A window without a budget: all of it but the rounds that the cut leaves out.
pub(super) fn unlimited(items: Vec<Item>, cut: &Cut) -> Fit {
    let is_sent = |item: &Item| item.round.is_none_or(|round| round >= cut.rounds_start);
    let window = items.into_iter().filter(is_sent).map(|item| item.message).collect();
    Fit { window, ..Fit::default() }
}

/// What is known of the window's exchanges.
pub(super) struct Log {
    pub(super) first: Seq,
    pub(super) len: usize,
    /// The cut that holds so far.
    pub(super) base: Positions,
    /// Where the window may start: at what opens a turn, and not with a reply.
    starts: Vec<usize>,
    /// Where turns open.
    pub(super) openings: Vec<usize>,
    /// The furthest that may be gone: the turn that the input belongs to stays, and the round that it answers.
    pub(super) most: Positions,
    continues: bool,
}

impl Log {
    fn of(exchanges: &[Recorded], cut: &Cut, continues: Option<Seq>) -> Self {
        let len = exchanges.len();
        let first = exchanges.first().map_or(cut.window_start, |recorded| recorded.seq);
        let base = Positions::of(cut, first, len);
        let opens = |at: &usize| *at >= base.window && exchanges[*at].exchange.opens_turn();
        let openings: Vec<usize> = (0..len).filter(opens).collect();
        let is_asked = |at: &usize| {
            *at == base.window || exchanges[*at].exchange.messages.first().is_none_or(|m| *m.role() != Role::Assistant)
        };
        let mut starts: Vec<usize> = openings.iter().copied().filter(is_asked).collect();
        let most = match continues {
            Some(seq) => {
                let asked = index(seq, first).min(len);
                let turn = starts.iter().rev().copied().find(|start| *start <= asked);
                Positions { window: turn.unwrap_or(base.window), rounds: asked.max(base.rounds) }
            }
            None => Positions { window: len, rounds: len },
        };
        starts.push(len);
        if !starts.contains(&base.window) {
            starts.insert(0, base.window);
        }
        Self { first, len, base, starts, openings, most, continues: continues.is_some() }
    }

    fn sizes(&self, items: &[Item], fitting: &Fitting<'_>) -> Sizes {
        Sizes::of(items, self.first, self.len, |item| (fitting.cost)(&item.message))
    }

    pub(super) fn seq(&self, index: usize) -> Seq {
        Seq::new(self.first.get().saturating_add(index as u64))
    }

    /// How many turns a window has that starts there, without the one that the input belongs to.
    fn turns(&self, window: usize) -> usize {
        self.openings.iter().filter(|opening| (window..self.most.window).contains(*opening)).count()
    }

    /// The last start that the log itself has, so that it can be stored.
    fn last_start(&self) -> usize {
        self.starts.iter().rev().copied().find(|start| *start < self.len).unwrap_or(self.base.window)
    }
}

/// A window that is to be compacted.
pub(super) struct Compaction<'a> {
    pub(super) sizes: Sizes,
    log: &'a Log,
    fitting: &'a Fitting<'a>,
}

impl Compaction<'_> {
    /// What the prompt may have beside the reply's reserve.
    fn limit(&self) -> u64 {
        self.fitting.limits.beside(self.fitting.limits.reserve)
    }

    fn total(&self, at: Positions) -> u64 {
        self.fitting.parts.total().saturating_add(self.sizes.kept(at).tokens)
    }

    /// What the window may have of a prompt of that size.
    pub(super) fn room(&self, prompt: u64) -> Option<u64> {
        prompt.checked_sub(self.fitting.parts.total())
    }

    pub(super) fn room_within_limit(&self) -> Option<u64> {
        self.room(self.limit())
    }

    /// Whether it begins.
    fn is_due(&self) -> bool {
        let total = self.total(self.log.base);
        let over = match self.fitting.marks.start {
            Mark::Percent(percent) => total > share(self.limit(), percent),
            Mark::Messages(_) | Mark::Turns(_) => self.has_too_many(),
        };
        over || total > self.limit()
    }

    fn has_too_many(&self) -> bool {
        match self.fitting.marks.start {
            Mark::Percent(_) => false,
            Mark::Messages(messages) => self.sizes.kept(self.log.base).messages > messages,
            Mark::Turns(turns) => self.log.turns(self.log.base.window) > turns,
        }
    }

    /// The size that the reply would have to have, if it may be so small and that is enough.
    fn shrunk_reply(&self, at: Positions) -> Option<u64> {
        let Limits { least_reply, .. } = self.fitting.limits;
        let total = self.total(at);
        let fits = total <= self.fitting.limits.beside(least_reply?);
        (fits && total > self.limit()).then(|| self.fitting.limits.behind(total))
    }

    /// What the prompt goes down to.
    fn target_prompt(&self) -> u64 {
        let (limit, fixed) = (self.limit(), self.fitting.parts.fixed());
        match self.fitting.marks.to {
            Mark::Percent(percent) => share(limit, percent).max(fixed.midpoint(limit)).min(limit),
            Mark::Messages(_) | Mark::Turns(_) => limit,
        }
    }

    /// What the window goes down to. An input that is larger than what a compaction gains is not what the next calls are like.
    fn target(&self) -> u64 {
        let (target, input) = (self.target_prompt(), self.fitting.parts.input);
        let input = if input <= self.limit() - target { input } else { 0 };
        target.saturating_sub(self.fitting.parts.fixed()).saturating_sub(input)
    }

    /// What is stored, and what is sent: the least and what is known to fit, or else the least of all.
    fn positions(&self) -> (Positions, Positions) {
        let (base, most) = (self.log.base, self.log.most);
        let too_large = self.fitting.parts.fixed().saturating_add(self.sizes.kept(base).tokens) > self.target_prompt();
        let all = Bounds { least: base, most };
        let stored = if !self.fitting.stores || !(too_large || self.has_too_many()) {
            base
        } else if self.log.continues {
            // Within a turn only the position of rounds moves for good.
            let rounds = Bounds { least: base, most: Positions { window: base.window, ..most } };
            let stays = self.best(rounds, self.target());
            stays.or_else(|| self.best(all, self.target())).map_or(base, |at| Positions { window: base.window, ..at })
        } else {
            let last = Positions { window: self.log.last_start(), rounds: self.log.len };
            let within = Bounds { least: base, most: last };
            let best = self.best(within, self.target());
            best.or_else(|| self.best(within, self.room_within_limit()?)).unwrap_or(last)
        };
        if self.total(stored) <= self.limit() {
            return (stored, stored);
        }
        let rest = Bounds { least: stored, most };
        let stable = self.fitting.stores && self.log.continues;
        let as_next = self.room_within_limit().filter(|_| stable).map(|room| room.min(self.target()));
        let rooms = [as_next, self.room_within_limit(), self.least_room()];
        let starts = || self.log.starts.iter().copied();
        let fits = |room| self.sizes.best(starts(), rest, |size: Size| size.tokens <= room);
        let sent = rooms.into_iter().flatten().find_map(fits);
        (stored, sent.unwrap_or(most))
    }

    fn least_room(&self) -> Option<u64> {
        self.room(self.fitting.limits.beside(self.fitting.limits.least_reply?))
    }

    /// The best positions for a window of that many tokens and, if the marks say so, of so many messages or turns.
    fn best(&self, bounds: Bounds, room: u64) -> Option<Positions> {
        let starts = self.log.starts.iter().copied();
        match self.fitting.marks.to {
            Mark::Percent(_) => self.sizes.best(starts, bounds, |size| size.tokens <= room),
            Mark::Messages(most) => {
                self.sizes.best(starts, bounds, |size| size.tokens <= room && size.messages <= most)
            }
            Mark::Turns(most) => {
                let starts = starts.filter(|start| self.log.turns(*start) <= most);
                self.sizes.best(starts, bounds, |size| size.tokens <= room)
            }
        }
    }

    fn done(
        &self,
        items: Vec<Item>,
        cut: &Cut,
        cleared: usize,
        stored: Positions,
        sent: Positions,
        before: Size,
    ) -> Fit {
        let log = self.log;
        let (window, rounds) = (log.seq(sent.window), log.seq(sent.rounds.max(sent.window)));
        let is_sent = |item: &Item| item.seq >= window && item.round.is_none_or(|round| round >= rounds);
        let window = items.into_iter().filter(is_sent).map(|item| item.message).collect();
        let mut next = cut.clone();
        next.window_start = next.window_start.max(log.seq(stored.window));
        next.rounds_start = next.rounds_start.max(log.seq(stored.rounds));
        next.cleared_before = next.cleared_before.max(log.seq(cleared));
        let after = self.sizes.kept(sent);
        let evicted = Size { tokens: before.tokens - after.tokens, messages: before.messages - after.messages };
        let cut =
            (next != *cut && stored != log.base || cleared > index(cut.cleared_before, log.first)).then_some(next);
        Fit { window, cut, reply: None, tokens: after.tokens, evicted, for_this_call: sent != stored }
    }

    fn refused(&self) -> DoesNotFit {
        let Limits { context, prompt, reserve, least_reply, .. } = self.fitting.limits;
        let parts = PromptTokens { window: self.sizes.kept(self.log.most).tokens, ..self.fitting.parts };
        let reserve = least_reply.unwrap_or(reserve);
        DoesNotFit { parts, context_window: context.min(prompt.saturating_add(reserve)), reply_reserve: reserve }
    }
}

fn share(limit: u64, percent: u8) -> u64 {
    limit / 100 * u64::from(percent) + limit % 100 * u64::from(percent) / 100
}
