//! Reads of logs: the newest exchanges, page by page, and single ones.

use std::{ops::Range, sync::Arc};

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use tower_chat_history_core::{
    ConversationId, Dialect, HistoryStore, HistoryStoreExt as _, Incarnation, Recorded, Revision, Seq, StoreError,
};

use super::{
    cache::Extent,
    pace::{SearchError, Stop},
};

/// The most exchanges of a page.
const PAGE: u64 = 128;
/// The most that a page has more exchanges than the page before it, as a factor. The sizes of exchanges are not known
/// before they are read, so the first page has one exchange.
const GROWTH: u64 = 4;
/// The bytes of a page, if its exchanges are as large as those of the page before it.
const PAGE_BYTES: usize = 1 << 20;
/// The bytes after which a page is given up, because its exchanges are larger than expected.
const MAX_PAGE_BYTES: usize = 2 * PAGE_BYTES;
/// The most exchanges between two others that are read with them.
const GAP: u64 = 8;
/// The most reads at the same time.
const READS: usize = 4;

/// Reads the logs of a store.
#[derive(Clone, Debug)]
pub(crate) struct LogReader {
    pub(super) store: Arc<dyn HistoryStore>,
    /// The dialect of exchanges that are not in chat completions.
    pub(super) dialect: Option<&'static dyn Dialect>,
}

impl LogReader {
    /// Reads the revision of a log, which must be of this incarnation, if one is given.
    pub(super) async fn revision(
        &self,
        id: &ConversationId,
        incarnation: Option<Incarnation>,
    ) -> Result<Revision, Stop> {
        within(self.store.conversation(id).revision().await?, incarnation)
    }

    /// Reads the exchanges of a range in order, without those that were pruned. Ends early once it has read this many
    /// bytes.
    async fn exchanges(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        range: Range<Seq>,
        most_bytes: usize,
    ) -> Result<Vec<Recorded>, Stop> {
        let mut exchanges = Vec::new();
        let mut next = range.start;
        while next < range.end && bytes(&exchanges) < most_bytes {
            let limit = usize::try_from(range.end.get() - next.get()).unwrap_or(usize::MAX);
            let page = self.store.read(id, next, limit).await?;
            within(page.revision, Some(incarnation))?;
            let Some(last) = page.exchanges.last() else { break };

            // A store that does not go on must not hold this up.
            next = last.seq.next().max(next.next());
            exchanges.extend(page.exchanges.into_iter().filter(|recorded| range.contains(&recorded.seq)));
        }
        self.read_messages(id, &exchanges)?;
        Ok(exchanges)
    }

    /// Reads the exchanges at these positions, which are in order, and some between them.
    pub(crate) async fn picked(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        positions: &[Seq],
    ) -> Result<Vec<Recorded>, Stop> {
        let mut reads: Vec<BoxFuture<'_, Result<Vec<Recorded>, Stop>>> = Vec::new();
        for near in positions.chunk_by(|a, b| b.get() - a.get() <= GAP) {
            let range = near[0]..near[near.len() - 1].next();
            reads.push(self.exchanges(id, incarnation, range, usize::MAX).boxed());
        }
        stream::iter(reads).buffered(READS).try_concat().await
    }

    /// Reads the messages of exchanges in their dialect. Otherwise they would count as messages without text.
    fn read_messages(&self, id: &ConversationId, exchanges: &[Recorded]) -> Result<(), Stop> {
        exchanges.iter().try_for_each(Recorded::check_unsealed)?;
        for Recorded { seq, exchange, .. } in exchanges {
            if exchange.messages.iter().all(|message| message.dialect().is_some()) {
                continue;
            }
            let dialect = self.dialect.filter(|dialect| exchange.dialect.is(dialect.name()));
            let Some(dialect) = dialect else {
                let dialect = exchange.dialect.clone();
                return Err(Stop::Failed(SearchError::UnknownDialect { seq: *seq, dialect }));
            };
            exchange.read_in(dialect).map_err(|source| {
                let conversation = id.clone();
                StoreError::Corrupt { conversation, seq: *seq, source: source.into() }
            })?;
        }
        Ok(())
    }
}

/// Returns a revision that is of this incarnation, if one is given.
fn within(revision: Option<Revision>, incarnation: Option<Incarnation>) -> Result<Revision, Stop> {
    let revision = revision.ok_or(Stop::Gone)?;
    match incarnation {
        Some(incarnation) if incarnation != revision.incarnation() => Err(Stop::Gone),
        _ => Ok(revision),
    }
}

fn bytes(exchanges: &[Recorded]) -> usize {
    exchanges.iter().map(|recorded| recorded.exchange.bytes()).sum()
}

/// Walks over a log, from the newest exchange before a position to older ones, until the extent is used up. The last
/// exchange may exceed the extent, so that no exchange is read and then left out.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    log: &'a LogReader,
    id: &'a ConversationId,
    pub(super) revision: Revision,
    /// The position after the newest exchange.
    end: Seq,
    /// The position of the oldest exchange that was passed.
    start: Seq,
    left: Extent,
    /// The exchanges of the page that was read last, in order.
    page: Vec<Recorded>,
    /// The position at which that page begins.
    page_start: Seq,
    /// The mean size of its exchanges.
    mean: Extent,
    /// The most exchanges of the next page.
    most: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        log: &'a LogReader,
        id: &'a ConversationId,
        revision: Revision,
        before: Seq,
        left: Extent,
    ) -> Self {
        let end = before.min(revision.next()).max(revision.first());
        Self {
            log,
            id,
            revision,
            end,
            start: end,
            left,
            page: Vec::new(),
            page_start: end,
            mean: Extent { messages: 1, bytes: 1 },
            most: 1,
        }
    }

    /// Returns the range that was passed.
    pub(super) const fn passed(&self) -> Range<Seq> {
        self.start..self.end
    }

    /// Returns the position of the next older exchange, if there is one and the extent is not used up.
    pub(super) fn next(&self) -> Option<Seq> {
        let is_used_up = self.left.messages == 0 || self.left.bytes == 0;
        (!is_used_up && self.start > self.revision.first()).then(|| Seq::new(self.start.get() - 1))
    }

    /// Passes the next older exchange.
    pub(super) fn pass(&mut self, seq: Seq, part: Extent) {
        self.start = seq;
        self.left.messages = self.left.messages.saturating_sub(part.messages);
        self.left.bytes = self.left.bytes.saturating_sub(part.bytes);
    }

    /// Reads the next older exchange, and the page that ends with it if it was not read yet. Returns `None` for one
    /// that was pruned in the meantime.
    pub(super) async fn read(&mut self, seq: Seq) -> Result<Option<Recorded>, Stop> {
        if seq < self.page_start {
            self.read_page(seq).await?;
        }
        let at = self.page.binary_search_by_key(&seq, |recorded| recorded.seq);
        Ok(at.ok().map(|at| self.page[at].clone()))
    }

    /// Reads the page that ends with this exchange.
    async fn read_page(&mut self, last: Seq) -> Result<(), Stop> {
        let incarnation = self.revision.incarnation();
        let mut len = self.page_len();
        let oldest = Seq::new(last.get().saturating_sub(len - 1));
        self.page_start = oldest.max(self.revision.first());
        self.page = self.log.exchanges(self.id, incarnation, self.page_start..last.next(), MAX_PAGE_BYTES).await?;

        // A store reads forward. A page that is too large ends before the exchange that is needed, so that one is read
        // alone.
        if self.page.last().is_some_and(|recorded| recorded.seq < last) {
            len = 1;
            self.page_start = last;
            self.page = self.log.exchanges(self.id, incarnation, last..last.next(), MAX_PAGE_BYTES).await?;
        }

        let count = self.page.len().max(1);
        let messages: usize = self.page.iter().map(|recorded| recorded.exchange.messages.len()).sum();
        self.mean = Extent { messages: (messages / count).max(1), bytes: (bytes(&self.page) / count).max(1) };
        self.most = PAGE.min(len * GROWTH);
        Ok(())
    }

    /// Returns the number of exchanges of the next page: those that the rest of the extent has room for, if they are as
    /// large as those of the page before.
    fn page_len(&self) -> u64 {
        let by_messages = self.left.messages / self.mean.messages;
        let by_bytes = PAGE_BYTES.min(self.left.bytes) / self.mean.bytes;
        (by_messages.min(by_bytes) as u64).clamp(1, self.most)
    }
}
