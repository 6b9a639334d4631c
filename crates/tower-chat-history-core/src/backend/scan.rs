//! The positions at which a bounded window and a pruned log begin.

use std::ops::ControlFlow;

use crate::{
    seq::Seq,
    store::{LoadLimit, PruneTo},
};

/// Returns the number of messages that an exchange of `messages` counts as under a limit.
///
/// It is at least 1. Otherwise any number of exchanges without messages would be within every limit.
const fn at_least_one(messages: usize) -> usize {
    if messages == 0 { 1 } else { messages }
}

/// Walks a window backward from its newest exchange, and finds the position at which a [`LoadLimit`] lets it start.
///
/// A store offers one exchange after the other, newest first, and stops reading when the scan
/// [breaks](ControlFlow::Break). All stores that use it cut at the same position. They read at most one exchange beyond
/// the limit. If the newest turn exceeds the limit, they read this turn.
///
/// ```
/// use tower_chat_history_core::{LoadLimit, Seq, backend::WindowScan};
///
/// let mut scan = WindowScan::new(LoadLimit::new(4, 1_000)?);
/// assert!(scan.offer(Seq::new(2), true, 2, 100, 0).is_continue());
/// assert!(scan.offer(Seq::new(1), true, 2, 100, 0).is_continue());
/// assert!(scan.offer(Seq::new(0), true, 2, 100, 0).is_break());
/// assert_eq!(scan.start(), Some(Seq::new(1)));
/// assert!(scan.is_truncated());
/// # Ok::<(), tower_chat_history_core::LoadLimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WindowScan {
    limit: LoadLimit,
    messages: usize,
    bytes: usize,
    media_bytes: usize,
    /// The earliest opening within the limit, or the newest turn's opening.
    opening: Option<Seq>,
    earliest: Option<Seq>,
    stopped: bool,
}

impl WindowScan {
    /// Starts a walk within this limit.
    #[must_use]
    pub const fn new(limit: LoadLimit) -> Self {
        Self { limit, messages: 0, bytes: 0, media_bytes: 0, opening: None, earliest: None, stopped: false }
    }

    /// Takes the next older exchange: its position, whether it opens a turn, the number of its messages, their bytes,
    /// and how many of these bytes are media.
    ///
    /// An exchange without messages counts as one message, as documented at [`LoadLimit`]. Returns
    /// [`Break`](ControlFlow::Break) if the window starts after this exchange: offer no more exchanges.
    pub const fn offer(
        &mut self,
        seq: Seq,
        opens_turn: bool,
        messages: usize,
        bytes: usize,
        media_bytes: usize,
    ) -> ControlFlow<()> {
        self.messages = self.messages.saturating_add(at_least_one(messages));
        self.bytes = self.bytes.saturating_add(bytes);
        self.media_bytes = self.media_bytes.saturating_add(media_bytes);
        let over = !self.limit.allows(self.messages, self.bytes, self.media_bytes);
        if over && self.opening.is_some() {
            self.stopped = true;
            return ControlFlow::Break(());
        }
        self.earliest = Some(seq);
        if opens_turn {
            self.opening = Some(seq);
        }
        ControlFlow::Continue(())
    }

    /// Returns the position at which the window starts. Call it after the walk. Returns `None` if nothing was offered.
    #[must_use]
    pub fn start(&self) -> Option<Seq> {
        // If the walk was not stopped, the whole window is within the limit.
        if self.stopped { self.opening } else { self.earliest }
    }

    /// Returns `true` if the limit cut something off.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.stopped
    }
}

/// Walks a log backward from its newest exchange, and finds the position at which it begins after a prune.
///
/// A store offers one exchange after the other, from the exchange before [`end`](Self::end) back to the log's first
/// one, and stops when the scan breaks. All stores that use it cut at the same position.
///
/// ```
/// use tower_chat_history_core::{PruneTo, Seq, backend::PruneScan};
///
/// // Four turns of two messages each. The newest four messages are to be kept.
/// let mut scan = PruneScan::new(PruneTo::LastMessages(4), Seq::new(4));
/// assert_eq!(scan.end(), Seq::new(4));
/// assert!(scan.offer(Seq::new(3), true, 2).is_continue());
/// assert!(scan.offer(Seq::new(2), true, 2).is_continue());
/// assert!(scan.offer(Seq::new(1), true, 2).is_break());
/// assert_eq!(scan.start(), Some(Seq::new(2)));
/// ```
#[derive(Clone, Debug)]
pub struct PruneScan {
    keep: PruneTo,
    end: Seq,
    turns: usize,
    messages: usize,
    /// The earliest opening to keep.
    opening: Option<Seq>,
}

impl PruneScan {
    /// Starts a walk through a log whose next exchange gets the position `next`.
    #[must_use]
    pub fn new(keep: PruneTo, next: Seq) -> Self {
        let end = match keep {
            PruneTo::From(from) => from.next().min(next),
            PruneTo::LastTurns(_) | PruneTo::LastMessages(_) => next,
        };
        Self { keep, end, turns: 0, messages: 0, opening: None }
    }

    /// Returns the position before which the walk begins: the first exchange to offer is the one before it. The
    /// exchange at this position and all later ones are kept.
    #[must_use]
    pub const fn end(&self) -> Seq {
        self.end
    }

    /// Takes the next older exchange: its position, whether it opens a turn, and the number of its messages.
    ///
    /// Returns [`Break`](ControlFlow::Break) if the pruned log begins after this exchange: offer no more exchanges.
    pub fn offer(&mut self, seq: Seq, opens_turn: bool, messages: usize) -> ControlFlow<()> {
        self.messages = self.messages.saturating_add(at_least_one(messages));
        let enough = match self.keep {
            PruneTo::From(_) => true,
            PruneTo::LastTurns(turns) => self.turns >= turns,
            PruneTo::LastMessages(most) => self.messages > most,
        };
        if enough && self.opening.is_some() {
            return ControlFlow::Break(());
        }
        if opens_turn {
            self.turns += 1;
            self.opening = Some(seq);
        }
        ControlFlow::Continue(())
    }

    /// Returns the position at which the pruned log begins. Call it after the walk. Returns `None` if no offered
    /// exchange opens a turn: nothing is removed then.
    #[must_use]
    pub const fn start(&self) -> Option<Seq> {
        self.opening
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers exchanges given newest first as (opens a turn, messages) and returns (start, truncated, offered).
    fn walk(limit: usize, newest_first: &[(bool, usize)]) -> (u64, bool, usize) {
        let mut scan = WindowScan::new(LoadLimit::new(limit, usize::MAX).unwrap());
        let last = newest_first.len() as u64 - 1;
        let mut offered = 0;
        for (back, (opens, messages)) in newest_first.iter().enumerate() {
            offered += 1;
            if scan.offer(Seq::new(last - back as u64), *opens, *messages, 0, 0).is_break() {
                break;
            }
        }
        (scan.start().unwrap().get(), scan.is_truncated(), offered)
    }

    #[test]
    fn stops_at_the_limit() {
        assert_eq!(walk(4, &[(true, 2); 5]), (3, true, 3));
        assert_eq!(walk(10, &[(true, 2); 5]), (0, false, 5));
    }

    #[test]
    fn never_splits_a_turn() {
        // Exchanges 0 and 1 are a turn, 2 to 4 another: five messages fit, but they would start within the first turn.
        assert_eq!(walk(7, &[(false, 2), (false, 2), (true, 2), (false, 2), (true, 2)]), (2, true, 4));
    }

    #[test]
    fn the_newest_turn_comes_whole() {
        assert_eq!(walk(3, &[(false, 2), (false, 2), (true, 2), (true, 2)]), (1, true, 4));
        assert_eq!(walk(1, &[(true, 9)]), (0, false, 1));
    }

    #[test]
    fn a_full_limit_is_not_truncated() {
        assert_eq!(walk(4, &[(true, 2), (true, 2)]), (0, false, 2));
    }

    #[test]
    fn exchanges_without_messages_count_as_one_message_each() {
        assert_eq!(walk(3, &[(true, 0); 100]), (97, true, 4));
        assert_eq!(walk(3, &[(true, 0), (true, 2), (true, 0)]), (1, true, 3));
        assert_eq!(walk(4, &[(true, 0), (true, 2), (true, 0)]), (0, false, 3));
    }

    /// Offers turns of one message, given newest first as (bytes, bytes of media). The limit is 100 bytes of text and
    /// 1,000 of media. Returns the number of turns in the window.
    fn turns_within(newest_first: &[(usize, usize)]) -> u64 {
        let mut scan = WindowScan::new(LoadLimit::new(100, 100).unwrap().with_media_bytes(1_000));
        let turns = newest_first.len() as u64;
        for (seq, (bytes, media)) in (0..turns).rev().zip(newest_first) {
            if scan.offer(Seq::new(seq), true, 1, *bytes, *media).is_break() {
                break;
            }
        }
        turns - scan.start().unwrap().get()
    }

    #[test]
    fn media_do_not_count_against_text() {
        assert_eq!(turns_within(&[(510, 500), (90, 0), (500, 500)]), 3);
        assert_eq!(turns_within(&[(510, 500), (91, 0), (500, 500)]), 1);
    }

    #[test]
    fn media_are_limited() {
        assert_eq!(turns_within(&[(310, 300); 5]), 3);
        assert_eq!(turns_within(&[(10, 0), (2_000, 2_000), (10, 0)]), 1);
        assert_eq!(turns_within(&[(2_000, 2_000), (10, 0)]), 1, "the newest turn comes whole");
    }

    /// Offers a log, given in order as (opens a turn, messages). Returns where it begins and how many were offered.
    fn prune(keep: PruneTo, log: &[(bool, usize)]) -> (Option<u64>, usize) {
        let mut scan = PruneScan::new(keep, Seq::new(log.len() as u64));
        let end = usize::try_from(scan.end().get()).unwrap();
        for (offered, (seq, (opens, messages))) in log.iter().enumerate().take(end).rev().enumerate() {
            if scan.offer(Seq::new(seq as u64), *opens, *messages).is_break() {
                return (scan.start().map(Seq::get), offered + 1);
            }
        }
        (scan.start().map(Seq::get), end)
    }

    /// Turns of one, three and two exchanges.
    const LOG: [(bool, usize); 6] = [(true, 2), (true, 2), (false, 2), (false, 3), (true, 2), (false, 2)];

    #[test]
    fn turns_are_counted_by_their_openings() {
        for (turns, begins, offered) in [(0, 4, 3), (1, 4, 3), (2, 1, 6), (3, 0, 6), (usize::MAX, 0, 6)] {
            assert_eq!(prune(PruneTo::LastTurns(turns), &LOG), (Some(begins), offered), "{turns}");
        }
    }

    #[test]
    fn messages_are_counted_by_whole_turns() {
        for (messages, begins) in [(0, 4), (3, 4), (4, 4), (10, 4), (11, 1), (12, 1), (13, 0), (usize::MAX, 0)] {
            assert_eq!(prune(PruneTo::LastMessages(messages), &LOG).0, Some(begins), "{messages}");
        }
    }

    #[test]
    fn exchanges_without_messages_count_as_one_message_each_in_a_prune() {
        assert_eq!(prune(PruneTo::LastMessages(3), &[(true, 0); 100]), (Some(97), 4));
    }

    #[test]
    fn a_position_within_a_turn_is_moved_back_to_the_opening() {
        for (from, begins) in [(0, 0), (1, 1), (2, 1), (3, 1), (4, 4), (5, 4), (6, 4), (u64::MAX, 4)] {
            let (begin, offered) = prune(PruneTo::From(Seq::new(from)), &LOG);
            assert_eq!(begin, Some(begins), "{from}");
            assert!(offered <= 5, "exchanges that are always kept are not offered");
        }
    }

    #[test]
    fn nothing_is_removed_if_nothing_opens_a_turn() {
        assert_eq!(prune(PruneTo::LastTurns(1), &[(false, 1), (false, 1)]).0, None);
        assert_eq!(prune(PruneTo::LastTurns(1), &[]).0, None);
    }
}
