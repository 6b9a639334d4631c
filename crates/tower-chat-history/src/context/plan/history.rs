//! The history that a turn starts from, and the cut that applies to it.
//!
//! # Decisions
//!
//! - **The newest turn is loaded whole**, even beyond the load limit. A window that begins in the middle of a turn
//!   lacks its question. If the limit cuts off older turns, the window's start moves so far that the window has 75% of
//!   the limit. Otherwise it would move at every turn.
//! - **A turn with bound reasoning continues under the cut that it began with.** It isn't documented that reasoning may
//!   be left out within a tool loop. So a compaction stores the cut that it replaced, one level deep.

use tower_chat_history_core::{
    CompactionVersion, Cut, Cuts, Epoch, Expect, LoadLimit, Message, NewestRound, Positions, Recorded, Revision, Seq,
    Summary, Window, backend::RecordError,
};

use super::{input::continues_turn, reasoning::digests_of_reply, window_index::can_start_window};
use crate::context::request::RequestInfo;

/// A [`Window`] whose compaction has been read.
#[derive(Clone, Debug)]
pub(crate) struct LoadedWindow {
    pub(crate) revision: Revision,
    /// The version of the stored compaction.
    pub(crate) version: CompactionVersion,
    /// The cuts of the stored compaction, if there is one.
    pub(crate) cuts: Option<Cuts>,
    pub(crate) exchanges: Vec<Recorded>,
    /// True if the load limit cut off exchanges that belong to the window.
    pub(crate) truncated: bool,
    /// The size of the whole log in bytes of message JSON.
    pub(crate) log_bytes: u64,
}

impl LoadedWindow {
    /// # Errors
    ///
    /// Returns an error if the compaction cannot be read.
    pub(crate) fn read(window: Window) -> Result<Self, RecordError> {
        Ok(Self {
            revision: window.revision,
            version: window.compaction_version(),
            cuts: window.compaction.as_ref().map(Cuts::read).transpose()?,
            exchanges: window.exchanges,
            truncated: window.truncated,
            log_bytes: window.log_bytes,
        })
    }

    /// Returns the newest cut.
    pub(crate) fn cut(&self) -> Option<&Cut> {
        self.cuts.as_ref().map(|cuts| &cuts.cut)
    }
}

/// The history that a turn starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum History<'a> {
    /// There was no such conversation at this epoch.
    Absent(Epoch),
    /// The conversation's window.
    Window(&'a LoadedWindow),
    /// The history could not be loaded. The messages that the caller resent replace it, in the form of a log.
    Resent(&'a [Recorded]),
}

impl<'a> History<'a> {
    pub(crate) const fn window(self) -> Option<&'a LoadedWindow> {
        match self {
            Self::Window(window) => Some(window),
            Self::Absent(_) | Self::Resent(_) => None,
        }
    }

    pub(crate) fn exchanges(self) -> &'a [Recorded] {
        match self {
            Self::Absent(_) => &[],
            Self::Window(window) => &window.exchanges,
            Self::Resent(exchanges) => exchanges,
        }
    }

    /// Returns the messages of all exchanges, with their recalled messages.
    pub(crate) fn messages(self) -> impl Iterator<Item = &'a Message> {
        self.exchanges().iter().flat_map(|Recorded { exchange, .. }| {
            exchange.recalled.iter().map(|recalled| &recalled.message).chain(&exchange.messages)
        })
    }

    /// Returns `true` if recalled messages are sent with an exchange of the window.
    pub(super) fn has_recalled(self) -> bool {
        let positions = self.cut().map_or_else(Positions::default, |cut| cut.positions);
        let mut exchanges = self.exchanges().iter();
        exchanges.any(|recorded| recorded.exchange.recalled.is_some() && positions.sends_recalled(recorded.seq))
    }

    /// Returns the stored cut.
    pub(crate) fn cut(self) -> Option<&'a Cut> {
        self.window()?.cut()
    }

    pub(crate) fn summary(self) -> Option<&'a Summary> {
        self.cut()?.summary.as_ref()
    }

    /// Returns the position of the log's next exchange, if the log was loaded.
    pub(crate) fn next(self) -> Option<Seq> {
        match self {
            Self::Absent(_) => Some(Seq::FIRST),
            Self::Window(window) => Some(window.revision.next()),
            Self::Resent(_) => None,
        }
    }

    /// Returns the number of turns in the window, including the one under way.
    pub(crate) fn turns(self) -> usize {
        let exchanges = self.window().map_or(&[][..], |window| &window.exchanges);
        exchanges.iter().filter(|recorded| can_start_window(recorded)).count().saturating_add(1)
    }

    /// Returns `true` if the window is less than the whole conversation.
    pub(crate) fn is_abridged(self) -> bool {
        let cut = self.cut();
        self.window().is_some_and(|window| {
            window.truncated
                || window.revision.first() > Seq::FIRST
                || cut.is_some_and(|cut| cut.positions != Positions::default())
        })
    }

    /// Returns `true` if some exchanges are neither in the window nor covered by the summary, although they are stored.
    pub(crate) fn has_gap(self) -> bool {
        let (Some(window), Some(cut)) = (self.window(), self.cut()) else { return false };
        cut.window_start > first_uncovered(cut, window)
    }

    /// Returns the epoch after which the conversation must not have been erased, if the conversation did not exist. The
    /// incarnation says the same of an existing one.
    pub(crate) const fn since(self) -> Option<Epoch> {
        match self {
            Self::Absent(epoch) => Some(epoch),
            Self::Window(_) | Self::Resent(_) => None,
        }
    }

    /// Returns the condition under which the exchange is appended. With `rejects_others`, the append fails if another
    /// exchange was stored after the load.
    pub(crate) const fn expect(self, rejects_others: bool) -> Expect {
        match self {
            Self::Window(window) if rejects_others => Expect::Exactly(window.revision),
            Self::Window(window) => Expect::AnyIn(window.revision.incarnation()),
            Self::Absent(_) if rejects_others => Expect::Absent,
            Self::Absent(_) | Self::Resent(_) => Expect::AnyOrCreate,
        }
    }
}

/// Returns the first exchange that was not pruned and that no summary covers.
pub(crate) fn first_uncovered(cut: &Cut, window: &LoadedWindow) -> Seq {
    cut.covers_to.max(window.revision.first())
}

/// Returns the cut that a truncated load causes, or `None` if the load is not truncated. The window then has at most
/// 75% of the load limit. Without this cut, the load limit itself would move the window's start with every turn, and
/// the provider's prefix cache would never have the window.
pub(super) fn cut_truncated(window: &LoadedWindow, limit: LoadLimit) -> Option<Cut> {
    if !window.truncated {
        return None;
    }

    let most_messages = limit.messages() / 4 * 3;
    let most_text = limit.bytes() / 4 * 3;
    let most_media = limit.media_bytes() / 4 * 3;
    let mut messages = 0;
    let mut text = 0;
    let mut media = 0;
    let mut start = None;
    for recorded in window.exchanges.iter().rev() {
        messages += recorded.exchange.counted_messages();
        let media_bytes = recorded.exchange.media_bytes();
        text += recorded.exchange.bytes().saturating_sub(media_bytes);
        media += media_bytes;
        // The newest turn stays whole, even if it is larger.
        if start.is_some() && (messages > most_messages || text > most_text || media > most_media) {
            break;
        }
        if can_start_window(recorded) {
            start = Some(recorded.seq);
        }
    }

    let mut cut = window.cut().cloned().unwrap_or_default();
    cut.window_start = cut.window_start.max(start?);
    cut.rounds_start = cut.rounds_start.max(cut.window_start);

    if window.exchanges.iter().any(|recorded| recorded.exchange.recalled.is_some()) {
        // The recalled messages of the newest turn stay, because this turn may still be under way.
        let newest = window.exchanges.iter().rev().find(|recorded| can_start_window(recorded));
        cut.recalled_from = newest.map_or(cut.recalled_from, |newest| cut.recalled_from.max(newest.seq));
    }
    Some(cut)
}

/// Returns the cut under which the turn that the input continues got its newest bound reasoning. Returns `None` if the
/// window is the one under that cut, if nothing of the turn is bound to its prompt, or if the cut's summary is not
/// stored any more. Elements that the provider cannot read any more are left out under this cut, too.
///
/// If a turn has reasoning that is bound to its prompt, its prompts must stay prefixes of each other until it ends. A
/// compaction that another call stored in the meantime therefore takes effect with the next turn.
///
/// If the request lets the provider [drop](RequestInfo::may_drop_reasoning) reasoning, that which a stored compaction
/// left out within the turn stays left out.
pub(crate) fn pinned(window: &LoadedWindow, input: &[Message], request: &RequestInfo) -> Option<Cut> {
    let mut exchanges = window.exchanges.iter();
    if !continues_turn(input) || !exchanges.any(|recorded| recorded.exchange.is_bound_to_prompt()) {
        return None;
    }

    let asked = NewestRound::of(&window.exchanges).asked()?;
    let mut exchanges = window.exchanges.iter();
    let start = exchanges.rposition(|recorded| recorded.seq <= asked && recorded.exchange.opens_turn())?;
    let turn = &window.exchanges[start..];

    let none = Cut::default();
    let stored = window.cut().unwrap_or(&none);
    let from = if request.may_drop_reasoning { stored.reasoning_from } else { Seq::FIRST };
    let newest = turn.iter().rfind(|recorded| recorded.seq >= from && digests_of_reply(&recorded.exchange).is_some());
    let mut sent_under = newest?.exchange.provenance.as_ref()?.cut;
    sent_under.encrypted_from = sent_under.encrypted_from.max(stored.encrypted_from);
    // Reasoning that leaves at the end of each turn has no stored position, and the plan finds its position again.
    if sent_under.thoughts_from >= turn.first()?.seq {
        sent_under.thoughts_from = stored.thoughts_from;
    }

    let is_loaded = is_under(sent_under, stored, &window.exchanges) && !window.truncated;
    if is_loaded || sent_under.window_start > turn.first()?.seq {
        return None;
    }

    let replaced = window.cuts.as_ref().and_then(|cuts| cuts.replaced.as_deref());
    cut(sent_under, [Some(stored), replaced].into_iter().flatten())
}

/// Returns `true` if a prompt at these positions was made under this cut. It had no summary if it began with a message
/// that stands for everything before it.
fn is_under(positions: Positions, cut: &Cut, exchanges: &[Recorded]) -> bool {
    if positions == cut.positions {
        return true;
    }

    let mut without_summary = cut.positions;
    without_summary.covers_to = Seq::FIRST;
    let mut messages = exchanges.iter().flat_map(|recorded| &recorded.exchange.messages);
    positions == without_summary && messages.any(|message| message.index().restarts)
}

/// Returns the cut with these positions and its summary, or `None` if none of the stored cuts has this summary.
fn cut<'a>(positions: Positions, mut stored: impl Iterator<Item = &'a Cut>) -> Option<Cut> {
    let mut cut = Cut::at(positions);
    if positions.covers_to > Seq::FIRST {
        let summarized = stored.find(|stored| stored.covers_to == positions.covers_to)?;
        cut.set_summary(summarized.summary.clone()?, positions.covers_to);
    }
    Some(cut)
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Exchange, ExchangeId, Incarnation};

    use super::*;

    #[test]
    fn exchanges_without_messages_count_as_one_message_each() {
        let exchange = |seq: u64| {
            let opens = [10, 14].contains(&seq).then(|| Message::user("u"));
            Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), opens))
        };
        let exchanges = (10..20).map(exchange).collect();
        let window = Window::new(Revision::new(Incarnation::random(), 20), None, exchanges, true);
        let window = LoadedWindow::read(window).unwrap();
        let cut = cut_truncated(&window, LoadLimit::new(8, 1 << 20).unwrap()).unwrap();
        assert_eq!(cut.window_start, Seq::new(14), "six of eight stay");
    }
}
