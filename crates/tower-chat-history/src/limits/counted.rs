//! Listings that count conversations: one at a time for each prefix, with the full prefixes remembered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use quick_cache::sync::Cache;
use tokio::{sync::Mutex, time::Instant};
use tower_chat_history_core::StoreError;

/// The largest number of prefixes whose counts are remembered.
const REMEMBERED: usize = 1 << 12;

/// The time for which a full prefix is not listed again.
const FULL_FOR: Duration = Duration::from_secs(1);

/// The newest counts, by prefix and limit.
pub(super) struct Counted(Cache<(Box<str>, u64), Arc<Count>>);

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

impl Counted {
    /// Returns `true` if the prefix with this text is full. It is listed by the future `has`, unless it was full a
    /// short time ago, or another listing has begun since this call and has ended.
    pub(super) async fn is_full(
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

impl Default for Counted {
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
        let counted = Counted::default();
        assert!(counted.is_full("a", 3, ready(Ok(true))).await.unwrap());
        tokio::time::advance(FULL_FOR - Duration::from_millis(1)).await;
        assert!(counted.is_full("a", 3, unlisted()).await.unwrap());
        // Another limit or prefix has a count of its own.
        assert!(!counted.is_full("a", 4, ready(Ok(false))).await.unwrap());
        assert!(!counted.is_full("b", 3, ready(Ok(false))).await.unwrap());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!counted.is_full("a", 3, ready(Ok(false))).await.unwrap());
        // A prefix with room is listed for each call.
        assert!(counted.is_full("a", 3, ready(Ok(true))).await.unwrap());
    }

    #[tokio::test]
    async fn calls_that_wait_share_the_next_listing() {
        let (counted, listings, held) = (Counted::default(), AtomicU64::new(0), Semaphore::new(0));
        let calls = (0..64).map(|_| {
            counted.is_full("a", 3, async {
                listings.fetch_add(1, Ordering::Relaxed);
                held.acquire().await.unwrap().forget();
                Ok(false)
            })
        });
        let (counts, ()) = tokio::join!(join_all(calls), async {
            assert!(counted.is_full("b", 3, ready(Ok(true))).await.unwrap());
            held.add_permits(64);
        });
        assert!(counts.into_iter().all(|is_full| !is_full.unwrap()));
        // One listing for the call that came first, and one for those that came while it ran.
        assert_eq!(listings.into_inner(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waited_long_gets_what_the_listing_it_shares_has_found() {
        let (counted, held) = (Counted::default(), Semaphore::new(0));
        let mut first = pin!(counted.is_full("a", 3, async {
            held.acquire().await.unwrap().forget();
            Ok(false)
        }));
        assert!(first.as_mut().now_or_never().is_none());
        let mut second = pin!(counted.is_full("a", 3, ready(Ok(true))));
        let mut third = pin!(counted.is_full("a", 3, unlisted()));
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
        let counted = Counted::default();
        assert!(counted.is_full("a", 3, ready(Err(StoreError::Gone))).await.is_err());
        assert!(counted.is_full("a", 3, pending()).now_or_never().is_none());
        assert!(counted.is_full("a", 3, ready(Ok(true))).await.unwrap());
    }
}
