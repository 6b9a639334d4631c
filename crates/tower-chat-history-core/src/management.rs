//! Events about the management of conversations.
//!
//! Calls that change or copy conversations without a model emit a `tracing` event with the target [`TARGET`] and the
//! level `INFO`. A subscriber that keeps the events of this target keeps a record of them.
//!
//! | `action` | the call | fields besides `conversation` |
//! |---|---|---|
//! | `delete` | [`Conversation::clear`] | |
//! | `truncate` | [`Conversation::truncate`], [`Conversation::take_last`] | `exchanges` |
//! | `prune` | [`Conversation::prune`], [`Conversation::keep_last_turns`], [`Conversation::keep_last_messages`] | `exchanges`, `derived` |
//! | `fork` | [`Conversation::fork`] | `to`, `exchanges` |
//! | `set_labels` | [`Conversation::set_labels`] | |
//! | `import` | [`Conversation::import`], and an import by `Importer` of `tower-chat-history` | `exchanges` |
//! | `expire` | [`Expiry::run_once`] | `conversations`, `exchanges`, `bytes` |
//! | `erase_quotes` | [`erase_quotes`](crate::erase_quotes) | |
//! | `erase` | [`EraseExt::erase_all`], [`Erasure`] | `under` instead of it; `complete`, `conversations`, `exchanges`, `bytes` |
//! | `export` | an export by `Export` of `tower-chat-history` | `under` instead of it; `conversations`, `exchanges`, `bytes` |
//!
//! The numbers are those of the call's receipt. No event contains messages, summaries or labels, but all of them name
//! conversations. If your logs must not have ids, leave out this target.
//!
//! To say who made a call, make it in a span of your own: the events are in that span.
//!
//! ```
//! # use tower_chat_history_core::{Erase, EraseExt as _, Prefix, Receipt, Stopped};
//! use tracing::Instrument as _;
//!
//! # async fn forget(store: &dyn Erase, user: &Prefix) -> Result<Receipt, Stopped<Receipt>> {
//! let span = tracing::info_span!("support", actor = "anna", ticket = 4711);
//! let receipt = store.erase_all(user).instrument(span).await?;
//! # Ok(receipt)
//! # }
//! ```
//!
//! A call that fails emits nothing, with these exceptions: erasures, expiries, and the exports and imports of
//! `tower-chat-history` say how far they came. Calls of a store's own methods, such as
//! [`HistoryStore::delete`](crate::HistoryStore::delete), emit nothing. Neither do turns and the retention of an engine.
//!
//! [`Conversation`]: crate::Conversation
//! [`Conversation::clear`]: crate::Conversation::clear
//! [`Conversation::fork`]: crate::Conversation::fork
//! [`Conversation::import`]: crate::Conversation::import
//! [`Conversation::keep_last_messages`]: crate::Conversation::keep_last_messages
//! [`Conversation::keep_last_turns`]: crate::Conversation::keep_last_turns
//! [`Conversation::prune`]: crate::Conversation::prune
//! [`Conversation::set_labels`]: crate::Conversation::set_labels
//! [`Conversation::take_last`]: crate::Conversation::take_last
//! [`Conversation::truncate`]: crate::Conversation::truncate
//! [`EraseExt::erase_all`]: crate::EraseExt::erase_all
//! [`Erasure`]: crate::Erasure
//! [`Expiry::run_once`]: crate::Expiry::run_once

/// The target of the events.
pub const TARGET: &str = "tower_chat_history::management";
