//! Reading a log from its end.

use super::Conversation;
use crate::{
    exchange::Recorded,
    revision::{Incarnation, Revision},
    seq::Seq,
    store::{HistoryStore, StoreError},
};

impl<S: HistoryStore + ?Sized> Conversation<'_, S> {
    /// Returns the last `n` exchanges in order. If there are fewer, returns all of them. If there is no such
    /// conversation, returns none.
    ///
    /// The cost does not depend on the size of the log. The result is the end of the log at the time of the call.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Message};
    ///
    /// /// Returns the last message, such as the reply that a user saw last.
    /// async fn last_message(
    ///     store: &dyn HistoryStore,
    ///     id: &ConversationId,
    /// ) -> Result<Option<Message>, Box<dyn std::error::Error>> {
    ///     let last = store.conversation(id).last(1).await?;
    ///     Ok(last.first().and_then(|recorded| recorded.exchange.messages.last().cloned()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The same as [`read_back`](Self::read_back).
    pub async fn last(&self, n: usize) -> Result<Vec<Recorded>, StoreError> {
        Ok(self.read_back(None, n).await?.exchanges)
    }

    /// Reads one page of the log, from its end toward its beginning. With `None`, the page has the last `n` exchanges.
    /// With the [`PageBack::earlier`] of a page, it has the `n` exchanges before that page. Within a page, exchanges
    /// are in the log's order.
    ///
    /// The cost of a page does not depend on the size of the log.
    ///
    /// Each page is a part of the log as it was at the revision `from`:
    ///
    /// - Exchanges that were appended since then are not in it, so pages neither overlap nor have gaps.
    /// - Exchanges that were [pruned](crate::Prune) since then are left out, and the last page ends where the log
    ///   begins.
    /// - After a deletion, a [truncation](crate::Truncate) or an [erasing prune](crate::Derived::Erase), the
    ///   positions belong to other exchanges. The page is refused with [`Gone`](StoreError::Gone), and reading must
    ///   start at the end again.
    ///
    /// A revision has a [text form](Revision), so a client can send it back.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Revision};
    ///
    /// /// Shows the newest 20 exchanges, or the 20 before those that a client has. Returns the token for the next page.
    /// async fn show(
    ///     store: &dyn HistoryStore,
    ///     id: &ConversationId,
    ///     from: Option<Revision>,
    /// ) -> Result<Option<String>, Box<dyn std::error::Error>> {
    ///     let page = store.conversation(id).read_back(from, 20).await?;
    ///     for recorded in page.exchanges.iter().rev() {
    ///         println!("{}: {} messages", recorded.seq, recorded.exchange.messages.len());
    ///     }
    ///     Ok(page.earlier.map(|revision| revision.to_string()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Gone`](StoreError::Gone) if the incarnation of `from` has ended or ends during the call, and
    /// another error if the store cannot be read.
    pub async fn read_back(&self, from: Option<Revision>, n: usize) -> Result<PageBack, StoreError> {
        let from = match from {
            Some(from) => from,
            None => match self.revision().await? {
                Some(revision) => revision,
                None => return Ok(PageBack { exchanges: Vec::new(), earlier: None }),
            },
        };
        let end = from.next();
        let start = Seq::new(end.get().saturating_sub(n as u64));
        let (exchanges, first) = self.between(from.incarnation(), start, end).await?;
        // After a failover, a server may have lost the end of the log, so that no exchange is there.
        let begins = exchanges.first().map_or(start.max(first), |first| first.seq);
        let earlier = (first < begins).then(|| Revision::new(from.incarnation(), begins.get()).beginning_at(first));
        Ok(PageBack { exchanges, earlier })
    }

    /// Returns the exchanges from `start` to before `end` that are in the log of this incarnation, and the position at
    /// which the log begins.
    async fn between(
        &self,
        incarnation: Incarnation,
        start: Seq,
        end: Seq,
    ) -> Result<(Vec<Recorded>, Seq), StoreError> {
        let (mut exchanges, mut next) = (Vec::new(), start);
        loop {
            let limit = usize::try_from(end.get().saturating_sub(next.get())).unwrap_or(usize::MAX);
            let page = self.store.read(self.id, next, limit).await?;
            let revision = page.revision.filter(|revision| revision.incarnation() == incarnation);
            let first = revision.ok_or(StoreError::Gone)?.first();
            // Exchanges that were pruned during the reading are no longer in the log.
            exchanges.retain(|recorded: &Recorded| recorded.seq >= first);
            let before = exchanges.len();
            page.exchanges.iter().try_for_each(Recorded::check_unsealed)?;
            exchanges.extend(page.exchanges.into_iter().take_while(|recorded| recorded.seq < end));
            next = exchanges.last().map_or(next, |last| last.seq.next());
            // A store may return fewer exchanges than requested, so this reads on. An empty page is treated as the end,
            // even if `more` is true.
            if next >= end || !page.more || exchanges.len() <= before {
                return Ok((exchanges, first));
            }
        }
    }
}

/// A page of the log that was read [from the end](Conversation::read_back).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageBack {
    /// The exchanges, in the log's order.
    pub exchanges: Vec<Recorded>,
    /// The revision to pass as `from`, to read the exchanges before these. `None` if the log begins with these.
    pub earlier: Option<Revision>,
}
