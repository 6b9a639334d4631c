//! Limits: the most that the conversations of a tenant may use. They are checked before the model is called.
//!
//! ```
//! use tower_chat_history::{HistoryOptions, limits::{LimitRules, Limits}, store::Prefix};
//!
//! let usual = Limits::new()
//!     .max_message_bytes(64 << 10)
//!     .max_tool_rounds(20)
//!     .max_exchanges(5_000)
//!     .calls_per_minute(10)
//!     .calls_per_minute_under(1, 600);
//! let trial = usual.clone().max_exchanges(100).calls_per_minute_under(1, 30);
//! let rules = LimitRules::from(usual).under(Prefix::new(["trial"])?, trial);
//! let options = HistoryOptions::new().limits(rules);
//! # let _ = options;
//! # Ok::<(), tower_chat_history::store::ConversationIdError>(())
//! ```
//!
//! The limits of the longest prefix apply to a conversation, and no others. Here, `trial` has all of them.
//!
//! By default, there are no limits. A call over a limit fails with [`HistoryError::Limit`](crate::HistoryError::Limit).
//!
//! # What each limit counts
//!
//! | limit | counted | calls to which it applies |
//! |---|---|---|
//! | [`max_message_bytes`](Limits::max_message_bytes) | the JSON of the largest message of the input, or of the messages to [store instead](crate::CallOptions::store_instead) | all, and [`store_results`](crate::Engine::store_results) |
//! | [`max_input_bytes`](Limits::max_input_bytes) | the JSON of all messages of the input, or of those to store instead, if they are larger | all, and `store_results` |
//! | [`calls_per_minute`](Limits::calls_per_minute), [`calls_per_minute_under`](Limits::calls_per_minute_under) | calls, including those that send tool results | all |
//! | [`max_tool_rounds`](Limits::max_tool_rounds) | the rounds of tool calls since the question, including the ones that the call answers | all |
//! | [`max_exchanges`](Limits::max_exchanges) | the exchanges of the log, and the one to store | all that store and open a turn |
//! | [`max_conversation_bytes`](Limits::max_conversation_bytes) | the JSON of the messages of the log, and of those to store, without the reply | all that store and open a turn |
//! | [`ConversationQuota`] | the conversations under the first parts of the id, and the new one | the first one of a conversation, if it stores |
//!
//! The messages that are recalled for a call are not counted.
//!
//! # Nothing is lost
//!
//! - The limits apply before a call begins, and never to the save of its reply. A reply that was paid for is stored
//!   even if the log then exceeds a limit.
//! - A turn that began can be finished in a full conversation: calls that send tool results, or that continue a paused
//!   reply, are not compared with the size of the conversation. Set `max_tool_rounds` too, which limits the turn.
//! - A call that is refused stores nothing and changes nothing. Its tool results can be sent again: after a while, if a
//!   rate was reached, or to another program with other limits. The calls that they answer stay open. A new question
//!   ends the turn, as always.
//! - A call that is repeated under an exchange id of the log is answered from the log, whatever the limits are. It does
//!   not count toward a rate.
//!
//! A call is checked for its size and for rates before it waits or loads anything. If it exceeds one of them and has an
//! exchange id of the caller, this id is looked up, which costs one small load. A call that is refused later, for
//! example because the conversation is full, counts toward its rates.
//!
//! # What has no limit
//!
//! - Calls that are marked as stateless. The engine does not see them, so neither sizes nor rates apply.
//! - The look-ups of exchange ids for calls that are refused, and calls of `store_results`, have no rate. Each costs a
//!   load, so an application that exposes them to its tenants must limit their number.
//! - The head of a request and the messages that the caller resends. A limit for bodies, such as `HttpLimits`, bounds
//!   them.
//! - Calls that store nothing: neither the size of the conversation nor the number of conversations applies to them.
//!
//! A client of an HTTP service chooses these by headers, if the service reads them from the client. A proxy in front of
//! tenants that are not trusted must remove `x-chat-history-stateless`, `x-chat-history-few-shot-messages` and
//! `x-chat-history-dont-store`.
//!
//! # Exactness
//!
//! - A rate holds for one engine, with all its clones. Each process has its own. An engine remembers the rates of
//!   16,384 conversations, and of 16,384 prefixes for each number of parts. For one that it forgot, a rate begins
//!   anew.
//! - The limits of the log and of conversations are compared with the state at the load. Calls that run at the same
//!   time do not see each other, so a log can exceed its limit by the exchanges of these calls, and a prefix its
//!   limit by their conversations.
//! - If the history cannot be loaded, and the model is called [without
//!   it](crate::policy::OnLoadFailure::CallWithoutHistory), only sizes and rates are checked.

mod amounts;
mod counted;
mod exceeded;
mod quota;
mod rate;
mod rules;

#[cfg(feature = "config")]
use tower_chat_history_core::config::field;

#[cfg(feature = "config")]
pub(crate) use self::quota::QuotaRule;
pub(crate) use self::{
    amounts::Amounts,
    rate::{Rate, admit},
    rules::first_parts,
};
pub use self::{
    exceeded::{LimitExceeded, LimitKind},
    quota::ConversationQuota,
    rules::LimitRules,
};

/// The limits of one conversation and its calls. The default is no limit. See the [module docs](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Limits {
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::some_positive"))]
    max_message_bytes: Option<u64>,
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::some_positive"))]
    max_input_bytes: Option<u64>,
    max_tool_rounds: Option<u64>,
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::some_positive"))]
    pub(crate) max_exchanges: Option<u64>,
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::some_positive"))]
    max_conversation_bytes: Option<u64>,
    calls_per_minute: Option<u32>,
    #[cfg_attr(feature = "config", serde(deserialize_with = "rate::of_different_parts"))]
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
}
