//! The rules of limits: the limits of a conversation, by prefix, and the arithmetic of rates.
//!
//! # Decisions
//!
//! - **The longest prefix wins whole.** One rule then explains every limit. Inherited limits would need a way to be
//!   lifted.

use std::time::Duration;

#[cfg(feature = "config")]
use tower_chat_history_core::config::field;
use tower_chat_history_core::{ConversationId, Message, Prefix};

use super::{LimitExceeded, LimitKind};

const MINUTE: Duration = Duration::from_secs(60);

/// The limits of one conversation and its calls. The default is no limit. See the [module docs](super).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Limits {
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::some_positive"))]
    pub(super) max_message_bytes: Option<u64>,
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::some_positive"))]
    pub(super) max_input_bytes: Option<u64>,
    pub(super) max_tool_rounds: Option<u64>,
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::some_positive"))]
    pub(crate) max_exchanges: Option<u64>,
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::some_positive"))]
    pub(super) max_conversation_bytes: Option<u64>,
    calls_per_minute: Option<u32>,
    #[cfg_attr(feature = "config", serde(deserialize_with = "of_different_parts"))]
    calls_per_minute_under: Vec<Rate>,
}

impl Limits {
    /// Creates a value without limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest size of one message of the input, in bytes of its JSON. The default is no limit.
    #[must_use]
    pub const fn max_message_bytes(mut self, bytes: u64) -> Self {
        self.max_message_bytes = Some(bytes);
        self
    }

    /// Sets the largest size of the input, in bytes of the JSON of its messages. The default is no limit.
    #[must_use]
    pub const fn max_input_bytes(mut self, bytes: u64) -> Self {
        self.max_input_bytes = Some(bytes);
        self
    }

    /// Sets the largest number of rounds of tool calls in one turn. A call that would send the results of a further
    /// round is refused. A reply that the provider paused is no round. The default is no limit.
    #[must_use]
    pub const fn max_tool_rounds(mut self, rounds: u64) -> Self {
        self.max_tool_rounds = Some(rounds);
        self
    }

    /// Sets the largest number of exchanges of a conversation. At this number, no further turn begins. Exchanges that a
    /// [retention](crate::Retention) or a prune removed do not count. The default is no limit.
    ///
    /// A retention prunes only after an exchange is stored. If the limit is not larger than the number of exchanges
    /// that the retention lets a log have between two prunes, a full conversation is never pruned, and stays full.
    #[must_use]
    pub const fn max_exchanges(mut self, exchanges: u64) -> Self {
        self.max_exchanges = Some(exchanges);
        self
    }

    /// Sets the largest size of a conversation, in bytes of the JSON of its messages. Messages that were removed do
    /// not count. The size of the reply is not known before the call, so the last reply can exceed the limit. The
    /// default is no limit.
    #[must_use]
    pub const fn max_conversation_bytes(mut self, bytes: u64) -> Self {
        self.max_conversation_bytes = Some(bytes);
        self
    }

    /// Sets the rate of calls in one conversation. This number of calls may begin at once. After that, one more may
    /// begin in each further 60 seconds divided by this number. 0 refuses all calls. The default is no limit.
    #[must_use]
    pub const fn calls_per_minute(mut self, calls: u32) -> Self {
        self.calls_per_minute = Some(calls);
        self
    }

    /// Sets the [rate](Self::calls_per_minute) of calls in all conversations together whose ids begin with the same
    /// parts, for example with the same tenant for one part. With 0 parts, these are all conversations. An id that has
    /// fewer parts stands for itself. Each number of parts has its own rate, and all of them apply. Only calls to which
    /// the same [rule](LimitRules) applies count together. The default is no limit.
    #[must_use]
    pub fn calls_per_minute_under(mut self, parts: usize, calls: u32) -> Self {
        self.calls_per_minute_under.retain(|rate| rate.parts != parts);
        self.calls_per_minute_under.push(Rate { parts, calls });
        self
    }

    /// Returns the rates, in calls per minute, each with the number of parts by which it is counted, or with `None` for
    /// that of each conversation.
    pub(crate) fn rates(&self) -> impl Iterator<Item = (Option<usize>, u32)> {
        let own = self.calls_per_minute.map(|calls| (None, calls));
        let shared = self.calls_per_minute_under.iter().map(|rate| (Some(rate.parts), rate.calls));
        own.into_iter().chain(shared)
    }

    /// Compares the numbers of a call with these limits, except rates.
    ///
    /// # Errors
    ///
    /// Returns the first limit that a number exceeds, in the order of the fields of [`Amounts`].
    pub(crate) fn check(&self, amounts: &Amounts) -> Result<(), LimitExceeded> {
        let checks = [
            (LimitKind::MessageBytes, self.max_message_bytes, amounts.message_bytes),
            (LimitKind::InputBytes, self.max_input_bytes, amounts.input_bytes),
            (LimitKind::ToolRounds, self.max_tool_rounds, amounts.tool_rounds),
            (LimitKind::Exchanges, self.max_exchanges, amounts.exchanges),
            (LimitKind::ConversationBytes, self.max_conversation_bytes, amounts.conversation_bytes),
        ];
        for (kind, limit, found) in checks {
            if let Some(limit) = limit.filter(|limit| found > *limit) {
                return Err(LimitExceeded::new(kind, limit, found));
            }
        }
        Ok(())
    }
}

/// The numbers of a call that limits apply to. A number that is not known is 0, which no limit refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// The size of the largest message, in bytes of its JSON.
    pub(crate) message_bytes: u64,
    /// The size of the input, in bytes of the JSON of its messages.
    pub(crate) input_bytes: u64,
    /// The number of rounds of tool calls that the turn has with this call.
    pub(crate) tool_rounds: u64,
    /// The number of exchanges that the conversation has with this call.
    pub(crate) exchanges: u64,
    /// The size of the conversation with the input of this call, in bytes of the JSON of its messages.
    pub(crate) conversation_bytes: u64,
}

impl Amounts {
    /// Returns the sizes of an input.
    pub(crate) fn of_input(messages: &[Message]) -> Self {
        let mut amounts = Self::default();
        for message in messages {
            let bytes = message.bytes() as u64;
            amounts.message_bytes = amounts.message_bytes.max(bytes);
            amounts.input_bytes += bytes;
        }
        amounts
    }
}

/// The limits of all conversations, by prefix.
///
/// For a conversation, the limits of the longest prefix that contains it apply, including the rates, and no others.
/// Conversations without such a prefix have no limits. [`Limits`] alone convert into rules by which they apply to all
/// conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRules {
    rules: Vec<(Prefix, Limits)>,
}

impl LimitRules {
    /// Creates rules without limits.
    #[must_use]
    pub const fn new() -> Self {
        Self { rules: Vec::new() }
    }

    /// Sets the limits of the conversations under a prefix. Other limits of the same prefix are replaced.
    #[must_use]
    pub fn under(mut self, prefix: Prefix, limits: Limits) -> Self {
        self.rules.retain(|(other, _)| *other != prefix);
        self.rules.push((prefix, limits));
        self
    }

    /// Returns the limits of a conversation, or `None` if it has none.
    #[must_use]
    pub fn of(&self, id: &ConversationId) -> Option<&Limits> {
        self.rule(id).map(|(_, limits)| limits)
    }

    /// Returns the limits of a conversation, and the prefix for which they are set.
    pub(crate) fn rule(&self, id: &ConversationId) -> Option<&(Prefix, Limits)> {
        let containing = self.rules.iter().filter(|(prefix, _)| prefix.contains(id));
        containing.max_by_key(|(prefix, _)| prefix.as_str().len())
    }

    /// Returns the limits of all rules.
    pub(crate) fn all(&self) -> impl Iterator<Item = &(Prefix, Limits)> {
        self.rules.iter()
    }
}

/// Creates rules by which these limits apply to all conversations.
impl From<Limits> for LimitRules {
    fn from(limits: Limits) -> Self {
        Self::new().under(Prefix::all(), limits)
    }
}

/// Returns the text of the first parts of an id, or all of it if it has fewer parts.
pub(crate) fn first_parts(id: &ConversationId, parts: usize) -> &str {
    match parts.checked_sub(1) {
        None => "",
        Some(last) => Prefix::containing(id).nth(last).unwrap_or(id.as_str()),
    }
}

/// A rate of calls in all conversations together whose ids begin with the same parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(deny_unknown_fields))]
struct Rate {
    /// The number of parts.
    parts: usize,
    /// The number of calls per minute.
    calls: u32,
}

/// Decides if a call may begin, at a rate of this many calls per minute. All times are counted from one fixed time.
///
/// Each call uses up a part of a minute, and the parts of successive calls follow each other. `used_until` is the end
/// of the last part, and 0 before the first call. A call may begin if its part ends at most a minute from now. This
/// is the generic cell rate algorithm, with a minute's calls as its burst.
///
/// # Errors
///
/// If the call may not begin, returns the time until it may, or `None` at a rate of 0. Otherwise, returns the new
/// `used_until`.
pub(crate) fn admit(per_minute: u32, used_until: Duration, now: Duration) -> Result<Duration, Option<Duration>> {
    let part = MINUTE.checked_div(per_minute).ok_or(None)?;
    let until = used_until.max(now).saturating_add(part);
    match until.saturating_sub(now).saturating_sub(MINUTE) {
        Duration::ZERO => Ok(until),
        wait => Err(Some(wait)),
    }
}

/// Reads rates, each for another number of parts.
#[cfg(feature = "config")]
fn of_different_parts<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Rate>, D::Error> {
    use serde::{Deserialize as _, de::Error as _};

    let rates = Vec::<Rate>::deserialize(deserializer)?;
    for (at, rate) in rates.iter().enumerate() {
        if rates[..at].iter().any(|other| other.parts == rate.parts) {
            return Err(D::Error::custom("repeated parts, expected another number of parts in each element"));
        }
    }
    Ok(rates)
}
