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
//! Other limits are elsewhere: of queues and detached streams in [`policy`](crate::policy), of what a call loads in
//! [`LoadLimit`](crate::store::LoadLimit), and of bodies in `HttpLimits` of the module `http`.
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

mod error;
mod quota;
mod rules;
#[cfg(test)]
mod tests;

#[cfg(feature = "config")]
pub(crate) use self::quota::QuotaRule;
pub(crate) use self::rules::{Amounts, admit, first_parts};
pub use self::{
    error::{LimitExceeded, LimitKind},
    quota::ConversationQuota,
    rules::{LimitRules, Limits},
};
