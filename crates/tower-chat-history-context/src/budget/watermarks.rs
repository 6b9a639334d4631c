//! When a window is compacted, and down to what.

/// When a window is compacted, and down to what. The default is: when the prompt is over its limit, down to 75% of it.
///
/// The further it goes down, the longer the window's beginning stays as it is and a provider's cache of it is of use; the less
/// of the conversation is sent. A simulation of 500 turns (a head of 2,000 tokens, a limit of 8,000) put the default at 83%
/// of the history that a sliding window has, for 42% of the price of its input where cached tokens cost a quarter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    pub(crate) high: Watermark,
    pub(crate) low: Watermark,
}

/// A size of a prompt or of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watermark {
    /// That share of the prompt's limit, in percent: of the context window less the reply's reserve. The head counts, but a
    /// compaction never goes under the head and half of what remains beside it.
    Percent(u8),
    /// That many messages in the window: without head and input. A window is cut between exchanges, and its newest turn is
    /// only left out for want of room, so there may be a few more.
    Messages(usize),
    /// That many turns in the window: without the one that the input belongs to.
    Turns(usize),
}

impl Watermarks {
    /// Starts over one mark and goes down to another one. The limit of the prompt holds in any case, and where it is the
    /// reason, a window is not larger afterwards than 75% of it leaves room for.
    ///
    /// # Errors
    ///
    /// When a mark is 0 or over 100%, or when both are of one kind and the window would grow.
    pub const fn new(high: Watermark, low: Watermark) -> Result<Self, WatermarksError> {
        let grows = match (high, low) {
            (Watermark::Percent(high), Watermark::Percent(low)) => low > high,
            (Watermark::Messages(high), Watermark::Messages(low)) | (Watermark::Turns(high), Watermark::Turns(low)) => {
                low > high
            }
            _ => false,
        };
        if grows || high.is_wrong() || low.is_wrong() { Err(WatermarksError(())) } else { Ok(Self { high, low }) }
    }

    /// At most that many messages, at least one: once there are more, a quarter of them goes.
    #[must_use]
    pub const fn last_messages(messages: usize) -> Self {
        let messages = at_least_one(messages);
        Self { high: Watermark::Messages(messages), low: Watermark::Messages(three_quarters(messages)) }
    }

    /// At most that many turns, at least one: once there are more, a quarter of them goes.
    #[must_use]
    pub const fn last_turns(turns: usize) -> Self {
        let turns = at_least_one(turns);
        Self { high: Watermark::Turns(turns), low: Watermark::Turns(three_quarters(turns)) }
    }

    /// When the prompt is over its limit, everything goes but the newest messages: that many of them, at least one.
    #[must_use]
    pub const fn keep_recent(messages: usize) -> Self {
        Self { high: Watermark::Percent(100), low: Watermark::Messages(at_least_one(messages)) }
    }
}

impl Watermarks {
    /// Returns marks that every window with a message reaches, and that go down to the same size.
    pub(crate) const fn as_if_due(self) -> Self {
        let high = match self.high {
            Watermark::Percent(_) => Watermark::Percent(1),
            Watermark::Messages(_) => Watermark::Messages(1),
            Watermark::Turns(_) => Watermark::Turns(1),
        };
        Self { high, low: self.low }
    }

    /// Returns the mark at which a compaction starts.
    #[must_use]
    pub const fn high(self) -> Watermark {
        self.high
    }

    #[doc(hidden)]
    /// Returns whether it starts by something that needs no budget.
    #[must_use]
    pub const fn count_messages_or_turns(self) -> bool {
        matches!(self.high, Watermark::Messages(_) | Watermark::Turns(_))
    }
}

impl Default for Watermarks {
    fn default() -> Self {
        Self { high: Watermark::Percent(100), low: Watermark::Percent(75) }
    }
}

impl Watermark {
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

/// Watermarks that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid watermarks: the low one must not exceed the high one; both must be positive, percentages at most 100")]
pub struct WatermarksError(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_down() {
        assert!(Watermarks::new(Watermark::Percent(90), Watermark::Percent(50)).is_ok());
        assert!(Watermarks::new(Watermark::Messages(10), Watermark::Percent(50)).is_ok());
        for (start, to) in [
            (Watermark::Percent(50), Watermark::Percent(90)),
            (Watermark::Percent(101), Watermark::Percent(90)),
            (Watermark::Percent(100), Watermark::Percent(0)),
            (Watermark::Messages(3), Watermark::Messages(4)),
            (Watermark::Turns(0), Watermark::Turns(0)),
        ] {
            assert_eq!(Watermarks::new(start, to), Err(WatermarksError(())));
        }
    }

    #[test]
    fn a_quarter_of_what_is_counted_goes() {
        for (messages, to) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (6, 4), (10, 7), (20, 15)] {
            assert_eq!(Watermarks::last_messages(messages).low, Watermark::Messages(to), "{messages}");
            assert_eq!(Watermarks::last_turns(messages).low, Watermark::Turns(to), "{messages}");
        }
    }
}
