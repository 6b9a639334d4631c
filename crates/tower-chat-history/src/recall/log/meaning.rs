//! The search by meaning: vectors of the passages of a log, in memory.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tower_chat_history_core::{ConversationId, Incarnation, Message, Prefix, Recorded, Revision, Role, Seq};

use super::{
    cache::{Entry, ExchangeCache, Extent},
    pace::{Pace, Stop, pause},
    read::{LogReader, Walk},
};
use crate::recall::{
    embedder::{EmbedError, Embedder, embed},
    passage::{Passage, ends, text_of},
    search::{Hit, Search},
};

/// The most texts that are embedded at once.
pub(super) const EMBED_BATCH: usize = 256;
/// The most texts that a preparation embeds, unless a single exchange has more.
const MAX_TEXTS: usize = 1024;
/// The most bytes of an input that are embedded, from each of its ends.
const MAX_QUERY_BYTES: usize = 4096;
/// The most bytes of the vectors of an exchange. Passages after these have none.
const MAX_EXCHANGE_BYTES: usize = 2 << 20;
/// The work of comparing a number.
const COMPARED_PER_WORK: usize = 16;

/// The model, and the vectors that it made.
#[derive(Clone, Debug)]
pub(super) struct ByMeaning {
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) answers: Arc<ExchangeCache<Answer>>,
    /// The number of numbers of a vector, or 0 before the first one.
    dimension: Arc<AtomicUsize>,
}

/// The answer of the model to an exchange.
#[derive(Debug)]
pub(super) enum Answer {
    /// The vectors of its passages. There are none if the model refused it twice.
    Vectors(Vec<PassageVector>),
    /// The model refused it although it accepts other texts. It is asked once more, because the reason may pass, such
    /// as a limit of its rate.
    RefusedOnce,
}

/// The vector of a passage, of length 1.
#[derive(Debug)]
pub(super) struct PassageVector {
    /// The message, by its place in its exchange.
    message: u32,
    numbers: Box<[f32]>,
}

/// The messages of near meaning.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    /// The messages, best first. Their scores are cosines.
    pub(super) hits: Vec<Hit>,
    /// The number of vectors that were compared.
    pub(super) vectors: u32,
    /// The number of exchanges without vectors, which are not made yet.
    pub(super) unprepared: u64,
}

/// The result of a [preparation](crate::recall::LogSearch::prepare).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Preparation {
    /// The number of vectors that were made.
    pub vectors: u64,
    /// `true` if another preparation has something to do.
    pub more: bool,
    /// The error of the [embedder](crate::recall::LogSearch::by_meaning), if it failed for all texts. A later preparation tries again.
    pub embedding: Option<EmbedError>,
}

/// An exchange whose passages are to be embedded.
struct Due {
    recorded: Recorded,
    passages: Vec<Passage>,
    was_refused: bool,
}

impl ByMeaning {
    pub(super) fn new(embedder: Arc<dyn Embedder>, bytes: usize) -> Self {
        Self { embedder, answers: Arc::new(ExchangeCache::new(bytes)), dimension: Arc::default() }
    }

    /// Forgets the vectors of the conversations under the prefix.
    pub(super) fn forget(&self, under: &Prefix) {
        self.answers.forget(under);
    }

    /// Embeds texts. All vectors of the model have the dimension of the first one. A text whose numbers are all 0 has
    /// none.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Option<Box<[f32]>>>, EmbedError> {
        let known = self.dimension.load(Ordering::Relaxed);
        let vectors = embed(&*self.embedder, texts, (known > 0).then_some(known)).await?;
        if let Some(vector) = vectors.iter().flatten().next() {
            self.dimension.store(vector.len(), Ordering::Relaxed);
        }
        Ok(vectors)
    }

    /// Embeds the input of a call.
    pub(super) async fn query(&self, input: &[Message]) -> Result<Box<[f32]>, EmbedError> {
        let users = input.iter().filter(|message| *message.role() == Role::User);
        let text = users.map(text_of).collect::<Vec<String>>().join("\n");
        let (head, tail) = ends(&text, MAX_QUERY_BYTES);
        let vectors = self.embed(vec![[head, tail].concat()]).await?;
        vectors.into_iter().next().flatten().ok_or(EmbedError::NoDirection)
    }

    /// Compares a vector with those of a range of a log.
    pub(super) async fn nearest(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        within: Range<Seq>,
        to: &[f32],
        pace: &mut Pace,
    ) -> Result<Nearest, Stop> {
        let mut found = Nearest::default();
        let mut best: BTreeMap<(Seq, u32), f64> = BTreeMap::new();
        for seq in (within.start.get()..within.end.get()).map(Seq::new) {
            let made = self.answers.get(id, incarnation, seq);
            let Some(Answer::Vectors(vectors)) = made.as_ref().map(|made| &made.content) else {
                found.unprepared += 1;
                continue;
            };

            for vector in vectors {
                let score = cosine(&vector.numbers, to);
                best.entry((seq, vector.message)).and_modify(|best| *best = best.max(score)).or_insert(score);
                found.vectors = found.vectors.saturating_add(1);
                pace.worked(to.len() / COMPARED_PER_WORK).await?;
            }
        }
        found.hits = best.into_iter().map(|((seq, message), score)| Hit { seq, message, score }).collect();
        found.hits.sort_by(Hit::better_first);
        found.hits.truncate(Search::LIMIT);
        Ok(found)
    }

    /// Makes vectors of the exchanges in this part of a log that have none in memory, the newest first, at most about
    /// 1,024.
    pub(super) async fn prepare(
        &self,
        log: &LogReader,
        id: &ConversationId,
        revision: Revision,
        before: Seq,
        extent: Extent,
    ) -> Result<Preparation, Stop> {
        let incarnation = revision.incarnation();
        let mut prepared = Preparation::default();
        let mut walk = Walk::new(log, id, revision, before, extent);
        let mut due: Vec<Due> = Vec::new();
        let mut waiting = 0;
        let mut texts = 0;

        while let Some(seq) = walk.next() {
            let was_refused = match self.answers.get(id, incarnation, seq).as_deref() {
                Some(Entry { content: Answer::Vectors(_), extent, .. }) => {
                    walk.pass(seq, *extent);
                    continue;
                }
                Some(Entry { content: Answer::RefusedOnce, .. }) => true,
                None => false,
            };
            if texts >= MAX_TEXTS {
                prepared.more = true;
                break;
            }

            let Some(recorded) = walk.read(seq).await? else { break };
            walk.pass(seq, Extent::of(&recorded));
            let mut passages = Passage::of(&recorded.exchange);
            passages.retain(|passage| !passage.text.trim().is_empty());
            pause().await;

            if waiting + passages.len() > EMBED_BATCH {
                match self.make(id, incarnation, std::mem::take(&mut due)).await {
                    Ok(made) => prepared.vectors += made,
                    Err(error) => return Ok(Preparation { more: true, embedding: Some(error), ..prepared }),
                }
                waiting = 0;
            }

            waiting += passages.len();
            texts += passages.len();
            due.push(Due { recorded, passages, was_refused });
        }

        match self.make(id, incarnation, due).await {
            Ok(made) => prepared.vectors += made,
            Err(error) => return Ok(Preparation { more: true, embedding: Some(error), ..prepared }),
        }
        Ok(prepared)
    }

    /// Embeds exchanges, and keeps their vectors. Returns the number of vectors.
    ///
    /// If the model refuses the texts although it accepts others, the exchanges are divided, so that only those that it
    /// refuses have no vectors. A later preparation asks for these once more.
    async fn make(&self, id: &ConversationId, incarnation: Incarnation, due: Vec<Due>) -> Result<u64, EmbedError> {
        let mut made = 0;
        let mut groups = vec![due];
        while let Some(mut group) = groups.pop() {
            match self.vectors_of(&group).await {
                Ok(vectors) => {
                    for (due, vectors) in group.iter().zip(vectors) {
                        made += vectors.len() as u64;
                        self.keep(id, incarnation, &due.recorded, Answer::Vectors(vectors));
                    }
                }
                Err(error) => {
                    // Any text would do.
                    if self.embed(vec!["test".to_owned()]).await.is_err() {
                        return Err(error);
                    }
                    match group.as_slice() {
                        [refused] if refused.was_refused => {
                            self.keep(id, incarnation, &refused.recorded, Answer::Vectors(Vec::new()));
                        }
                        [refused] => self.keep(id, incarnation, &refused.recorded, Answer::RefusedOnce),
                        _ => {
                            let half = group.split_off(group.len() / 2);
                            groups.extend([group, half]);
                        }
                    }
                }
            }
            pause().await;
        }
        Ok(made)
    }

    /// Embeds the passages of exchanges.
    async fn vectors_of(&self, group: &[Due]) -> Result<Vec<Vec<PassageVector>>, EmbedError> {
        let texts: Vec<String> =
            group.iter().flat_map(|due| &due.passages).map(|passage| passage.text.clone()).collect();
        if texts.is_empty() {
            return Ok(group.iter().map(|_| Vec::new()).collect());
        }

        let mut embedded = self.embed(texts).await?.into_iter();
        let mut vectors = Vec::new();
        for due in group {
            let mut of_exchange = Vec::new();
            for (passage, numbers) in due.passages.iter().zip(embedded.by_ref().take(due.passages.len())) {
                of_exchange.extend(numbers.map(|numbers| PassageVector { message: passage.message, numbers }));
            }

            let each = of_exchange.first().map_or(1, |vector| size_of_val(&*vector.numbers)).max(1);
            of_exchange.truncate(MAX_EXCHANGE_BYTES / each);
            vectors.push(of_exchange);
        }
        Ok(vectors)
    }

    fn keep(&self, id: &ConversationId, incarnation: Incarnation, recorded: &Recorded, answer: Answer) {
        let mut memory = 0;
        if let Answer::Vectors(vectors) = &answer {
            memory += size_of_val(&**vectors);
            memory += vectors.iter().map(|vector| size_of_val(&*vector.numbers)).sum::<usize>();
        }

        let made = Entry { extent: Extent::of(recorded), memory, content: answer };
        self.answers.insert(id, incarnation, recorded.seq, made);
    }
}

/// Returns the cosine of the angle between two vectors of length 1.
fn cosine(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
}
