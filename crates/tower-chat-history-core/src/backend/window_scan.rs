//! The position at which a bounded window starts.

use super::{Scan, at_least_one};
use crate::{seq::Seq, store::LoadLimit};

/// Walks a window backward from its newest exchange, and finds the position at which a [`LoadLimit`] lets it start.
///
/// A store offers one exchange after the other, newest first, and stops reading at [`Scan::Stop`]. All stores that use
/// it cut at the same position. They read at most one exchange beyond the limit. If the newest turn exceeds the limit,
/// they read this turn.
///
/// ```
/// use tower_chat_history_core::{LoadLimit, Seq, backend::{Scan, WindowScan}};
///
/// let mut scan = WindowScan::new(LoadLimit::new(4, 1_000)?);
/// assert_eq!(scan.offer(Seq::new(2), true, 2, 100), Scan::More);
/// assert_eq!(scan.offer(Seq::new(1), true, 2, 100), Scan::More);
/// assert_eq!(scan.offer(Seq::new(0), true, 2, 100), Scan::Stop);
/// assert_eq!(scan.start(), Some(Seq::new(1)));
/// assert!(scan.is_truncated());
/// # Ok::<(), tower_chat_history_core::LoadLimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WindowScan {
    limit: LoadLimit,
    messages: usize,
    bytes: usize,
    /// The earliest opening within the limit, or the newest turn's opening.
    opening: Option<Seq>,
    earliest: Option<Seq>,
    stopped: bool,
}

impl WindowScan {
    /// Starts a walk within this limit.
    #[must_use]
    pub const fn new(limit: LoadLimit) -> Self {
        Self { limit, messages: 0, bytes: 0, opening: None, earliest: None, stopped: false }
    }

    /// Takes the next older exchange: its position, whether it opens a turn, the number of its messages, and their
    /// bytes.
    ///
    /// An exchange without messages counts as one message, as documented at [`LoadLimit`].
    pub const fn offer(&mut self, seq: Seq, opens_turn: bool, messages: usize, bytes: usize) -> Scan {
        self.messages = self.messages.saturating_add(at_least_one(messages));
        self.bytes = self.bytes.saturating_add(bytes);
        let over = self.messages > self.limit.messages() || self.bytes > self.limit.bytes();
        if over && self.opening.is_some() {
            self.stopped = true;
            return Scan::Stop;
        }
        self.earliest = Some(seq);
        if opens_turn {
            self.opening = Some(seq);
        }
        Scan::More
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
            if scan.offer(Seq::new(last - back as u64), *opens, *messages, 0) == Scan::Stop {
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
}
