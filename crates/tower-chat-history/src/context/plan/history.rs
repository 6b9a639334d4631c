//! The history that a turn starts from.

use tower_chat_history_core::{Cut, Epoch, Expect, Message, Recorded, Seq, Summary};

use super::{loaded::LoadedWindow, window_index::can_start_window};

/// The history that a turn starts from.
#[derive(Clone, Copy, Debug)]
pub enum History<'a> {
    /// There was no such conversation at this epoch.
    Absent(Epoch),
    /// The conversation's window.
    Window(&'a LoadedWindow),
    /// The history could not be loaded. The messages that the caller resent replace it, in the form of a log.
    Resent(&'a [Recorded]),
}

impl<'a> History<'a> {
    #[must_use]
    pub const fn window(self) -> Option<&'a LoadedWindow> {
        match self {
            Self::Window(window) => Some(window),
            Self::Absent(_) | Self::Resent(_) => None,
        }
    }

    #[must_use]
    pub fn exchanges(self) -> &'a [Recorded] {
        match self {
            Self::Absent(_) => &[],
            Self::Window(window) => &window.exchanges,
            Self::Resent(exchanges) => exchanges,
        }
    }

    /// Returns the messages of all exchanges, with their recalled messages.
    pub fn messages(self) -> impl Iterator<Item = &'a Message> {
        self.exchanges().iter().flat_map(|Recorded { exchange, .. }| {
            exchange.recalled.iter().map(|recalled| &recalled.message).chain(&exchange.messages)
        })
    }

    /// Returns `true` if recalled messages are sent with an exchange of the window.
    pub(super) fn has_recalled(self) -> bool {
        let from = self.cut().map_or(Seq::FIRST, |cut| cut.recalled_from);
        self.exchanges().iter().any(|recorded| recorded.seq >= from && recorded.exchange.recalled.is_some())
    }

    /// Returns the stored cut.
    #[must_use]
    pub fn cut(self) -> Option<&'a Cut> {
        self.window()?.cut()
    }

    #[must_use]
    pub fn summary(self) -> Option<&'a Summary> {
        self.cut()?.summary.as_ref()
    }

    /// Returns the position of the log's next exchange, if the log was loaded.
    #[must_use]
    pub fn next(self) -> Option<Seq> {
        match self {
            Self::Absent(_) => Some(Seq::FIRST),
            Self::Window(window) => Some(window.revision.next()),
            Self::Resent(_) => None,
        }
    }

    /// Returns the number of turns in the window, including the one under way.
    #[must_use]
    pub fn turns(self) -> usize {
        let exchanges = self.window().map_or(&[][..], |window| &window.exchanges);
        exchanges.iter().filter(|recorded| can_start_window(recorded)).count().saturating_add(1)
    }

    /// Returns `true` if the window is less than the whole conversation.
    #[must_use]
    pub fn is_abridged(self) -> bool {
        let cut = self.cut();
        self.window().is_some_and(|window| {
            window.truncated || window.revision.first() > Seq::FIRST || cut.is_some_and(|cut| *cut != Cut::default())
        })
    }

    /// Returns `true` if some exchanges are neither in the window nor covered by the summary, although they are stored.
    #[must_use]
    pub fn has_gap(self) -> bool {
        let (Some(window), Some(cut)) = (self.window(), self.cut()) else { return false };
        cut.window_start > first_uncovered(cut, window)
    }

    /// Returns the epoch after which the conversation must not have been erased, if the conversation did not exist. The
    /// incarnation says the same of an existing one.
    #[must_use]
    pub const fn since(self) -> Option<Epoch> {
        match self {
            Self::Absent(epoch) => Some(epoch),
            Self::Window(_) | Self::Resent(_) => None,
        }
    }

    /// Returns the condition under which the exchange is appended. With `rejects_others`, the append fails if another
    /// exchange was stored after the load.
    #[must_use]
    pub const fn expect(self, rejects_others: bool) -> Expect {
        match self {
            Self::Window(window) if rejects_others => Expect::Exactly(window.revision),
            Self::Window(window) => Expect::AnyIn(window.revision.incarnation()),
            Self::Absent(_) if rejects_others => Expect::Absent,
            Self::Absent(_) | Self::Resent(_) => Expect::AnyOrCreate,
        }
    }
}

/// Returns the first exchange that was not pruned and that no summary covers.
#[must_use]
pub fn first_uncovered(cut: &Cut, window: &LoadedWindow) -> Seq {
    cut.covers_to.max(window.revision.first())
}
