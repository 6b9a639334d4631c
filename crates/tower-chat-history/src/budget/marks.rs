//! When a window is compacted, and down to what.

/// When a window is compacted, and down to what. The default is: when the prompt is over its limit, down to 75% of it.
///
/// The further it goes down, the longer the window's beginning stays as it is and a provider's cache of it is of use; the less
/// of the conversation is sent. A simulation of 500 turns (a head of 2,000 tokens, a limit of 8,000) put the default at 83%
/// of the history that a sliding window has, for 42% of the price of its input where cached tokens cost a quarter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    pub(crate) start: Mark,
    pub(crate) to: Mark,
}

/// A size of a prompt or of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// That share of the prompt's limit, in percent: of the context window less the reply's reserve. The head counts, but a
    /// compaction never goes under the head and half of what remains beside it.
    Percent(u8),
    /// That many messages in the window: without head and input. A window is cut between exchanges, and its newest turn is
    /// only left out for want of room, so there may be a few more.
    Messages(usize),
    /// That many turns in the window: without the one that the input belongs to.
    Turns(usize),
}

impl Marks {
    /// Starts over one mark and goes down to another one. The limit of the prompt holds in any case, and where it is the
    /// reason, a window is not larger afterwards than 75% of it leaves room for.
    ///
    /// # Errors
    ///
    /// When a mark is 0 or over 100%, or when both are of one kind and the window would grow.
    pub const fn new(start: Mark, to: Mark) -> Result<Self, MarksError> {
        let grows = match (start, to) {
            (Mark::Percent(start), Mark::Percent(to)) => to > start,
            (Mark::Messages(start), Mark::Messages(to)) | (Mark::Turns(start), Mark::Turns(to)) => to > start,
            _ => false,
        };
        if grows || start.is_wrong() || to.is_wrong() { Err(MarksError(())) } else { Ok(Self { start, to }) }
    }

    /// At most that many messages, at least one: once there are more, a quarter of them goes.
    #[must_use]
    pub const fn last_messages(messages: usize) -> Self {
        let messages = at_least_one(messages);
        Self { start: Mark::Messages(messages), to: Mark::Messages(three_quarters(messages)) }
    }

    /// At most that many turns, at least one: once there are more, a quarter of them goes.
    #[must_use]
    pub const fn last_turns(turns: usize) -> Self {
        let turns = at_least_one(turns);
        Self { start: Mark::Turns(turns), to: Mark::Turns(three_quarters(turns)) }
    }

    /// When the prompt is over its limit, everything goes but the newest messages: that many of them, at least one.
    #[must_use]
    pub const fn keep_recent(messages: usize) -> Self {
        Self { start: Mark::Percent(100), to: Mark::Messages(at_least_one(messages)) }
    }
}

impl Marks {
    /// Whether it starts by something that needs no budget.
    pub(crate) const fn count_messages_or_turns(self) -> bool {
        matches!(self.start, Mark::Messages(_) | Mark::Turns(_))
    }
}

impl Default for Marks {
    fn default() -> Self {
        Self { start: Mark::Percent(100), to: Mark::Percent(75) }
    }
}

impl Mark {
    const fn is_wrong(self) -> bool {
        match self {
            Self::Percent(percent) => percent == 0 || percent > 100,
            Self::Messages(count) | Self::Turns(count) => count == 0,
        }
    }
}

const fn at_least_one(count: usize) -> usize {
    if count == 0 { 1 } else { count }
}

const fn three_quarters(count: usize) -> usize {
    at_least_one(count / 4 * 3 + count % 4 * 3 / 4)
}

/// Marks that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a compaction must go down from its start, to a mark that is more than 0 and, in percent, at most 100")]
pub struct MarksError(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_down() {
        assert!(Marks::new(Mark::Percent(90), Mark::Percent(50)).is_ok());
        assert!(Marks::new(Mark::Messages(10), Mark::Percent(50)).is_ok());
        for (start, to) in [
            (Mark::Percent(50), Mark::Percent(90)),
            (Mark::Percent(101), Mark::Percent(90)),
            (Mark::Percent(100), Mark::Percent(0)),
            (Mark::Messages(3), Mark::Messages(4)),
            (Mark::Turns(0), Mark::Turns(0)),
        ] {
            assert_eq!(Marks::new(start, to), Err(MarksError(())));
        }
    }

    #[test]
    fn a_quarter_of_what_is_counted_goes() {
        for (messages, to) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (6, 4), (10, 7), (20, 15)] {
            assert_eq!(Marks::last_messages(messages).to, Mark::Messages(to), "{messages}");
            assert_eq!(Marks::last_turns(messages).to, Mark::Turns(to), "{messages}");
        }
    }
}
