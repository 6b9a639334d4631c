//! The steps that make the vectors.

use std::{collections::BTreeSet, ops::Range};

use tower_chat_history_core::{
    Attachment, AttachmentKey, AttachmentNameError, ConversationId, Incarnation, Recorded, Revision, Seq,
};

use super::{
    StoredIndex,
    embedder::EmbedError,
    error::Stop,
    job::Indexed,
    pause::pause,
    read::{MAX_INDEX_BYTES, within},
    vectors::{AROUND_VECTOR, ByMeaning, VectorNames},
};
use crate::{
    index::IndexPart,
    passage::Passage,
    varint::{Reader, Writer},
    vectors::{Vector, VectorBlock},
};

/// The most blocks of vectors that a step makes.
const MAX_BLOCKS: usize = 16;
/// The number of texts from which a step ends.
const MAX_TEXTS: usize = 1024;

impl StoredIndex {
    /// Makes the vectors of some blocks before `end`, newest first. Blocks that the embedder refused wait.
    pub(super) async fn embed_step(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        end: Seq,
        done: &mut Indexed,
    ) -> Result<(), Stop> {
        let Some(by_meaning) = &self.by_meaning else { return Ok(()) };
        let names = &by_meaning.names;
        done.removed += self.remove_suspect_vectors(id, incarnation, names).await?;
        let read = self.store.attachments(id, &[names.made()?], MAX_INDEX_BYTES).await?;
        let revision = within(read.revision, Some(incarnation))?;
        done.removed += self.remove_vectors_before(id, revision, names, &read.attachments).await?;
        let made: BTreeSet<Seq> = read.attachments.iter().map(|attachment| attachment.range.start).collect();
        let mut dimension = read.attachments.iter().find_map(|mark| dimension_of(&mark.body));
        let end = end.min(IndexPart::block_start(revision.next()));
        let blocks = (revision.first().get() / IndexPart::BLOCK..end.get() / IndexPart::BLOCK).rev();
        let starts = blocks.map(|block| Seq::new(block * IndexPart::BLOCK));
        let first = IndexPart::block_start(revision.first());
        let waiting =
            self.refused.step(id, incarnation, |start| start >= first && start < end && !made.contains(&start));
        let mut due = starts.filter(|start| !made.contains(start) && !waiting.contains(start)).peekable();
        let (mut texts, mut count) = (0, 0);
        while let Some(start) = due.next_if(|_| texts < MAX_TEXTS && count < MAX_BLOCKS) {
            let range = start..Seq::new(start.get() + IndexPart::BLOCK);
            let exchanges = self.exchanges(id, incarnation, range.clone()).await?;
            match vectors_of(by_meaning, &exchanges, &mut dimension).await {
                Ok(block) => {
                    texts += block.len();
                    done.vectors += u64::try_from(block.len()).unwrap_or(u64::MAX);
                    let put = attachments(names, range, &block, dimension)?;
                    self.store.attach(id, incarnation, &[], &put).await?;
                    self.refused.forget(id, incarnation, start);
                }
                Err(error) => {
                    done.embedding.get_or_insert(error);
                    if !by_meaning.failed() {
                        // It is down.
                        return Ok(());
                    }
                    self.refused.add(id, incarnation, start);
                }
            }
            count += 1;
            pause().await;
        }
        done.more = due.peek().is_some();
        done.refused = u32::try_from(self.refused.len(id, incarnation)).unwrap_or(u32::MAX);
        Ok(())
    }

    /// Removes the vectors that are wholly before the log. Returns the number of blocks.
    async fn remove_vectors_before(
        &self,
        id: &ConversationId,
        revision: Revision,
        names: &VectorNames,
        marks: &[Attachment],
    ) -> Result<u64, Stop> {
        let mut keys: Vec<AttachmentKey> = Vec::new();
        for mark in marks.iter().filter(|mark| mark.range.end <= revision.first()) {
            keys.extend(names.keys(mark.range.start)?);
        }
        self.remove(id, revision.incarnation(), &keys).await?;
        Ok(keys.len() as u64 / 2)
    }
}

/// Embeds the passages of a block. All vectors have the dimension, which is set by the first one.
async fn vectors_of(
    by_meaning: &ByMeaning,
    exchanges: &[Recorded],
    dimension: &mut Option<usize>,
) -> Result<VectorBlock, EmbedError> {
    let mut passages: Vec<(Seq, u32, String)> = Vec::new();
    for recorded in exchanges {
        let of_exchange = Passage::of(&recorded.exchange).into_iter().filter(|passage| !passage.text.trim().is_empty());
        passages.extend(of_exchange.map(|passage| (recorded.seq, passage.message, passage.text)));
        pause().await;
    }
    let mut found: Vec<(Seq, u32, Vector)> = Vec::new();
    for batch in passages.chunks(StoredIndex::EMBED_BATCH) {
        let texts = batch.iter().map(|(_, _, text)| text.clone()).collect();
        let vectors = by_meaning.embed(texts, *dimension).await?;
        for ((seq, message, _), vector) in batch.iter().zip(vectors) {
            let Some(vector) = vector else { continue };
            *dimension = Some(vector.dimension());
            found.push((*seq, *message, vector));
        }
        let most = Attachment::MAX_BYTES / (dimension.unwrap_or_default() + AROUND_VECTOR);
        if found.len() >= most {
            found.truncate(most);
            break;
        }
    }
    let mut block = VectorBlock::new(dimension.unwrap_or_default());
    for (seq, message, vector) in found {
        block.push(seq, message, vector);
    }
    Ok(block)
}

/// Returns the vectors of a block with their mark.
fn attachments(
    names: &VectorNames,
    range: Range<Seq>,
    block: &VectorBlock,
    dimension: Option<usize>,
) -> Result<[Attachment; 2], AttachmentNameError> {
    let mut mark = Writer::default();
    mark.number(dimension.unwrap_or_default() as u64);
    let vectors = Attachment::new(names.of(range.start)?, range.clone(), block.encode());
    Ok([vectors, Attachment::new(names.made()?, range, mark.finish())])
}

/// Returns the dimension in a mark, if it is known.
fn dimension_of(mark: &[u8]) -> Option<usize> {
    let dimension = Reader::new(mark).number().ok()?;
    usize::try_from(dimension).ok().filter(|dimension| *dimension > 0)
}
