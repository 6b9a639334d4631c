//! The search in a stored log.

use std::{collections::BTreeSet, ops::Range};

use tower_chat_history_core::{ConversationId, Incarnation, Recorded, Seq};

use super::{
    StoredIndex,
    ask::{Ask, Found, Meaning, Searched},
    embedder::EmbedError,
    error::{IndexError, Stop},
    fit::fit,
    pause::{Pace, SLICE},
    suspects::Suspect,
    vectors::MeaningQuery,
};
use crate::{
    gate::Gate,
    index::IndexPart,
    passage::Passage,
    search::{Query, Ranking, Search},
    select::Selector,
    varint::DecodeError,
};

/// The part of a conversation that is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) conversation: &'a ConversationId,
    /// `None` accepts any incarnation.
    pub(crate) incarnation: Option<Incarnation>,
    /// `None` stands for the end of the log.
    pub(crate) before: Option<Seq>,
    /// The most messages that are ranked.
    pub(crate) limit: usize,
}

/// A ranking, and what was seen for it.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) ranking: Ranking,
    pub(crate) within: Range<Seq>,
    pub(crate) incarnation: Incarnation,
    /// The exchanges that were read because they are not indexed.
    pub(crate) exchanges: Vec<Recorded>,
    pub(crate) unsearched: u64,
    pub(crate) damaged: u32,
    /// The best score by words.
    pub(crate) best: f64,
    pub(crate) meaning: Meaning,
    /// The newest exchange with a hit that has so many passages that the others were left out.
    pub(crate) longest: Option<Seq>,
}

impl StoredIndex {
    /// Searches a conversation for the words of an input, and renders the messages that it finds.
    ///
    /// It reads the index in one call, then the exchanges that are not indexed, then the exchanges to show. If the gate
    /// is shut, the last read is left out. If a part of the index turns out to be damaged, its exchanges are read from
    /// the log, as others that are not indexed.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn search(&self, ask: Ask<'_>) -> Result<Searched, IndexError> {
        let query = Query::of_input(&self.analyzer, ask.input);
        if query.is_empty() || ask.before <= ask.revision.first() || ask.allowance == 0 {
            return Ok(Searched::Nothing);
        }
        match self.found(&ask, &query).await {
            Ok(found) => Ok(Searched::Found(found)),
            Err(Stop::Gone) => Ok(Searched::Gone),
            Err(Stop::TimedOut(limit)) => Err(IndexError::TimedOut(limit)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    async fn found(&self, ask: &Ask<'_>, query: &Query) -> Result<Found, Stop> {
        let scope = Scope {
            conversation: ask.conversation,
            incarnation: Some(ask.revision.incarnation()),
            before: Some(ask.before),
            limit: Search::LIMIT,
        };
        let mut pace = Pace::new(self.time_limit);
        let meaning = self.embedded(ask, query).await?;
        let ranked = self.ranked(scope, query, &self.gate, meaning, &mut pace).await?;
        let Ranked { ranking, within, .. } = &ranked;
        let mut selector = Selector::new(within.clone(), ask.allowance).already(ask.already);
        if matches!(ranked.meaning, Meaning::Compared { .. }) {
            // Scores of fused ranks say little.
            selector = selector.ratio(0.0);
        }
        let needed = selector.needed(ranking);
        let exchanges = self.picked(ask.conversation, ranked.incarnation, &needed, &ranked.exchanges).await?;
        pace.pause().await?;
        let fitted = fit(ask, selector, ranking, &exchanges, &mut pace).await?;
        let (recalled, cost) = fitted.map_or((None, 0), |(recalled, cost)| (Some(recalled), cost));
        let cited = recalled.iter().flat_map(|recalled| &recalled.citations);
        Ok(Found {
            cost,
            exchanges: cited.map(|citation| citation.seq).collect::<BTreeSet<Seq>>().len() as u64,
            recalled,
            best: ranked.best,
            gate: ranking.gate,
            documents: ranking.documents,
            unsearched: ranked.unsearched,
            damaged: ranked.damaged,
            meaning: ranked.meaning,
        })
    }

    /// Embeds the input, if vectors are used and can matter.
    async fn embedded(&self, ask: &Ask<'_>, query: &Query) -> Result<Option<Result<MeaningQuery, EmbedError>>, Stop> {
        let Some(by_meaning) = &self.by_meaning else { return Ok(None) };
        if self.least_cosine.is_none() && !query.any(|term| self.gate.counts(term)) {
            return Ok(None);
        }
        let names = by_meaning.names_before(ask.before)?;
        Ok(Some(by_meaning.query(ask.input, names).await))
    }

    /// Ranks the messages of a conversation by words, and by meaning if the input was embedded.
    pub(crate) async fn ranked(
        &self,
        scope: Scope<'_>,
        query: &Query,
        gate: &Gate,
        meaning: Option<Result<MeaningQuery, EmbedError>>,
        pace: &mut Pace,
    ) -> Result<Ranked, Stop> {
        let id = scope.conversation;
        let (vector, failed) = match meaning {
            Some(Ok(vector)) => (Some(vector), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let (revision, mut parts, attachments) =
            self.parts_and(id, scope.incarnation, &query.buckets(), vector.as_ref(), pace).await?;
        let incarnation = revision.incarnation();
        let end = scope.before.unwrap_or(revision.next()).min(revision.next());
        let within = revision.first()..end.max(revision.first());
        let search = Search::new(within.clone(), gate.clone()).limit(scope.limit);
        let (mut ranking, scanned) = loop {
            let scanned = self.scan(id, incarnation, &parts.index.missing(within.clone()), pace).await?;
            let mut all: Vec<&IndexPart> = parts.index.parts().iter().chain(&scanned.parts).collect();
            all.sort_by_key(|part| part.range().start);
            match run(&search, all, query, pace).await? {
                Ok(ranking) => break (ranking, scanned),
                // Each round has fewer parts.
                Err(error) if !self.damage_unreadable(&mut parts, query).await => return Err(error.into()),
                Err(_) => {}
            }
        };
        if scope.before.is_some() && parts.index.due(parts.known_part(whole_blocks(&within))).next().is_some() {
            self.progress.forget_indexed(id);
        }
        let all = || parts.index.parts().iter().chain(&scanned.parts);
        let is_long = |seq: &Seq| all().any(|part| part.documents_of(*seq) >= Passage::MAX_OF_EXCHANGE);
        let longest = ranking.hits.iter().map(|hit| hit.seq).filter(is_long).max();
        let mut suspects: Vec<Suspect> = parts.damaged.iter().copied().map(Suspect::Terms).collect();
        let best = ranking.hits.first().map_or(0.0, |hit| hit.score);
        let mut meaning = failed.map_or(Meaning::Unused, Meaning::Failed);
        if let Some(vector) = vector {
            pace.pause().await?;
            let nearest = vector.nearest(&attachments, &within, pace).await?;
            suspects.extend(nearest.damaged.into_iter().map(Suspect::Vectors));
            let nearest_score = nearest.hits.first().map(|hit| hit.score);
            ranking.gate.open |= self.least_cosine.zip(nearest_score).is_some_and(|(least, score)| score >= least);
            if matches!(nearest.meaning, Meaning::Compared { .. }) {
                ranking = ranking.fused_with(&nearest.hits);
            }
            meaning = nearest.meaning;
        }
        let damaged = suspects.len();
        if damaged > 0 {
            self.progress.forget_indexed(id);
            self.suspects.add(id, incarnation, suspects);
        }
        Ok(Ranked {
            ranking,
            within,
            incarnation,
            exchanges: scanned.exchanges,
            unsearched: scanned.unsearched,
            damaged: u32::try_from(damaged).unwrap_or(u32::MAX),
            best,
            meaning,
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
) -> Result<Result<Ranking, DecodeError>, Stop> {
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
    Ok(Ok(scored.ranking()))
}

/// Returns a range from the start of the block that it begins in.
pub(super) const fn whole_blocks(within: &Range<Seq>) -> Range<Seq> {
    IndexPart::block_start(within.start)..within.end
}
