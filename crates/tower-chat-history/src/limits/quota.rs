//! The number of conversations under a prefix.
//!
//! # Decisions
//!
//! - **Conversations are counted by a listing.** A count for each prefix would make every first append of a tenant
//!   change one row.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use quick_cache::sync::Cache;
use tokio::{sync::Mutex, time::Instant};
use tower_chat_history_core::{ConversationId, List, Prefix, StoreError};

use super::{LimitExceeded, LimitKind, rules::first_parts};

/// The largest number of conversations that are listed per call of the store.
const PAGE: u64 = 1_000;

/// The largest number of prefixes whose counts are remembered.
const REMEMBERED: usize = 1 << 12;

/// The time for which a full prefix is not listed again.
const FULL_FOR: Duration = Duration::from_secs(1);

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
    counts: Arc<Counts>,
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
        Self { store: Arc::new(store), rules: Vec::new(), counts: Arc::default() }
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
        for rule in &self.rules {
            if self.applies(rule, id) && self.is_full(rule, id).await? {
                let limit = rule.conversations;
                let exceeded = LimitExceeded::new(LimitKind::Conversations, limit, limit.saturating_add(1));
                return Ok(Some(LimitExceeded { parts: Some(rule.parts), ..exceeded }));
            }
        }
        Ok(None)
    }

    /// Returns `true` if a rule contains this conversation, and no other one for as many parts has a longer prefix.
    fn applies(&self, rule: &QuotaRule, id: &ConversationId) -> bool {
        let mut others = self.rules.iter().filter(|other| other.parts == rule.parts && other.prefix.contains(id));
        let has_longer = others.any(|other| other.prefix.as_str().len() > rule.prefix.as_str().len());
        rule.prefix.contains(id) && !has_longer
    }

    /// Returns `true` if a new conversation with this id would exceed the limit of a rule.
    async fn is_full(&self, rule: &QuotaRule, id: &ConversationId) -> Result<bool, StoreError> {
        if rule.conversations == 0 {
            return Ok(true);
        }
        if id.parts().count() < rule.parts {
            // No other conversation begins with as many parts.
            return Ok(false);
        }
        let under = first_parts(id, rule.parts);
        self.counts.is_full(under, rule.conversations, self.has(under, rule.conversations)).await
    }

    /// Returns `true` if there are at least this many conversations under the prefix with this text.
    async fn has(&self, under: &str, conversations: u64) -> Result<bool, StoreError> {
        let under: Prefix = under.parse().map_err(StoreError::backend)?;

        let mut left = conversations;
        let mut after = None;
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

/// The newest counts, by prefix and limit.
struct Counts(Cache<(Box<str>, u64), Arc<Count>>);

/// The newest count of the conversations under one prefix.
#[derive(Default)]
struct Count {
    /// The number of listings that have begun.
    begun: AtomicU64,
    /// Held by the listing that runs.
    newest: Mutex<Option<Newest>>,
}

/// The newest listing that ended.
struct Newest {
    /// The number of the listing, from 1.
    number: u64,
    /// The time of its end, if it found that the prefix is full.
    full_since: Option<Instant>,
}

impl Counts {
    /// Returns `true` if the prefix with this text is full. It is listed by the future `has`, unless it was full a
    /// short time ago, or another listing has begun since this call and has ended.
    async fn is_full(
        &self,
        under: &str,
        limit: u64,
        has: impl Future<Output = Result<bool, StoreError>>,
    ) -> Result<bool, StoreError> {
        let key = (under.into(), limit);
        let Ok(count) = self.0.get_or_insert_with(&key, || Ok::<_, std::convert::Infallible>(Arc::default()));
        count.is_full(has).await
    }
}

impl Count {
    async fn is_full(&self, has: impl Future<Output = Result<bool, StoreError>>) -> Result<bool, StoreError> {
        let begun_before = self.begun.load(Ordering::Relaxed);
        let mut newest = self.newest.lock().await;
        if let Some(newest) = &*newest {
            // A listing that began after this call answers it, however long ago it ended.
            if newest.number > begun_before {
                return Ok(newest.full_since.is_some());
            }
            if newest.full_since.is_some_and(|since| since.elapsed() < FULL_FOR) {
                return Ok(true);
            }
        }

        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let is_full = has.await?;
        *newest = Some(Newest { number, full_since: is_full.then(Instant::now) });
        Ok(is_full)
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self(Cache::new(REMEMBERED))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        pin::pin,
    };

    use futures_util::{FutureExt as _, future::join_all};
    use tokio::sync::Semaphore;

    use super::*;

    async fn unlisted() -> Result<bool, StoreError> {
        panic!("the prefix is listed")
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_prefix_is_listed_once_per_second() {
        let counts = Counts::default();
        assert!(counts.is_full("a", 3, ready(Ok(true))).await.unwrap());
        tokio::time::advance(FULL_FOR - Duration::from_millis(1)).await;
        assert!(counts.is_full("a", 3, unlisted()).await.unwrap());
        // Another limit or prefix has a count of its own.
        assert!(!counts.is_full("a", 4, ready(Ok(false))).await.unwrap());
        assert!(!counts.is_full("b", 3, ready(Ok(false))).await.unwrap());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!counts.is_full("a", 3, ready(Ok(false))).await.unwrap());
        // A prefix with room is listed for each call.
        assert!(counts.is_full("a", 3, ready(Ok(true))).await.unwrap());
    }

    #[tokio::test]
    async fn calls_that_wait_share_the_next_listing() {
        let counts = Counts::default();
        let listings = AtomicU64::new(0);
        let held = Semaphore::new(0);
        let calls = (0..64).map(|_| {
            counts.is_full("a", 3, async {
                listings.fetch_add(1, Ordering::Relaxed);
                held.acquire().await.unwrap().forget();
                Ok(false)
            })
        });
        let (results, ()) = tokio::join!(join_all(calls), async {
            assert!(counts.is_full("b", 3, ready(Ok(true))).await.unwrap());
            held.add_permits(64);
        });
        assert!(results.into_iter().all(|is_full| !is_full.unwrap()));
        // One listing for the call that came first, and one for those that came while it ran.
        assert_eq!(listings.into_inner(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waited_long_gets_what_the_listing_it_shares_has_found() {
        let counts = Counts::default();
        let held = Semaphore::new(0);
        let mut first = pin!(counts.is_full("a", 3, async {
            held.acquire().await.unwrap().forget();
            Ok(false)
        }));
        assert!(first.as_mut().now_or_never().is_none());
        let mut second = pin!(counts.is_full("a", 3, ready(Ok(true))));
        let mut third = pin!(counts.is_full("a", 3, unlisted()));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        held.add_permits(1);
        assert!(!first.await.unwrap());
        assert!(second.await.unwrap());
        // The third call is polled late.
        tokio::time::advance(FULL_FOR).await;
        assert!(third.await.unwrap());
    }

    #[tokio::test]
    async fn a_listing_that_fails_or_is_canceled_counts_nothing() {
        let counts = Counts::default();
        assert!(counts.is_full("a", 3, ready(Err(StoreError::Gone))).await.is_err());
        assert!(counts.is_full("a", 3, pending()).now_or_never().is_none());
        assert!(counts.is_full("a", 3, ready(Ok(true))).await.unwrap());
    }
}
