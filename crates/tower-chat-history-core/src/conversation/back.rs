//! Reading a log from its end.

use super::Conversation;
use crate::{
    exchange::Recorded,
    revision::{Incarnation, Revision},
    seq::Seq,
    store::{HistoryStore, StoreError},
};

impl<S: HistoryStore + ?Sized> Conversation<'_, S> {
    /// Returns the last `n` exchanges, in order; all of them where there are fewer, none when there is no such
    /// conversation.
    ///
    /// What this reads does not depend on the size of the log. It is the end of the log as it was when this was called.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Message};
    ///
    /// /// The last message, such as the reply that a user saw last.
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
    /// As [`read_back`](Self::read_back).
    pub async fn last(&self, n: usize) -> Result<Vec<Recorded>, StoreError> {
        Ok(self.read_back(None, n).await?.exchanges)
    }

    /// Reads the log backwards, page by page: the last `n` exchanges first (`from` is `None`), then with
    /// [`PageBack::earlier`] the `n` before these, and so on. Within a page exchanges are in the log's order.
    ///
    /// What a page reads does not depend on the size of the log.
    ///
    /// A page is a piece of the log as it was at the revision `from`:
    ///
    /// - exchanges that were appended since then are not in it, so pages neither overlap nor leave anything out;
    /// - what was [pruned](crate::Prune) since then is left out, and the last page ends where the log begins;
    /// - after a deletion, a [truncation](crate::Truncate) or a prune without traces, positions stand for other
    ///   exchanges: the page is refused with [`Gone`](StoreError::Gone), and reading begins again at the end.
    ///
    /// A revision has a [text form](Revision), so a client can bring it back.
    ///
    /// ```
    /// use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Revision};
    ///
    /// /// Shows the newest 20 exchanges, or the 20 before those that a client has. Returns what it brings back for more.
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
    /// [`Gone`](StoreError::Gone) when the incarnation of `from` has ended or ends during the call, or when the store
    /// cannot be read.
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
        // A server that lost the end of its log may have nothing there.
        let begins = exchanges.first().map_or(start.max(first), |first| first.seq);
        let earlier = (first < begins).then(|| Revision::new(from.incarnation(), begins.get()).beginning_at(first));
        Ok(PageBack { exchanges, earlier })
    }

    /// The exchanges from one position on before another one, as far as they are in the log of that incarnation, and
    /// where that begins.
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
            // What was pruned meanwhile is no longer in the log.
            exchanges.retain(|recorded: &Recorded| recorded.seq >= first);
            let before = exchanges.len();
            exchanges.extend(page.exchanges.into_iter().take_while(|recorded| recorded.seq < end));
            next = exchanges.last().map_or(next, |last| last.seq.next());
            // Stores may page by size. A page of nothing is the end, whatever it says.
            if next >= end || !page.more || exchanges.len() <= before {
                return Ok((exchanges, first));
            }
        }
    }
}

/// A piece of the log that was read [from its end](Conversation::read_back).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageBack {
    /// The exchanges, in the log's order.
    pub exchanges: Vec<Recorded>,
    /// Where to read on: the exchanges before these. `None` if the log begins with them.
    pub earlier: Option<Revision>,
}
