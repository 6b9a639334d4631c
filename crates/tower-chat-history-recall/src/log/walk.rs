//! Reads of the log: its newest exchanges, page by page, and single ones.

use std::ops::Range;

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use tower_chat_history_core::{ConversationId, Incarnation, Recorded, Revision, Seq, StoreError};

use super::{
    LogSearch,
    error::{SearchError, Stop},
};
use crate::passage::Passage;

/// The most exchanges of a page.
const PAGE: u64 = 128;
/// The most that a page has more exchanges than the page before it, as a factor. The sizes of exchanges are not known
/// before they are read, so the first page has one exchange.
const GROWTH: u64 = 4;
/// The bytes of a page, if its exchanges are as large as those of the page before it.
const PAGE_BYTES: usize = 1 << 20;
/// The bytes that an exchange counts at most: those of its 128 passages, if they have words of common length.
const MAX_BYTES: usize = 256 << 10;
/// The most exchanges between two others that are read with them.
const GAP: u64 = 8;
/// The most reads at the same time.
const READS: usize = 4;

/// The most that is searched of a log, or the part of it that an exchange takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

impl Extent {
    /// Returns what an exchange takes. More messages and bytes than are analyzed count nothing.
    pub(super) fn of(recorded: &Recorded) -> Self {
        let messages = recorded.exchange.messages.len().min(Passage::MAX_OF_EXCHANGE);
        Self { messages, bytes: recorded.exchange.bytes().min(MAX_BYTES) }
    }

    /// Takes a part. Returns `false` if it is not left.
    fn take(&mut self, part: Self) -> bool {
        let (Some(messages), Some(bytes)) =
            (self.messages.checked_sub(part.messages), self.bytes.checked_sub(part.bytes))
        else {
            return false;
        };
        *self = Self { messages, bytes };
        true
    }
}

/// Walks over a log, from the newest exchange before a position to older ones, as far as the extent allows it.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    search: &'a LogSearch,
    id: &'a ConversationId,
    pub(super) revision: Revision,
    /// The position after the newest exchange.
    end: Seq,
    /// The position of the oldest exchange that was passed.
    start: Seq,
    left: Extent,
    /// The exchanges of the newest page that was read, in order.
    page: Vec<Recorded>,
    /// The position at which that page begins.
    page_start: Seq,
    page_len: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        search: &'a LogSearch,
        id: &'a ConversationId,
        revision: Revision,
        before: Seq,
        left: Extent,
    ) -> Self {
        let end = before.min(revision.next()).max(revision.first());
        Self { search, id, revision, end, start: end, left, page: Vec::new(), page_start: end, page_len: 1 }
    }

    /// Returns the range that was passed.
    pub(super) const fn passed(&self) -> Range<Seq> {
        self.start..self.end
    }

    /// Returns the position of the next older exchange, if there is one.
    pub(super) fn next(&self) -> Option<Seq> {
        (self.start > self.revision.first()).then(|| Seq::new(self.start.get() - 1))
    }

    /// Passes the next older exchange. Returns `false` if it is beyond the extent.
    pub(super) fn pass(&mut self, seq: Seq, part: Extent) -> bool {
        let passes = self.left.take(part);
        if passes {
            self.start = seq;
        }
        passes
    }

    /// Reads the next older exchange, and the page that ends with it if it was not read yet. Returns `None` for one
    /// that was pruned in the meantime.
    pub(super) async fn read(&mut self, seq: Seq) -> Result<Option<Recorded>, Stop> {
        if seq < self.page_start {
            let oldest = seq.get().saturating_sub(self.page_len - 1);
            self.page_start = Seq::new(oldest).max(self.revision.first());
            let range = self.page_start..seq.next();
            self.page = self.search.exchanges(self.id, self.revision.incarnation(), range).await?;
            let bytes: usize = self.page.iter().map(|recorded| recorded.exchange.bytes()).sum();
            let each = (bytes / self.page.len().max(1)).max(1);
            self.page_len = ((PAGE_BYTES / each) as u64).clamp(1, PAGE.min(self.page_len * GROWTH));
        }
        let at = self.page.binary_search_by_key(&seq, |recorded| recorded.seq);
        Ok(at.ok().map(|at| self.page[at].clone()))
    }
}

impl LogSearch {
    /// Reads the exchanges of a range, without those that were pruned.
    async fn exchanges(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        range: Range<Seq>,
    ) -> Result<Vec<Recorded>, Stop> {
        let mut exchanges = Vec::new();
        let mut next = range.start;
        while next < range.end {
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
        let near = positions.chunk_by(|a, b| b.get() - a.get() <= GAP);
        let reads: Vec<BoxFuture<'_, Result<Vec<Recorded>, Stop>>> =
            near.map(|near| self.exchanges(id, incarnation, near[0]..near[near.len() - 1].next()).boxed()).collect();
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
pub(super) fn within(revision: Option<Revision>, incarnation: Option<Incarnation>) -> Result<Revision, Stop> {
    let revision = revision.ok_or(Stop::Gone)?;
    match incarnation {
        Some(incarnation) if incarnation != revision.incarnation() => Err(Stop::Gone),
        _ => Ok(revision),
    }
}
