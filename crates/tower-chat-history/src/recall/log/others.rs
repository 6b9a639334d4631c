//! Other conversations that a search covers: which ones, for how long, and how much of each.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use tokio::time::{Instant, timeout_at};
use tower_chat_history_core::{ConversationId, List, Prefix};

/// The conversations that a search covers beside the conversation that it is made for: those whose ids begin with the
/// same parts.
///
/// The number of these parts is given, and not the parts themselves. So a search never covers conversations under a
/// prefix that is not one of the conversation's own id. With ids of a tenant, a user and a thread, 2 parts stand for
/// all conversations of the user.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use tower_chat_history_core::{ConversationId, Prefix};
/// use tower_chat_history::recall::SearchScope;
///
/// let scope = SearchScope::parts(NonZeroUsize::new(2).ok_or("0")?);
/// let prefix = |parts: &[&str]| Ok::<_, Box<dyn std::error::Error>>(scope.prefix(&ConversationId::new(parts)?));
/// assert_eq!(prefix(&["acme", "ann", "7"])?, Some(Prefix::new(["acme", "ann"])?));
/// assert_eq!(prefix(&["acme", "ann"])?, None, "it is searched alone");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchScope {
    parts: NonZeroUsize,
    conversations: usize,
    walk: usize,
}

impl SearchScope {
    /// The most other conversations that are searched, by default.
    pub const CONVERSATIONS: usize = 20;
    /// The most conversations that are listed to find the newest ones, by default.
    pub const WALK: usize = 1_000;

    /// Creates the scope of the conversations whose ids begin with the same number of parts. A conversation whose id
    /// has no more parts than that is searched alone.
    #[must_use]
    pub const fn parts(parts: NonZeroUsize) -> Self {
        Self { parts, conversations: Self::CONVERSATIONS, walk: Self::WALK }
    }

    /// Sets the number of other conversations that are searched: those that were
    /// [updated](tower_chat_history_core::Listed::updated_at) last. The default is
    /// [`CONVERSATIONS`](Self::CONVERSATIONS). They share the limits of a search, so with more conversations, less of
    /// each is searched.
    #[must_use]
    pub const fn conversations(mut self, number: usize) -> Self {
        self.conversations = number;
        self
    }

    /// Sets the number of conversations that a search lists at most to find the newest ones. If there are more, newer
    /// ones may be left out ([`Others::is_incomplete`](crate::recall::Others::is_incomplete)). The default is
    /// [`WALK`](Self::WALK).
    #[must_use]
    pub const fn walk(mut self, conversations: usize) -> Self {
        self.walk = conversations;
        self
    }

    /// Returns the prefix whose conversations a search for this one covers, or `None` if it is searched alone.
    #[must_use]
    pub fn prefix(&self, conversation: &ConversationId) -> Option<Prefix> {
        let mut prefixes = Prefix::containing(conversation).skip(self.parts.get() - 1);
        let prefix = prefixes.next()?;
        // The last prefix is the whole id.
        prefixes.next()?;
        prefix.parse().ok()
    }
}

/// The scope, and the store that lists the conversations.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) store: Arc<dyn List>,
    pub(super) scope: SearchScope,
}

impl Listing {
    /// Returns the most conversations that are searched, and the most that are listed.
    pub(super) const fn limits(&self) -> (usize, usize) {
        (self.scope.conversations, self.scope.walk)
    }
}

/// The most conversations that are read at the same time.
const CONCURRENT: usize = 4;

/// The time that a search has for other conversations. It begins with the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeForOthers {
    begun: Instant,
    limit: Option<Duration>,
}

impl TimeForOthers {
    /// Begins the time of a search.
    pub(super) fn begin(limit: Option<Duration>) -> Self {
        Self { begun: Instant::now(), limit }
    }

    /// Returns the end of the time to search others.
    pub(super) fn end_of_searches(self) -> Option<Instant> {
        self.begun.checked_add(self.limit?)
    }

    /// Returns the end of the time to read messages of others: half as long again.
    pub(super) fn end_of_messages(self) -> Option<Instant> {
        let limit = self.limit?;
        self.begun.checked_add(limit.saturating_add(limit / 2))
    }
}

/// Awaits a future until this time. Returns `None` if the time was over first.
pub(super) async fn until<T>(end: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match end {
        Some(end) => timeout_at(end, future).await.ok(),
        None => Some(future.await),
    }
}

/// Awaits all futures, at most 4 at the same time, until this time. Returns their results in order, with `None` for
/// those that did not end in time.
pub(super) async fn side_by_side<T: Send>(end: Option<Instant>, futures: Vec<BoxFuture<'_, T>>) -> Vec<Option<T>> {
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let mut numbered = Vec::new();
    for (number, future) in futures.into_iter().enumerate() {
        numbered.push(future.map(move |output| (number, output)));
    }

    let mut ended = stream::iter(numbered).buffer_unordered(CONCURRENT);
    while let Some(Some((number, output))) = until(end, ended.next()).await {
        outputs[number] = Some(output);
    }
    outputs
}

/// Divides a total: no part is greater than its demand, and what small demands leave is divided among the others.
pub(super) fn divided(total: usize, demands: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|at| demands[*at]);

    let mut left = total;
    let mut parts = vec![0; demands.len()];
    for (done, at) in order.into_iter().enumerate() {
        parts[at] = demands[at].min(left / (demands.len() - done));
        left -= parts[at];
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_demands_are_met_and_the_rest_is_divided() {
        assert_eq!(divided(100, &[500, 10, 80, 500]), [30, 10, 30, 30]);
        assert_eq!(divided(100, &[5, 10]), [5, 10]);
        assert_eq!(divided(100, &[]), [0; 0]);
    }

    proptest! {
        #[test]
        fn parts_never_exceed_the_total_or_their_demands(
            total in 0..1_000_usize,
            demands in prop::collection::vec(0..400_usize, 0..30),
        ) {
            let parts = divided(total, &demands);
            prop_assert!(parts.iter().sum::<usize>() <= total);
            prop_assert!(parts.iter().zip(&demands).all(|(part, demand)| part <= demand));
            let all: usize = demands.iter().sum();
            prop_assert!(all > total || parts == demands);
        }
    }

    proptest! {
        #[test]
        fn the_prefix_has_the_first_parts_of_the_id_and_fewer_than_all(
            parts in prop::collection::vec("[a/%2F.~-]{1,3}", 1..6),
            number in 1..7_usize,
        ) {
            let id = ConversationId::new(&parts).unwrap();
            let prefix = SearchScope::parts(NonZeroUsize::new(number).unwrap()).prefix(&id);
            let expected = (number < parts.len()).then(|| Prefix::new(&parts[..number]).unwrap());
            prop_assert_eq!(prefix, expected);
        }
    }
}
