//! The steps that make the index.

use std::ops::Range;

use tower_chat_history_core::{Attachment, ConversationId, Incarnation, Revision, Seq};

use super::{
    StoredIndex,
    embedder::EmbedError,
    error::{IndexError, Stop},
    merge::full_segments,
    names::TermNames,
    pages::PageLen,
    pause::Pace,
    ranked::whole_blocks,
    scan::{analyze, written},
};
use crate::index::{IndexPart, Indexing, RecordName};

/// The most blocks that a step makes.
const MAX_BLOCKS: usize = 16;
/// The bytes of records from which they are stored before more are made.
pub(super) const STEP_BYTES: usize = 1 << 20;

/// The result of a step of the index.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Indexed {
    /// The number of blocks that were made.
    pub blocks: u32,
    /// The number of exchanges in these blocks that have more words than a block has room for. The others are left out.
    /// Only very long exchanges have so many: about 7,000 different words.
    pub cut: u64,
    /// The number of segments that were merged from blocks.
    pub segments: u32,
    /// The number of vectors that were made.
    pub vectors: u64,
    /// The number of parts that were removed because they are damaged or of no use any more, and of records of
    /// [former analyzers](StoredIndex::former_analyzers) and [models](StoredIndex::former_models).
    pub removed: u64,
    /// The first error of the [embedder](StoredIndex::by_meaning), if it failed. The vectors are tried again when a turn
    /// asks for the next step, or later if they are [refused](Self::refused).
    pub embedding: Option<EmbedError>,
    /// The number of blocks that the [embedder](StoredIndex::by_meaning) refused and that have no vectors yet. Each is
    /// tried again after a number of steps that doubles.
    pub refused: u32,
    /// `true` if another step has something to do.
    pub more: bool,
    /// `true` if the incarnation of the revision has ended, or there is no such conversation. Nothing is left to do.
    pub gone: bool,
}

impl StoredIndex {
    /// Makes a step of a conversation's index: removes records that are of no use, then indexes at most 16 blocks that
    /// are wholly before `before`, or merges the blocks of a segment, or makes [vectors](Self::by_meaning) of at most
    /// 16 blocks.
    ///
    /// `revision` is the log's revision as it was loaded, and `before` the start of the window that is sent. If no
    /// whole block is before the window, nothing is read. Nothing is read either if this index did all there is to do.
    ///
    /// A step can be repeated, and stopped at any await, and several processes may make the same step. After each
    /// write, a search by words finds the same as before. It searches more if exchanges were
    /// [unsearched](super::Found::unsearched), so scores and their order can change. Vectors change the result, too.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails. The records that were stored until then stay.
    pub async fn index(
        &self,
        conversation: &ConversationId,
        revision: Revision,
        before: Seq,
    ) -> Result<Indexed, IndexError> {
        let within = revision.first()..before.min(revision.next());
        let (incarnation, end) = (revision.incarnation(), IndexPart::block_start(within.end));
        if end <= IndexPart::block_start(within.start) {
            return Ok(Indexed::default());
        }
        if self.progress.has_indexed(conversation, incarnation, end)
            && let Some(refused) = self.refused.idle_step(conversation, incarnation)
        {
            return Ok(Indexed { refused: u32::try_from(refused).unwrap_or(u32::MAX), ..Indexed::default() });
        }
        match self.step(conversation, incarnation, end).await {
            Ok(indexed) => {
                if !indexed.more && indexed.embedding.is_none() {
                    self.progress.set_indexed(conversation, incarnation, end);
                }
                Ok(indexed)
            }
            Err(Stop::Gone) => Ok(Indexed { gone: true, ..Indexed::default() }),
            Err(Stop::TimedOut(limit)) => Err(IndexError::TimedOut(limit)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Makes a step for the blocks before `end`.
    async fn step(&self, id: &ConversationId, incarnation: Incarnation, end: Seq) -> Result<Indexed, Stop> {
        let mut done = Indexed { removed: self.remove_suspects(id, incarnation).await?, ..Indexed::default() };
        let (revision, mut parts) = self.parts(id, Some(incarnation), &[], &mut Pace::new(None)).await?;
        done.removed += self.remove_useless(id, revision, &parts).await?;
        let within = whole_blocks(&(revision.first()..end.min(revision.next())));
        let mut due = parts.index.due(parts.known_part(within));
        let ranges: Vec<Range<Seq>> = due.by_ref().take(MAX_BLOCKS).collect();
        if ranges.is_empty() {
            done.more = self.merge_next(id, revision, &parts, &mut done).await?;
            if !done.more {
                done.removed += self.remove_former(id, revision).await?;
                self.embed_step(id, incarnation, end, &mut done).await?;
            }
            return Ok(done);
        }
        done.blocks = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
        let others = self.by_meaning.is_some() || !self.has_removed_former(id, incarnation);
        done.more = due.next().is_some() || others;
        for range in &ranges {
            parts.index.insert(IndexPart::index(&self.analyzer, range.clone(), &[]));
        }
        done.more |= !full_segments(&parts, revision.first()).is_empty();
        done.cut += self.make_blocks(id, incarnation, ranges).await?;
        Ok(done)
    }

    /// Indexes blocks and stores them. Returns the number of exchanges of which some terms are left out.
    async fn make_blocks(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        ranges: Vec<Range<Seq>>,
    ) -> Result<u64, Stop> {
        let (mut made, mut bytes): (Vec<Attachment>, usize) = (Vec::new(), 0);
        let (mut len, mut pace, mut cut) = (PageLen::first(), Pace::new(None), 0);
        for range in ranges {
            let mut indexing = Indexing::new(&self.analyzer, range.clone());
            let mut next = range.start;
            while next < range.end {
                let page = next..range.end.min(Seq::new(next.get() + len.get()));
                let exchanges = self.exchanges(id, incarnation, page.clone()).await?;
                len.adapt(&exchanges);
                analyze(&mut indexing, &exchanges, &mut pace).await?;
                next = page.end;
            }
            cut += indexing.cut();
            let part = written(indexing.writing(), &mut pace).await?;
            pace.pause().await?;
            let block = self.block(self.names()?, &part);
            pace.pause().await?;
            bytes += block.body.len();
            made.push(block);
            if bytes >= STEP_BYTES {
                self.store.attach(id, incarnation, &[], &made).await?;
                (made, bytes) = (Vec::new(), 0);
            }
        }
        if !made.is_empty() {
            self.store.attach(id, incarnation, &[], &made).await?;
        }
        Ok(cut)
    }

    /// Returns the record of a block. It is never too large, because the terms of an exchange have bounded room in it.
    fn block(&self, names: &TermNames, part: &IndexPart) -> Attachment {
        let record = part.records(&self.analyzer).into_iter().next().unwrap_or((RecordName::Block, Vec::new()));
        names.attachment(part, record)
    }
}
