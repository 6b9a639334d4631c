//! The time that a search waits for other conversations.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, Either, pending, select},
    stream,
};

use super::LogSearch;

/// The most conversations that are read at the same time.
const CONCURRENT: usize = 4;

/// Waits for a duration, by the timer of the caller's runtime.
type Sleep = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// The time that searches have for other conversations.
#[derive(Clone)]
pub(super) struct TimeForOthers {
    limit: Duration,
    sleep: Sleep,
}

impl fmt::Debug for TimeForOthers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeForOthers").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The time that one search has for other conversations. It began with the search.
pub(super) struct Waiting {
    begun: Instant,
    time: Option<TimeForOthers>,
}

impl Waiting {
    /// Completes when the time to search others is over.
    pub(super) fn for_searches(&self) -> BoxFuture<'static, ()> {
        self.after(|limit| limit)
    }

    /// Completes when the time to read messages of others is over: half as long again.
    pub(super) fn for_messages(&self) -> BoxFuture<'static, ()> {
        self.after(|limit| limit.saturating_add(limit / 2))
    }

    fn after(&self, end: impl Fn(Duration) -> Duration) -> BoxFuture<'static, ()> {
        match &self.time {
            Some(TimeForOthers { limit, sleep }) => sleep(end(*limit).saturating_sub(self.begun.elapsed())),
            None => pending().boxed(),
        }
    }
}

impl LogSearch {
    /// Sets the time that a [search](Self::search) has for other conversations, from its beginning. Those that were not
    /// searched by then are left out, and [`Others::failed`](crate::recall::Others::failed) counts them. The messages to show
    /// have half as long again. `sleep` waits, by the timer of the caller's runtime. The default is no limit: a search
    /// then waits for the slowest conversation.
    #[must_use]
    pub fn time_for_others<F>(mut self, limit: Duration, sleep: impl Fn(Duration) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let sleep: Sleep = Arc::new(move |duration| sleep(duration).boxed());
        self.time_for_others = Some(TimeForOthers { limit, sleep });
        self
    }

    /// Begins the time of a search.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting { begun: Instant::now(), time: self.time_for_others.clone() }
    }
}

/// Awaits a future until another one completes. Returns `None` if that one was the first.
pub(super) async fn until<T>(future: impl Future<Output = T> + Send, end: &mut BoxFuture<'static, ()>) -> Option<T> {
    match select(future.boxed(), end).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

/// Awaits all futures, at most 4 at the same time, until another one completes. Returns their results in order, with
/// `None` for those that did not end in time.
pub(super) async fn side_by_side<'a, F>(
    futures: impl Iterator<Item = F>,
    end: &mut BoxFuture<'static, ()>,
) -> Vec<Option<F::Output>>
where
    F: Future<Output: Send> + Send + 'a,
{
    let numbered = futures.enumerate().map(|(number, future)| future.map(move |output| (number, output)).boxed());
    let numbered: Vec<_> = numbered.collect();
    let mut outputs: Vec<Option<F::Output>> = numbered.iter().map(|_| None).collect();
    let mut ended = stream::iter(numbered).buffer_unordered(CONCURRENT);
    while let Either::Left((Some((number, output)), _)) = select(ended.next(), &mut *end).await {
        outputs[number] = Some(output);
    }
    outputs
}
