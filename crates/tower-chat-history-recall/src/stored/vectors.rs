//! The search by meaning, in stored vectors.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tower_chat_history_core::{Attachment, AttachmentKey, AttachmentName, AttachmentNameError, Message, Role, Seq};

use super::{
    ask::Meaning,
    embedder::{EmbedError, Embedder, embed},
    error::Stop,
    names::hash_of,
    pause::Pace,
};
use crate::{
    index::IndexPart,
    passage::{ends, text_of},
    search::{Hit, Search},
    vectors::{self, Vector, VectorBlock},
};

/// The most vectors that are compared: the newest ones.
pub(super) const MAX_VECTORS: usize = 20_000;
/// The most blocks whose vectors are read. They have 20,480 exchanges.
const MAX_BLOCKS: u64 = 320;
/// The most bytes of an input that are embedded, from each of its ends.
const MAX_QUERY_BYTES: usize = 4096;
/// The most bytes that a stored vector has besides its numbers.
pub(super) const AROUND_VECTOR: usize = 24;

/// The model, and the names of its attachments: `vectors/<hash of its name>/<number of the block>` for vectors, and
/// `vectors/<hash of its name>/made`, which marks the ranges that have vectors, so a step can find them without reading
/// vectors. Each block has its own name, so that a search reads the newest blocks first.
#[derive(Clone, Debug)]
pub(super) struct ByMeaning {
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) names: VectorNames,
    /// True if the embedder's last call succeeded.
    pub(super) works: Arc<AtomicBool>,
}

/// The names of the vectors of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VectorNames(String);

/// The input of a call as a vector, to compare it with the vectors of a log.
#[derive(Debug)]
pub(super) struct MeaningQuery<'a> {
    vector: &'a Vector,
    pub(super) names: Vec<AttachmentName>,
    /// The most vectors that are compared, and their bytes.
    max: usize,
    pub(super) bytes: usize,
}

/// The messages of near meaning.
#[derive(Debug)]
pub(super) struct Nearest {
    pub(super) hits: Vec<Hit>,
    pub(super) meaning: Meaning,
    pub(super) damaged: Vec<Seq>,
}

impl VectorNames {
    pub(super) fn new(model: &str) -> Self {
        Self(hash_of(model))
    }

    /// Returns the name of the marks for ranges that have vectors.
    pub(super) fn made(&self) -> Result<AttachmentName, AttachmentNameError> {
        AttachmentName::new(format!("vectors/{}/made", self.0))
    }

    /// Returns the name of the vectors of a block.
    pub(super) fn of(&self, start: Seq) -> Result<AttachmentName, AttachmentNameError> {
        AttachmentName::new(format!("vectors/{}/{}", self.0, start.get() / IndexPart::BLOCK))
    }

    /// Returns the keys of the vectors of a block.
    pub(super) fn keys(&self, start: Seq) -> Result<[AttachmentKey; 2], AttachmentNameError> {
        Ok([self.of(start)?, self.made()?].map(|name| AttachmentKey { name, start }))
    }
}

impl ByMeaning {
    /// Returns the names of the vectors that a search before a position reads, the newest first.
    pub(super) fn names_before(&self, before: Seq) -> Result<Vec<AttachmentName>, AttachmentNameError> {
        let last = before.get().saturating_sub(1) / IndexPart::BLOCK;
        let blocks = last.saturating_sub(MAX_BLOCKS - 1)..=last;
        blocks.rev().map(|block| self.names.of(Seq::new(block * IndexPart::BLOCK))).collect()
    }

    /// Embeds texts, as [`embed`] does.
    pub(super) async fn embed(
        &self,
        texts: Vec<String>,
        dimension: Option<usize>,
    ) -> Result<Vec<Option<Vector>>, EmbedError> {
        let vectors = embed(&*self.embedder, texts, dimension).await?;
        self.works.store(true, Ordering::Relaxed);
        Ok(vectors)
    }

    /// Notes that the embedder failed. Returns `true` if its last call before succeeded: then it refuses these texts,
    /// or went down just now.
    pub(super) fn failed(&self) -> bool {
        self.works.swap(false, Ordering::Relaxed)
    }

    /// Embeds the input of a call.
    pub(super) async fn query(&self, input: &[Message]) -> Result<Vector, EmbedError> {
        let users = input.iter().filter(|message| *message.role() == Role::User);
        let text = users.map(text_of).collect::<Vec<String>>().join("\n");
        let (head, tail) = ends(&text, MAX_QUERY_BYTES);
        let vectors = self.embed(vec![[head, tail].concat()], None).await?;
        vectors.into_iter().next().flatten().ok_or(EmbedError::NoDirection)
    }
}

impl<'a> MeaningQuery<'a> {
    /// Creates the query for the vectors that have these names, at most `max` of them. The newest block is read in any
    /// case.
    pub(super) fn new(vector: &'a Vector, names: Vec<AttachmentName>, max: usize) -> Self {
        let bytes = max.saturating_mul(vector.dimension() + AROUND_VECTOR).max(Attachment::MAX_BYTES);
        Self { vector, names, max, bytes }
    }

    /// Returns the messages of a range that are nearest, by the newest vectors of these attachments. It pauses after
    /// each block.
    pub(super) async fn nearest(
        &self,
        attachments: &[Attachment],
        within: &Range<Seq>,
        pace: &mut Pace,
    ) -> Result<Nearest, Stop> {
        let mut stored: Vec<&Attachment> =
            attachments.iter().filter(|attachment| self.names.contains(&attachment.name)).collect();
        stored.sort_by_key(|attachment| std::cmp::Reverse(attachment.range.start));
        let (mut nearest, mut damaged, mut compared, mut other) = (vectors::Nearest::default(), Vec::new(), 0, None);
        for attachment in stored {
            if compared == self.max {
                break;
            }
            match VectorBlock::decode(&attachment.body) {
                Ok(block) if block.is_empty() => {}
                Ok(block) if block.dimension() != self.vector.dimension() => other = Some(block.dimension()),
                Ok(block) => compared += nearest.add_newest(&block, self.vector, within, self.max - compared),
                Err(_) => damaged.push(attachment.range.start),
            }
            pace.pause().await?;
        }
        let hits = nearest.hits(Search::LIMIT);
        let meaning = match other {
            Some(expected) if compared == 0 => {
                Meaning::Failed(EmbedError::Dimension { expected, found: self.vector.dimension() })
            }
            _ if compared == 0 => Meaning::Missing,
            _ => Meaning::Compared { vectors: u32::try_from(compared).unwrap_or(u32::MAX) },
        };
        Ok(Nearest { hits, meaning, damaged })
    }
}
