//! The number of conversations under a prefix.

use std::{fmt, sync::Arc};

use tower_chat_history_core::{ConversationId, Cursor, List, Prefix, StoreError};

use super::{LimitExceeded, LimitKind, counted::Counted, first_parts};

/// The largest number of conversations that are listed per call of the store.
const PAGE: u64 = 1_000;

/// Limits the number of conversations whose ids begin with the same parts.
///
/// ```
/// use tower_chat_history::{Engine, HistoryOptions, MemoryStore, limits::ConversationQuota, store::Prefix};
///
/// // Each tenant may have 10,000 conversations, and each of its users 100.
/// let store = MemoryStore::new();
/// let quota = ConversationQuota::new(store.clone()).under(Prefix::all(), 1, 10_000).under(Prefix::all(), 2, 100);
/// let engine = Engine::with_options(store, HistoryOptions::new().conversation_quota(quota));
/// # let _ = engine;
/// ```
///
/// The conversations are counted only before the first call of a conversation, by a listing that ends as soon as the
/// limit is reached. Its cost grows with the limit, because stores keep no count: a page of a listing has up to 1,000
/// conversations. For each prefix and limit, one listing runs at a time, and calls that wait for it share the next one.
/// If a prefix is full, this is remembered for one second, so a deleted conversation makes room after at most this
/// time. Set a [rate](super::Limits::calls_per_minute_under) too: below a quota, each first call costs a listing, and
/// its conversation exists only once its reply is stored.
///
/// A [fork](crate::Conversation::fork) and an [import](crate::Conversation::import) create a conversation without asking
/// the quota. It is counted like every other one when the next conversation begins.
///
/// A listing that fails, or does not end within the [store timeout](crate::HistoryOptions::store_timeout), fails the
/// call with the error of a load. This is also so if the model [may be called without
/// history](crate::policy::OnLoadFailure::CallWithoutHistory).
#[derive(Clone)]
pub struct ConversationQuota {
    store: Arc<dyn List>,
    rules: Vec<QuotaRule>,
    counted: Arc<Counted>,
}

/// The largest number of conversations with the same first parts, for the conversations under a prefix.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(deny_unknown_fields))]
pub(crate) struct QuotaRule {
    #[cfg_attr(feature = "config", serde(default = "Prefix::all"))]
    pub(crate) prefix: Prefix,
    pub(crate) parts: usize,
    #[cfg_attr(feature = "config", serde(rename = "max"))]
    pub(crate) conversations: u64,
}

impl ConversationQuota {
    /// Creates a value without limits, which counts the conversations of this store. Pass the store of the engine.
    pub fn new(store: impl List) -> Self {
        Self { store: Arc::new(store), rules: Vec::new(), counted: Arc::default() }
    }

    /// Sets the largest number of conversations with the same first parts of their ids, for the conversations under a
    /// prefix. With 0 parts, these are all conversations of the store.
    ///
    /// Another limit for the same prefix and the same number of parts is replaced. For each number of parts, the
    /// limit of the longest prefix that contains the conversation applies. A conversation whose id has fewer parts is
    /// not counted, and a limit of 0 refuses it too. The default is no limit.
    #[must_use]
    pub fn under(mut self, prefix: Prefix, parts: usize, conversations: u64) -> Self {
        self.rules.retain(|rule| rule.prefix != prefix || rule.parts != parts);
        self.rules.push(QuotaRule { prefix, parts, conversations });
        self
    }

    /// Returns the limit that a new conversation with this id would exceed, if there is one.
    pub(crate) async fn exceeded_by(&self, id: &ConversationId) -> Result<Option<LimitExceeded>, StoreError> {
        let own_parts = id.parts().count();
        for QuotaRule { parts, conversations, .. } in self.applying(id) {
            let is_full = match *conversations {
                0 => true,
                // No other conversation begins with as many parts.
                _ if own_parts < *parts => false,
                limit => {
                    let under = first_parts(id, *parts);
                    self.counted.is_full(under, limit, self.has(under, limit)).await?
                }
            };
            if is_full {
                let found = conversations.saturating_add(1);
                let exceeded = LimitExceeded::new(LimitKind::Conversations, *conversations, found);
                return Ok(Some(LimitExceeded { parts: Some(*parts), ..exceeded }));
            }
        }
        Ok(None)
    }

    /// Returns the rules that apply to a conversation, at most one for each number of parts.
    fn applying(&self, id: &ConversationId) -> impl Iterator<Item = &QuotaRule> {
        let containing = || self.rules.iter().filter(|rule| rule.prefix.contains(id));
        let is_longer = |one: &QuotaRule, other: &QuotaRule| one.prefix.as_str().len() > other.prefix.as_str().len();
        containing().filter(move |rule| !containing().any(|other| other.parts == rule.parts && is_longer(other, rule)))
    }

    /// Returns `true` if there are at least this many conversations under the prefix with this text.
    async fn has(&self, under: &str, conversations: u64) -> Result<bool, StoreError> {
        let under: Prefix = under.parse().map_err(StoreError::backend)?;
        let (mut left, mut after): (_, Option<Cursor>) = (conversations, None);
        while left > 0 {
            let limit = usize::try_from(left.min(PAGE)).unwrap_or(usize::MAX);
            let page = self.store.list(&under, after.as_ref(), limit).await?;
            left = left.saturating_sub(page.len() as u64);
            after = match page.next {
                Some(next) => Some(next),
                None => return Ok(left == 0),
            };
        }
        Ok(true)
    }
}

impl fmt::Debug for ConversationQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversationQuota").field("store", &self.store).field("rules", &self.rules).finish()
    }
}
