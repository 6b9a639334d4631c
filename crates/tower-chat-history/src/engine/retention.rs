//! Pruning conversations so that only their newest part stays stored.

use std::{fmt, sync::Arc};

use quick_cache::sync::Cache;
use tower_chat_history_core::{
    Appended, ConversationId, Derived, Exchange, Message, Prune, PruneTo, Revision, Seq, StoreError,
};

use super::store::BoundedStore;

/// The largest number of conversations whose added turns or messages are counted. If the count of a conversation is
/// evicted, the next exchange of the conversation takes a prune as due.
const COUNTED_CONVERSATIONS: usize = 1 << 12;

/// The number of turns that a log may have in addition while a prune waits, because each of them may go on and is bound
/// to its prompts.
const MAX_WAITED_TURNS: usize = 8;

/// The part of each conversation that stays stored. An engine without a retention removes nothing.
///
/// An engine [with a retention](crate::Engine::with_retention) prunes a conversation's log after it stores an
/// exchange. A prune costs one more write to the store. It therefore runs only when more than n/4 turns (rounded
/// down) were added since the last one. With `LastTurns(n)`, a long log thus has from n to n + n/4 turns, and in
/// addition those for which a prune waits, and those that other engines or concurrent calls have added since.
/// `LastMessages(n)` works in the same way with messages.
///
/// A prune changes the beginning of the next prompt. It therefore waits while the newest turn may go on and has
/// reasoning that is [bound](tower_chat_history_core::Bound) to its prompts. A turn may go on if its last reply has
/// calls, is paused, was interrupted or says nothing. If the engine has not counted the turn's earlier exchanges, they
/// may have such reasoning, so the prune waits, too.
///
/// If turns for which a prune waits are abandoned, a prune removes all but the last 2n + 8 turns after 8 of them, and
/// again after each 8 further ones. Each engine counts those that it stores. Four engines that share a conversation
/// store no more than that if no turn is abandoned. An engine that has not counted the turns, for example in a new
/// process, prunes in this way after each of them. With `LastMessages(n)`, this limits turns, but not their messages.
///
/// If two calls continue the same turn at the same time, and one of them ends it, the prune does not wait for the
/// other.
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

    /// Returns the number of turns or messages to keep.
    const fn number(self) -> usize {
        let (Self::LastTurns(number) | Self::LastMessages(number)) = self;
        number
    }

    /// Returns what is kept of a log while a prune waits. Each engine adds up to n/4 turns before it prunes, so this is
    /// more than a log of four engines has if no turn was abandoned. With `LastMessages`, too, because each turn has at
    /// least one message.
    const fn prune_while_waiting(self) -> PruneTo {
        PruneTo::LastTurns(self.number().saturating_mul(2).saturating_add(MAX_WAITED_TURNS))
    }

    /// Returns the number of turns or messages that may be added since the last prune without another prune.
    const fn slack(self) -> usize {
        self.number() / 4
    }

    /// Returns the number of turns or messages that an exchange adds, if this number of exchanges of other engines are
    /// between it and the one that was counted before. They count as the least that they can have: the opening of the
    /// turn that the exchange continues, or one message each.
    fn added(self, facts: &ExchangeFacts, between: u64) -> usize {
        match self {
            Self::LastTurns(_) => usize::from(facts.opens_turn || between > 0),
            Self::LastMessages(_) => facts.messages.saturating_add(usize::try_from(between).unwrap_or(usize::MAX)),
        }
    }
}

/// Returns `true` if a prune may remove something of a log with this many exchanges.
const fn may_remove(to: PruneTo, exchanges: u64) -> bool {
    match to {
        // Each turn has at least one exchange.
        PruneTo::LastTurns(turns) if turns > 0 => exchanges > turns as u64,
        // The newest turn is kept.
        _ => exchanges > 1,
    }
}

/// The facts about a stored exchange that decide if a prune is due.
#[derive(Clone, Copy)]
pub(super) struct ExchangeFacts {
    opens_turn: bool,
    messages: usize,
    /// True if a later exchange may belong to the same turn.
    may_go_on: bool,
    /// True if the reply has reasoning that is bound to its prompt.
    is_bound: bool,
}

impl ExchangeFacts {
    pub(super) fn of(exchange: &Exchange) -> Self {
        let reply = exchange.reply();
        let says_nothing = reply.iter().all(Message::is_blank);
        let has_calls = reply.iter().any(|message| !message.tool_calls().is_empty());
        Self {
            opens_turn: exchange.opens_turn(),
            messages: exchange.messages.len(),
            may_go_on: says_nothing || has_calls || exchange.is_paused() || exchange.incomplete,
            is_bound: exchange.is_bound_to_prompt(),
        }
    }
}

/// The count of a conversation since its last prune.
#[derive(Clone, Copy)]
struct Count {
    /// The position of the newest exchange that was counted.
    seq: Seq,
    /// The position of the log's first exchange. If it is another one, another engine has pruned the log.
    first: Seq,
    /// The number of turns or messages that were added.
    added: usize,
    /// The number that was added when no prune waited, or when the weaker prune last ran.
    checked: usize,
    /// True if the newest turn has reasoning that is bound to its prompts, or may have some.
    is_turn_bound: bool,
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

    /// Counts a stored exchange. Returns what a prune is to keep, or `None` if no prune is to run now.
    fn count(&self, id: &ConversationId, stored: &Appended, facts: ExchangeFacts) -> Option<PruneTo> {
        let seq = stored.seq;
        let first = stored.revision.first();
        let slack = self.retention.slack();
        // The number of exchanges in the log, including this one.
        let exchanges = seq.next().get().saturating_sub(first.get());
        let before = self.counts.get(id);
        let between = before.map_or(0, |count| seq.get().saturating_sub(count.seq.next().get()));
        let added = self.retention.added(&facts, between);

        let (since, checked) = match before {
            Some(count) if count.first == first => (count.added.saturating_add(added), count.checked),
            // Another engine has pruned the log.
            Some(_) => (added, 0),
            // This exchange is the log's first.
            None if exchanges <= 1 => (added, 0),
            // It is not known how much was added before, by another process or before the count was evicted. It may be
            // enough for each kind of prune.
            None => (slack.saturating_add(MAX_WAITED_TURNS + 1), 0),
        };

        // Another process may have stored the beginning of the turn.
        let of_turn = before.filter(|count| count.seq.next() == seq);
        let is_turn_bound = facts.is_bound || !facts.opens_turn && of_turn.is_none_or(|count| count.is_turn_bound);
        let waits = facts.may_go_on && is_turn_bound;
        let checked = if waits { checked } else { since };
        self.counts.insert(id.clone(), Count { seq, first, added: since, checked, is_turn_bound });

        let (most, to) = if waits {
            (checked.saturating_add(MAX_WAITED_TURNS), self.retention.prune_while_waiting())
        } else {
            (slack, self.retention.prune_to())
        };
        (since > most && may_remove(to, exchanges)).then_some(to)
    }

    /// Prunes the conversation if a prune is due, and returns the revision afterward. A failure is only logged,
    /// because the exchange is already stored. A later exchange retries the prune.
    pub(super) async fn retain(
        &self,
        store: &BoundedStore,
        id: &ConversationId,
        stored: &Appended,
        facts: ExchangeFacts,
    ) -> Revision {
        let Some(to) = self.count(id, stored, facts) else { return stored.revision };
        let pruned = store.bounded(self.prune(id, stored, to)).await;
        pruned.unwrap_or_else(|error| {
            tracing::warn!(
                error.type = error.kind(),
                error = %error,
                "a conversation could not be pruned; a later exchange retries the prune"
            );
            stored.revision
        })
    }

    async fn prune(&self, id: &ConversationId, stored: &Appended, to: PruneTo) -> Result<Revision, StoreError> {
        let incarnation = stored.revision.incarnation();
        let pruned = self.store.prune(id, incarnation, to, Derived::Keep).await?;
        if let Some(mut count) = self.counts.get(id) {
            count.first = pruned.revision.first();
            if to == self.retention.prune_to() {
                count.added = 0;
                count.checked = 0;
            } else {
                count.checked = count.added;
            }
            self.counts.insert(id.clone(), count);
        }
        Ok(pruned.revision)
    }
}

impl fmt::Debug for Retainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retainer").field("retention", &self.retention).finish_non_exhaustive()
    }
}
