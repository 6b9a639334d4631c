//! The ranking of the messages of one log.

use std::ops::Range;

use tower_chat_history_core::{ConversationId, Incarnation, Recorded, Seq};

use super::{
    StoredIndex,
    ask::Meaning,
    error::Stop,
    limits::Limits,
    pause::{Pace, SLICE},
    suspects::Suspect,
    vectors::MeaningQuery,
};
use crate::{
    gate::Gate,
    index::IndexPart,
    passage::Passage,
    search::{Counted, Hit, Query, Search},
    varint::DecodeError,
    vectors::Vector,
};

/// A log, and the part of it that is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPart<'a> {
    pub(crate) conversation: &'a ConversationId,
    /// `None` accepts any incarnation.
    pub(crate) incarnation: Option<Incarnation>,
    /// `None` stands for the end of the log.
    pub(crate) before: Option<Seq>,
    /// True if the whole blocks of the part should be indexed, because they have left the window.
    pub(crate) is_due: bool,
    /// The most messages that are ranked.
    pub(crate) limit: usize,
    pub(crate) limits: Limits,
}

/// The messages of a log that were found, and what was seen for that.
#[derive(Debug)]
pub(crate) struct Ranked {
    /// The messages with words of the query, best first.
    pub(crate) hits: Vec<Hit>,
    pub(crate) counted: Counted,
    /// The messages of near meaning, best first.
    pub(crate) nearest: Vec<Hit>,
    pub(crate) meaning: Meaning,
    pub(crate) within: Range<Seq>,
    pub(crate) incarnation: Incarnation,
    /// The exchanges that were read because they are not indexed.
    pub(crate) exchanges: Vec<Recorded>,
    pub(crate) unsearched: u64,
    pub(crate) damaged: u32,
    /// The newest exchange with a hit that has so many passages that the others were left out.
    pub(crate) longest: Option<Seq>,
}

impl StoredIndex {
    /// Ranks the messages of a log by words, and by meaning if there is a vector.
    pub(crate) async fn ranked(
        &self,
        part: LogPart<'_>,
        query: &Query,
        vector: Option<&Vector>,
        pace: &mut Pace,
    ) -> Result<Ranked, Stop> {
        let id = part.conversation;
        let vector = match (&self.by_meaning, vector, part.before) {
            (Some(by_meaning), Some(vector), Some(before)) => {
                Some(MeaningQuery::new(vector, by_meaning.names_before(before)?, part.limits.vectors))
            }
            _ => None,
        };
        let (revision, mut parts, attachments) =
            self.parts_and(id, part.incarnation, &query.buckets(), (vector.as_ref(), part.limits.index), pace).await?;
        let incarnation = revision.incarnation();
        let end = part.before.unwrap_or(revision.next()).min(revision.next());
        let within = revision.first()..end.max(revision.first());
        let search = Search::new(within.clone(), Gate::always_open()).limit(part.limit);
        let ((hits, counted), scanned) = loop {
            let missing = parts.index.missing(within.clone());
            let scanned = self.scan(id, incarnation, &missing, part.limits, pace).await?;
            let mut all: Vec<&IndexPart> = parts.index.parts().iter().chain(&scanned.parts).collect();
            all.sort_by_key(|part| part.range().start);
            match run(&search, all, query, pace).await? {
                Ok(found) => break (found, scanned),
                // Each round has fewer parts.
                Err(error) if !self.damage_unreadable(&mut parts, query).await => return Err(error.into()),
                Err(_) => {}
            }
        };
        if part.is_due && parts.index.due(parts.known_part(whole_blocks(&within))).next().is_some() {
            self.progress.forget_indexed(id);
        }
        let all = || parts.index.parts().iter().chain(&scanned.parts);
        let is_long = |seq: &Seq| all().any(|part| part.documents_of(*seq) >= Passage::MAX_OF_EXCHANGE);
        let longest = hits.iter().map(|hit| hit.seq).filter(is_long).max();
        let mut suspects: Vec<Suspect> = parts.damaged.iter().copied().map(Suspect::Terms).collect();
        let (mut nearest, mut meaning) = (Vec::new(), Meaning::Unused);
        if let Some(vector) = vector {
            pace.pause().await?;
            let found = vector.nearest(&attachments, &within, pace).await?;
            suspects.extend(found.damaged.into_iter().map(Suspect::Vectors));
            (nearest, meaning) = (found.hits, found.meaning);
        }
        let damaged = suspects.len();
        if damaged > 0 {
            self.progress.forget_indexed(id);
            self.suspects.add(id, incarnation, suspects);
        }
        Ok(Ranked {
            hits,
            counted,
            nearest,
            meaning,
            within,
            incarnation,
            exchanges: scanned.exchanges,
            unsearched: scanned.unsearched,
            damaged: u32::try_from(damaged).unwrap_or(u32::MAX),
            longest,
        })
    }
}

/// Searches parts, which must be in order and must not overlap, with pauses.
async fn run(
    search: &Search,
    parts: Vec<&IndexPart>,
    query: &Query,
    pace: &mut Pace,
) -> Result<Result<(Vec<Hit>, Counted), DecodeError>, Stop> {
    let mut found = Vec::with_capacity(parts.len());
    for part in parts.into_iter().filter(|part| search.reads(part)) {
        let mut finding = part.finding(query.terms());
        loop {
            match finding.step() {
                Ok(true) => pace.worked(SLICE).await?,
                Ok(false) => break,
                Err(error) => return Ok(Err(error)),
            }
        }
        found.push((part, finding.finish()));
        pace.worked(query.terms().len()).await?;
    }
    pace.pause().await?;
    let scored = match search.score(found, query) {
        Ok(scored) => scored,
        Err(error) => return Ok(Err(error)),
    };
    pace.pause().await?;
    Ok(Ok(scored.hits()))
}

/// Returns a range from the start of the block that it begins in.
pub(super) const fn whole_blocks(within: &Range<Seq>) -> Range<Seq> {
    IndexPart::block_start(within.start)..within.end
}
