//! Keeping no more of a conversation than the service asks for.

use std::{fmt, sync::Arc};

use quick_cache::sync::Cache;
use tower_chat_history_core::{
    Appended, ConversationId, Derived, Exchange, Incarnation, Prune, PruneTo, Revision, StoreError,
};

use super::store::BoundedStore;

/// Conversations whose additions are counted. One that is forgotten is pruned once more than it had to be.
const COUNTED_CONVERSATIONS: usize = 1 << 12;

/// How much of each conversation stays stored. There is no default: without it, all of it does.
///
/// An engine that is made [with it](crate::Engine::with_retention) prunes the conversation's log after an exchange was stored. That is
/// another write, so it is not done after each: only when more than a quarter of the number was added since the last time. So
/// the last n stay in any case, and up to n + n/4 (rounded down) do, and what came by other engines, or at the same time, since.
///
/// What is removed is gone for good, from the store and from later prompts. [Summaries](crate::Summaries) of it stay (see
/// [`Prune`]); but what is removed before it was summarized is in none. Keep more turns than a window holds, and none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retention {
    /// The last turns, that many of them. At least one stays.
    LastTurns(usize),
    /// The last turns that together have at most that many messages. At least one turn stays, however many it has.
    LastMessages(usize),
}

impl Retention {
    const fn prune_to(self) -> PruneTo {
        match self {
            Self::LastTurns(turns) => PruneTo::LastTurns(turns),
            Self::LastMessages(messages) => PruneTo::LastMessages(messages),
        }
    }

    /// How much may be added before the next prune.
    const fn slack(self) -> usize {
        let (Self::LastTurns(number) | Self::LastMessages(number)) = self;
        number / 4
    }

    /// What an exchange adds.
    fn added(self, exchange: &Added) -> usize {
        match self {
            Self::LastTurns(_) => usize::from(exchange.opens_turn),
            Self::LastMessages(_) => exchange.messages,
        }
    }

    /// Returns whether a log of so many exchanges may have more than is to be kept.
    fn may_exceed(self, exchanges: u64) -> bool {
        match self {
            // A turn has one exchange at least.
            Self::LastTurns(turns) => exchanges > turns as u64,
            Self::LastMessages(_) => true,
        }
    }
}

/// What a stored exchange adds to its log.
#[derive(Clone, Copy)]
pub(super) struct Added {
    opens_turn: bool,
    messages: usize,
}

impl Added {
    pub(super) fn of(exchange: &Exchange) -> Self {
        Self { opens_turn: exchange.opens_turn(), messages: exchange.messages.len() }
    }
}

/// Prunes conversations by a [`Retention`].
pub(super) struct Retainer {
    store: Arc<dyn Prune>,
    retention: Retention,
    /// What was added to a conversation since it was last pruned, in the retention's unit.
    added: Cache<ConversationId, usize>,
}

impl Retainer {
    pub(super) fn new(store: Arc<dyn Prune>, retention: Retention) -> Self {
        Self { store, retention, added: Cache::new(COUNTED_CONVERSATIONS) }
    }

    /// Notes what was added and says whether it is time to prune.
    fn is_due(&self, id: &ConversationId, stored: &Appended, added: Added) -> bool {
        // The positions that still stand, this one included.
        let exchanges = stored.seq.next().get().saturating_sub(stored.revision.first().get());
        let added = self.retention.added(&added);
        let since = match self.added.get(id) {
            Some(since) => since.saturating_add(added),
            // The log begins with this exchange, so there was nothing before it.
            None if exchanges <= 1 => added,
            // Nobody knows what was added before: by an earlier process, or to a conversation that was forgotten here.
            None => usize::MAX,
        };
        self.added.insert(id.clone(), since);
        exchanges > 1 && since > self.retention.slack() && self.retention.may_exceed(exchanges)
    }

    /// Removes what is not to be kept, if it is time, and returns the revision after that. A failure is logged: the
    /// exchange is stored all the same, and the next one tries again.
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
        let pruned = store.bounded(self.prune(id, stored.revision.incarnation())).await;
        pruned.unwrap_or_else(|error| {
            tracing::warn!(
                error.type = error.kind(),
                error = %error,
                "a conversation could not be pruned; its next exchange tries again"
            );
            stored.revision
        })
    }

    async fn prune(&self, id: &ConversationId, incarnation: Incarnation) -> Result<Revision, StoreError> {
        let pruned = self.store.prune(id, incarnation, self.retention.prune_to(), Derived::Keep).await?;
        self.added.insert(id.clone(), 0);
        Ok(pruned.revision)
    }
}

impl fmt::Debug for Retainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retainer").field("retention", &self.retention).finish_non_exhaustive()
    }
}
