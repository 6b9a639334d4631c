//! The rules of a compaction: the sizes that control it, and the tool results that it clears first.

use tower_chat_history_core::{CallId, Message};

/// The sizes that control compaction. A compaction starts if the high watermark is exceeded, and reduces the prompt to
/// the low one. By default, it starts if the prompt exceeds its limit, and goes down to 75% of the limit.
///
/// If you decrease the low watermark, the window's beginning stays the same for more turns, so more of each prompt is
/// in the provider's prefix cache. But less of the conversation is sent. A simulation of 500 turns compared the default
/// with a sliding window (head: 2,000 tokens, limit: 8,000 tokens, cached tokens at a quarter of the price). The
/// default sent 83% of the history tokens, for 41% of the input price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Watermarks {
    #[cfg_attr(feature = "config", serde(deserialize_with = "watermark"))]
    pub(crate) high: Watermark,
    #[cfg_attr(feature = "config", serde(deserialize_with = "watermark"))]
    pub(crate) low: Watermark,
}

/// A size of a prompt or of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Watermark {
    /// A percentage of the prompt's limit, which is the context window minus the reply reserve. The whole prompt
    /// counts, including the head. A compaction never goes below the size of the fixed parts of the prompt (head,
    /// tools, response format, summary) plus half of the rest of the limit.
    Percent(u8),
    /// A number of messages in the window, without head and input. The window may have a few more messages, for two
    /// reasons: it is cut between exchanges, and its newest turn is left out only if it does not fit.
    Messages(usize),
    /// A number of turns in the window, without the turn of the input.
    Turns(usize),
}

impl Watermarks {
    /// Creates watermarks. The limit of the prompt always applies too. If `low` is a number of messages or turns, a
    /// compaction also reduces the prompt to 75% of its limit.
    ///
    /// # Errors
    ///
    /// Returns an error if a watermark is 0 or more than 100%, or if both are of the same kind and the low one exceeds
    /// the high one.
    pub const fn new(high: Watermark, low: Watermark) -> Result<Self, WatermarksError> {
        let grows = match (high, low) {
            (Watermark::Percent(high), Watermark::Percent(low)) => low > high,
            (Watermark::Messages(high), Watermark::Messages(low)) | (Watermark::Turns(high), Watermark::Turns(low)) => {
                low > high
            }
            _ => false,
        };
        if grows || high.is_invalid() || low.is_invalid() { Err(WatermarksError(())) } else { Ok(Self { high, low }) }
    }

    /// Limits the window to this number of messages, at least one. If there are more, the oldest are left out until
    /// three quarters of this number remain.
    #[must_use]
    pub const fn last_messages(messages: usize) -> Self {
        let messages = at_least_one(messages);
        Self { high: Watermark::Messages(messages), low: Watermark::Messages(three_quarters(messages)) }
    }

    /// Limits the window to this number of turns, at least one. If there are more, the oldest are left out until three
    /// quarters of this number remain.
    #[must_use]
    pub const fn last_turns(turns: usize) -> Self {
        let turns = at_least_one(turns);
        Self { high: Watermark::Turns(turns), low: Watermark::Turns(three_quarters(turns)) }
    }

    /// Compacts the window only if the prompt exceeds its limit. A compaction then reduces the window to this many of
    /// the newest messages. 0 means 1.
    #[must_use]
    pub const fn keep_recent(messages: usize) -> Self {
        Self { high: Watermark::Percent(100), low: Watermark::Messages(at_least_one(messages)) }
    }
}

impl Watermarks {
    /// Returns the same low watermark with the smallest high one.
    pub(crate) const fn as_if_due(self) -> Self {
        let high = match self.high {
            Watermark::Percent(_) => Watermark::Percent(1),
            Watermark::Messages(_) => Watermark::Messages(1),
            Watermark::Turns(_) => Watermark::Turns(1),
        };
        Self { high, low: self.low }
    }

    /// Returns the high watermark, above which a compaction starts.
    #[must_use]
    pub const fn high(self) -> Watermark {
        self.high
    }

    /// Returns the low watermark, to which a compaction reduces the prompt.
    #[must_use]
    pub const fn low(self) -> Watermark {
        self.low
    }

    /// Returns `true` if the high watermark counts messages or turns, which needs no budget.
    pub(crate) const fn count_messages_or_turns(self) -> bool {
        matches!(self.high, Watermark::Messages(_) | Watermark::Turns(_))
    }
}

impl Default for Watermarks {
    fn default() -> Self {
        Self { high: Watermark::Percent(100), low: Watermark::Percent(75) }
    }
}

impl Watermark {
    const fn is_invalid(self) -> bool {
        match self {
            Self::Percent(percent) => percent == 0 || percent > 100,
            Self::Messages(count) | Self::Turns(count) => count == 0,
        }
    }
}

#[cfg(feature = "config")]
fn watermark<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Watermark, D::Error> {
    use serde::{Deserialize as _, de::Error as _};

    let watermark = Watermark::deserialize(deserializer)?;
    if watermark.is_invalid() {
        return Err(D::Error::custom("invalid watermark, expected at least 1, and at most 100 percent"));
    }
    Ok(watermark)
}

const fn at_least_one(count: usize) -> usize {
    if count == 0 { 1 } else { count }
}

const fn three_quarters(count: usize) -> usize {
    at_least_one(count / 4 * 3 + count % 4 * 3 / 4)
}

/// Invalid watermarks: one is 0 or more than 100%, or the low one exceeds the high one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid watermarks: the low one must not exceed the high one; both must be positive, percentages at most 100")]
pub struct WatermarksError(());

/// Replaces the content of old tool results by a placeholder, as LangChain's `ClearToolUsesEdit` does. Calls and their
/// arguments stay, so the model still sees its own actions.
///
/// Clearing is the first step of a [compaction](Watermarks). The oldest results are cleared first. If that makes
/// the window small enough, no message is left out. Results that were cleared once stay cleared in later prompts. The
/// log keeps the original results.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct ClearResults {
    pub(crate) keep: usize,
    #[cfg_attr(feature = "config", serde(rename = "clear_at_least_tokens"))]
    pub(crate) at_least: u64,
    #[cfg_attr(feature = "config", serde(rename = "exclude_tools"))]
    pub(crate) exclude: Vec<String>,
    pub(crate) placeholder: String,
}

impl ClearResults {
    /// Creates the default options: the 3 newest results are kept, and older ones replaced by `[cleared]`.
    #[must_use]
    pub fn new() -> Self {
        Self { keep: 3, at_least: 0, exclude: Vec::new(), placeholder: "[cleared]".to_owned() }
    }

    /// Sets how many of the newest results are never cleared. The default is 3. Results of the same exchange are
    /// cleared together, so a few more may be kept.
    #[must_use]
    pub const fn keep(mut self, results: usize) -> Self {
        self.keep = results;
        self
    }

    /// Sets the smallest number of tokens that a clearing should free. The default is 0. Clearing changes the prompt's
    /// beginning, so the provider's prefix cache loses the rest of the prompt. Clearing therefore continues after the
    /// window fits, until it has freed this many tokens or no more results can be cleared.
    #[must_use]
    pub const fn clear_at_least(mut self, tokens: u64) -> Self {
        self.at_least = tokens;
        self
    }

    /// Sets the tools whose results are never cleared. The default is none.
    #[must_use]
    pub fn exclude_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.exclude = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the text that replaces a result's content. The default is `[cleared]`.
    #[must_use]
    pub fn placeholder(mut self, text: impl Into<String>) -> Self {
        self.placeholder = text.into();
        self
    }

    /// Returns the message with cleared results, or `None` if it has none, or if their tools are excluded. `tool`
    /// returns the name of the tool of a call.
    pub(crate) fn clear<'n>(&self, message: &Message, tool: &dyn Fn(&CallId) -> Option<&'n str>) -> Option<Message> {
        if message.answers().is_empty() {
            return None;
        }
        message.cleared(&|id| tool(id).is_none_or(|tool| !self.excludes(tool)), &self.placeholder)
    }

    fn excludes(&self, tool: &str) -> bool {
        self.exclude.iter().any(|name| name == tool)
    }
}

impl Default for ClearResults {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_low_watermark_does_not_exceed_the_high_one() {
        assert!(Watermarks::new(Watermark::Percent(90), Watermark::Percent(50)).is_ok());
        assert!(Watermarks::new(Watermark::Messages(10), Watermark::Percent(50)).is_ok());
        for (high, low) in [
            (Watermark::Percent(50), Watermark::Percent(90)),
            (Watermark::Percent(101), Watermark::Percent(90)),
            (Watermark::Percent(100), Watermark::Percent(0)),
            (Watermark::Messages(3), Watermark::Messages(4)),
            (Watermark::Turns(0), Watermark::Turns(0)),
        ] {
            assert_eq!(Watermarks::new(high, low), Err(WatermarksError(())));
        }
    }

    #[test]
    fn the_low_watermark_is_three_quarters_of_a_number_of_messages_or_turns() {
        for (limit, low) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (6, 4), (10, 7), (20, 15)] {
            assert_eq!(Watermarks::last_messages(limit).low, Watermark::Messages(low), "{limit}");
            assert_eq!(Watermarks::last_turns(limit).low, Watermark::Turns(low), "{limit}");
        }
    }
}
