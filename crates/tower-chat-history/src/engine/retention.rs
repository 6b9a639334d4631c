//! Pruning conversations so that only their newest part stays stored.

use std::{fmt, sync::Arc};

use quick_cache::sync::Cache;
use tower_chat_history_core::{
    Appended, ConversationId, Derived, Exchange, Message, Prune, PruneTo, Revision, Seq, StoreError,
};

use super::store::BoundedStore;

/// The largest number of conversations whose added turns or messages are counted. If the count of a conversation is
/// evicted, its next exchange prunes the conversation early.
const COUNTED_CONVERSATIONS: usize = 1 << 12;

/// The largest number of turns for which a prune waits because each of them is open and bound to its prompts.
const MAX_WAITED_TURNS: usize = 8;

/// The part of each conversation that stays stored. An engine without a retention removes nothing.
///
/// An engine [with a retention](crate::Engine::with_retention) prunes a conversation's log after it stores an
/// exchange. A prune costs one more write to the store. It therefore runs only when more than n/4 turns (rounded
/// down) were added since the last one. With `LastTurns(n)`, a long log thus has from n to n + n/4 turns, and in
/// addition those that other engines or concurrent calls have added since. `LastMessages(n)` works in the same way
/// with messages.
///
/// A prune changes the beginning of the next prompt. While the newest turn waits for results, or for the rest of a
/// paused reply, and has reasoning that is [bound](tower_chat_history_core::Bound) to its prompts, a prune therefore
/// waits until the turn ends. If such turns are abandoned, it waits for at most 8 of them.
///
/// Pruned exchanges are permanently removed from the store and from later prompts. Existing
/// [summaries](crate::Summaries) of them stay (see [`Prune`]). Turns that are pruned before they were summarized
/// appear in no summary. To avoid that, retain more turns than the window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retention {
    /// Keeps this many of the last turns, and at least one.
    LastTurns(usize),
    /// Keeps as many of the last turns as together have at most this many messages, and at least one turn of any
    /// size.
    LastMessages(usize),
}

impl Retention {
    const fn prune_to(self) -> PruneTo {
        match self {
            Self::LastTurns(turns) => PruneTo::LastTurns(turns),
            Self::LastMessages(messages) => PruneTo::LastMessages(messages),
        }
    }

    /// Returns the number of turns or messages that may be added since the last prune without another prune.
    const fn slack(self) -> usize {
        let (Self::LastTurns(number) | Self::LastMessages(number)) = self;
        number / 4
    }

    /// Returns the number of turns or messages that an exchange adds.
    fn added(self, exchange: &Added) -> usize {
        match self {
            Self::LastTurns(_) => usize::from(exchange.opens_turn),
            Self::LastMessages(_) => exchange.messages,
        }
    }

    /// Returns `true` if a log with this many exchanges may have more turns or messages than the retention keeps.
    fn may_exceed(self, exchanges: u64) -> bool {
        match self {
            // Each turn has at least one exchange.
            Self::LastTurns(turns) => exchanges > turns as u64,
            Self::LastMessages(_) => true,
        }
    }
}

/// The facts about a stored exchange that its retention counts.
#[derive(Clone, Copy)]
pub(super) struct Added {
    opens_turn: bool,
    messages: usize,
    /// True if the turn goes on after the exchange.
    leaves_turn_open: bool,
    /// True if the exchange has reasoning that is bound to its prompt.
    is_bound: bool,
}

impl Added {
    pub(super) fn of(exchange: &Exchange) -> Self {
        let reply = exchange.reply();
        let says_nothing = reply.iter().all(Message::is_blank_reply);
        let has_calls = reply.iter().any(|message| !message.tool_calls().is_empty());
        Self {
            opens_turn: exchange.opens_turn(),
            messages: exchange.messages.len(),
            leaves_turn_open: says_nothing || has_calls || exchange.is_paused() || exchange.incomplete,
            is_bound: reply.iter().any(|message| message.bound().to_prefix),
        }
    }
}

/// The count of a conversation since its last prune.
#[derive(Clone, Copy)]
struct Count {
    /// The position of the newest exchange that was counted.
    seq: Seq,
    /// The number of turns or messages that were added.
    added: usize,
    /// The number of turns in which a prune was due.
    waited_turns: usize,
    /// True if the newest turn has reasoning that is bound to its prompts, or may have some.
    is_bound: bool,
}

/// Prunes conversations by a [`Retention`].
pub(super) struct Retainer {
    store: Arc<dyn Prune>,
    retention: Retention,
    counts: Cache<ConversationId, Count>,
}

impl Retainer {
    pub(super) fn new(store: Arc<dyn Prune>, retention: Retention) -> Self {
        Self { store, retention, counts: Cache::new(COUNTED_CONVERSATIONS) }
    }

    /// Counts the added exchange. Returns `true` if a prune is due, and need not wait for the end of the turn.
    fn is_due(&self, id: &ConversationId, stored: &Appended, exchange: Added) -> bool {
        // The number of exchanges in the log, including this one.
        let exchanges = stored.seq.next().get().saturating_sub(stored.revision.first().get());
        let (added, before) = (self.retention.added(&exchange), self.counts.get(id));
        let since = match before {
            Some(count) => count.added.saturating_add(added),
            // This exchange is the log's first.
            None if exchanges <= 1 => added,
            // It is not known how much was added before, by another process or before the count was evicted.
            None => usize::MAX,
        };
        let is_due = exchanges > 1 && since > self.retention.slack() && self.retention.may_exceed(exchanges);
        let waited_before = before.map_or(0, |count| count.waited_turns);
        let waited_turns = waited_before + usize::from(is_due && (exchange.opens_turn || waited_before == 0));
        // Another process may have stored the beginning of the turn.
        let of_turn = before.filter(|count| count.seq.next() == stored.seq);
        let is_bound = exchange.is_bound || !exchange.opens_turn && of_turn.is_none_or(|count| count.is_bound);
        self.counts.insert(id.clone(), Count { seq: stored.seq, added: since, waited_turns, is_bound });
        is_due && !(exchange.leaves_turn_open && is_bound && waited_turns <= MAX_WAITED_TURNS)
    }

    /// Prunes the conversation if a prune is due, and returns the revision afterward. A failure is only logged,
    /// because the exchange is already stored. A later exchange retries the prune.
    pub(super) async fn retain(
        &self,
        store: &BoundedStore,
        id: &ConversationId,
        stored: &Appended,
        added: Added,
    ) -> Revision {
        if !self.is_due(id, stored, added) {
            return stored.revision;
        }
        let pruned = store.bounded(self.prune(id, stored)).await;
        pruned.unwrap_or_else(|error| {
            tracing::warn!(
                error.type = error.kind(),
                error = %error,
                "a conversation could not be pruned; a later exchange retries the prune"
            );
            stored.revision
        })
    }

    async fn prune(&self, id: &ConversationId, stored: &Appended) -> Result<Revision, StoreError> {
        let (seq, incarnation) = (stored.seq, stored.revision.incarnation());
        let pruned = self.store.prune(id, incarnation, self.retention.prune_to(), Derived::Keep).await?;
        // The next exchange opens a turn, or continues one whose reasoning is left out because of this prune.
        self.counts.insert(id.clone(), Count { seq, added: 0, waited_turns: 0, is_bound: false });
        Ok(pruned.revision)
    }
}

impl fmt::Debug for Retainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retainer").field("retention", &self.retention).finish_non_exhaustive()
    }
}
