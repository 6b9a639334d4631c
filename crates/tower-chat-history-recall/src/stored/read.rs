//! Reads of the log and of its attachments, within one incarnation.

use std::ops::Range;

use tower_chat_history_core::{
    Attachment, AttachmentName, ConversationId, Incarnation, Page, Recorded, Revision, Seq, StoreError,
};

use super::{
    StoredIndex,
    error::{IndexError, Stop},
    pause::{Pace, SLICE},
    records::{Decoding, Parts},
    vectors::MeaningQuery,
};
use crate::index::RecordName;

/// The most bytes of the index that are read at once, without vectors.
pub(super) const MAX_INDEX_BYTES: usize = 32 << 20;
/// The most bytes of the index and of vectors that are read at once.
pub(super) const MAX_READ_BYTES: usize = 64 << 20;
/// The bytes of records that are decoded between two pauses.
const PAUSE_BYTES: usize = 64 << 10;

impl StoredIndex {
    /// Reads the parts of the index. Segments are read before blocks. If the limit cuts off the result, blocks are
    /// missing first.
    pub(super) async fn parts(
        &self,
        id: &ConversationId,
        incarnation: Option<Incarnation>,
        buckets: &[u8],
        pace: &mut Pace,
    ) -> Result<(Revision, Parts), Stop> {
        let (revision, parts, _) = self.parts_and(id, incarnation, buckets, (None, MAX_INDEX_BYTES), pace).await?;
        Ok((revision, parts))
    }

    /// Reads the parts of the index, with these buckets of segments, up to this number of bytes, and the vectors for a
    /// query. All are of the moment of the revision.
    pub(super) async fn parts_and(
        &self,
        id: &ConversationId,
        incarnation: Option<Incarnation>,
        buckets: &[u8],
        (meaning, max_bytes): (Option<&MeaningQuery<'_>>, usize),
        pace: &mut Pace,
    ) -> Result<(Revision, Parts, Vec<Attachment>), Stop> {
        let of_terms = self.names()?;
        let mut names: Vec<AttachmentName> = vec![of_terms.documents.clone()];
        names.extend(buckets.iter().map(|bucket| of_terms.of(RecordName::Bucket(*bucket)).clone()));
        names.push(of_terms.blocks.clone());
        let count = names.len();
        names.extend(meaning.iter().flat_map(|meaning| &meaning.names).cloned());
        let limit = max_bytes.saturating_add(meaning.map_or(0, |meaning| meaning.bytes)).min(MAX_READ_BYTES);
        let read = self.store.attachments(id, &names, limit).await?;
        let revision = within(read.revision, incarnation)?;
        // Vectors are the last, so if some were read, nothing else was cut off.
        let has_vectors = read.attachments.last().is_some_and(|last| names[count..].contains(&last.name));
        let parts = self.decoded(&read.attachments, buckets, read.more && !has_vectors, pace).await?;
        Ok((revision, parts, read.attachments))
    }

    /// Decodes parts, with pauses. A segment needs these buckets. If `cut` is set, some records were not read.
    pub(super) async fn decoded(
        &self,
        attachments: &[Attachment],
        needed: &[u8],
        cut: bool,
        pace: &mut Pace,
    ) -> Result<Parts, Stop> {
        let mut decoding = Decoding::new(&self.analyzer, self.names()?, attachments, needed, cut);
        for attachment in attachments {
            decoding.push(attachment);
            pace.worked(attachment.body.len() * SLICE / PAUSE_BYTES).await?;
        }
        Ok(decoding.finish())
    }

    /// Reads the exchanges of a range, without those that were pruned.
    pub(super) async fn exchanges(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        range: Range<Seq>,
    ) -> Result<Vec<Recorded>, Stop> {
        let (mut exchanges, mut next) = (Vec::new(), range.start);
        while next < range.end {
            let limit = usize::try_from(range.end.get() - next.get()).unwrap_or(usize::MAX);
            let page = of_incarnation(self.store.read(id, next, limit).await?, incarnation)?;
            let Some(last) = page.exchanges.last() else { break };
            // Also a store that does not go on must not hold this up.
            next = last.seq.next().max(next.next());
            exchanges.extend(page.exchanges.into_iter().filter(|recorded| range.contains(&recorded.seq)));
        }
        self.read_messages(id, &exchanges)?;
        Ok(exchanges)
    }

    /// Returns the exchanges at these positions, in order: those that are known, and the others from the log in one
    /// read.
    pub(crate) async fn picked(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        positions: &[Seq],
        known: &[Recorded],
    ) -> Result<Vec<Recorded>, Stop> {
        let at = |seq: &Seq| known.binary_search_by_key(seq, |recorded| recorded.seq).ok();
        let unknown: Vec<Seq> = positions.iter().copied().filter(|seq| at(seq).is_none()).collect();
        let mut exchanges: Vec<Recorded> = positions.iter().filter_map(at).map(|at| known[at].clone()).collect();
        if !unknown.is_empty() {
            let picked = of_incarnation(self.store.pick(id, &unknown).await?, incarnation)?.exchanges;
            self.read_messages(id, &picked)?;
            exchanges.extend(picked);
            exchanges.sort_by_key(|recorded| recorded.seq);
        }
        Ok(exchanges)
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
                return Err(Stop::Failed(IndexError::UnknownDialect { seq: *seq, dialect }));
            };
            exchange.read_in(dialect).map_err(|source| {
                let conversation = id.clone();
                StoreError::Corrupt { conversation, seq: *seq, source: source.into() }
            })?;
        }
        Ok(())
    }
}

fn of_incarnation(page: Page, incarnation: Incarnation) -> Result<Page, Stop> {
    within(page.revision, Some(incarnation))?;
    Ok(page)
}

/// Returns a revision that is of this incarnation, if one is given.
pub(super) fn within(revision: Option<Revision>, incarnation: Option<Incarnation>) -> Result<Revision, Stop> {
    let expected = |revision: &Revision| incarnation.is_none_or(|incarnation| revision.incarnation() == incarnation);
    revision.filter(expected).ok_or(Stop::Gone)
}
