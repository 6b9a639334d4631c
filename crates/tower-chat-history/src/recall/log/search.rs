//! The search for the input of a call.

use futures_util::{FutureExt as _, future::join};
use tower_chat_history_core::{Citation, ListExt as _, Listed, Prefix, Recorded, Seq};

use super::{
    LogSearch,
    ask::{Ask, Findings, Meaning, Others, SearchAnswer},
    cache::Extent,
    fit::fit,
    joined::{Joined, Log},
    meaning::Nearest,
    others::{TimeForOthers, divided, side_by_side, until},
    pace::{Pace, SearchError, Stop},
    words::LogPart,
};
use crate::recall::{
    search::{Query, Ranking, Search, evidence},
    select::Selector,
};

/// The bytes of messages that are searched of all other conversations together. The last exchange of each may exceed
/// its part.
const MAX_BYTES_OF_OTHERS: usize = 512 << 10;

impl LogSearch {
    /// Searches a conversation for the words of an input, and renders the messages that it finds. If the search has a
    /// [scope](Self::under), other conversations are searched, too.
    ///
    /// It reads the revision of the log, then the exchanges whose terms are not in memory, then the exchanges to show.
    /// If the gate is shut, the last read is left out. If no word of the input could open the gate, nothing is read.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails for the conversation itself. If it fails for another conversation, the
    /// result has no messages of that one.
    pub async fn search(&self, ask: Ask<'_>) -> Result<SearchAnswer, SearchError> {
        let query = Query::of_input(self.analyzer(), ask.input);
        let has_earlier = ask.revision.is_some_and(|revision| ask.before > revision.first());
        let under = self.listing.as_ref().and_then(|listing| listing.scope.prefix(ask.conversation));
        let can_open = self.opens_by_meaning() || query.any(|term| self.gate.counts(term));
        if query.is_empty() || !can_open || ask.allowance == 0 || !has_earlier && under.is_none() {
            return Ok(SearchAnswer::Nothing);
        }

        match self.found(&ask, &query, has_earlier, under).await {
            Ok(found) => Ok(SearchAnswer::Found(found)),
            Err(Stop::Gone) => Ok(SearchAnswer::Gone),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Returns `true` if meaning can open the gate.
    const fn opens_by_meaning(&self) -> bool {
        self.by_meaning.is_some() && self.least_cosine.is_some()
    }

    async fn found(
        &self,
        ask: &Ask<'_>,
        query: &Query,
        has_earlier: bool,
        under: Option<Prefix>,
    ) -> Result<Findings, Stop> {
        let mut pace = Pace::new(self.time_limit);
        let time = TimeForOthers::begin(self.time_for_others);
        let embedded = match &self.by_meaning {
            Some(by_meaning) => Some(by_meaning.query(ask.input).await),
            None => None,
        };
        let vector = embedded.as_ref().and_then(|embedded| embedded.as_deref().ok());

        let mut own = None;
        if has_earlier {
            let incarnation = ask.revision.map(|revision| revision.incarnation());
            let newest = self.newest(ask.conversation, incarnation, Search::LIMIT).await?;
            let part = LogPart { before: ask.before, ..newest };
            own = Some(self.search_log(part, query, vector, &mut pace).await?);
        }
        let unsearched = own.as_ref().map_or(0, |own| own.by_words.unsearched);
        let unprepared = own.as_ref().map_or(0, |own| own.nearest.unprepared);

        let (mut logs, mut others) = match under {
            Some(under) => self.others(ask, query, vector, &under, time, &mut pace).await?,
            None => (Vec::new(), Others::default()),
        };
        logs.extend(own);
        let joined = Joined::new(logs);

        let meaning = match (embedded, joined.vectors()) {
            (None, _) => Meaning::Unused,
            (Some(Err(error)), _) => Meaning::Failed(error),
            (Some(Ok(_)), 0) => Meaning::Missing,
            (Some(Ok(_)), vectors) => Meaning::Compared { vectors },
        };
        let ranking = self.ranking(&joined, query, &meaning);

        let already = joined.joined(ask.already);
        let mut selector = Selector::new(joined.range(), ask.allowance).already(&already);
        if matches!(meaning, Meaning::Compared { .. }) {
            // Scores of fused ranks say little.
            selector = selector.ratio(0.0);
        }
        let exchanges = self.picked_of_all(ask, &joined, &selector.needed(&ranking), time, &mut others).await?;
        pace.pause().await?;

        let fitted = fit(ask, &joined, selector, &ranking, &exchanges, &mut pace).await?;
        let (recalled, cost) = fitted.map_or((None, 0), |(recalled, cost)| (Some(recalled), cost));
        let cited = recalled.as_ref().map_or(&[][..], |recalled| recalled.citations.as_slice());
        Ok(Findings {
            cost,
            exchanges: cited.chunk_by(Citation::same_exchange).count() as u64,
            recalled,
            best: joined.best(),
            gate: ranking.gate,
            conversations: u32::try_from(joined.logs().len()).unwrap_or(u32::MAX),
            documents: ranking.documents,
            unsearched,
            unprepared,
            meaning,
            others,
        })
    }

    /// Searches one log by words, and by meaning if there is a vector.
    async fn search_log(
        &self,
        part: LogPart<'_>,
        query: &Query,
        vector: Option<&[f32]>,
        pace: &mut Pace,
    ) -> Result<Log, Stop> {
        let incarnation = part.revision.incarnation();
        let by_words = self.words.search(&self.log, part, query, pace).await?;
        let nearest = match (&self.by_meaning, vector) {
            (Some(by_meaning), Some(vector)) => {
                by_meaning.nearest(part.conversation, incarnation, by_words.within.clone(), vector, pace).await?
            }
            _ => Nearest::default(),
        };
        Ok(Log { conversation: None, incarnation, by_words, nearest })
    }

    /// Searches the newest other conversations under a prefix, the newest first. Returns their logs, the oldest first,
    /// and the report.
    async fn others(
        &self,
        ask: &Ask<'_>,
        query: &Query,
        vector: Option<&[f32]>,
        under: &Prefix,
        time: TimeForOthers,
        pace: &mut Pace,
    ) -> Result<(Vec<Log>, Others), Stop> {
        let mut report = Others::default();
        let Some(listing) = &self.listing else { return Ok((Vec::new(), report)) };
        let end = time.end_of_searches();
        let (most, walk) = listing.limits();

        // The conversation itself may be among the newest.
        let newest = until(end, listing.store.newest(under, most.saturating_add(1), walk)).await;
        let Some(Ok(newest)) = newest else {
            report.failed = 1;
            return Ok((Vec::new(), report));
        };
        pace.pause().await?;

        report.is_incomplete = !newest.is_complete;
        report.failed = u32::try_from(newest.damaged).unwrap_or(u32::MAX);
        let mut others: Vec<Listed> = newest.conversations;
        // A store that lists others by mistake must not widen the search.
        others.retain(|listed| listed.id != *ask.conversation && under.contains(&listed.id));
        others.truncate(most);

        let sizes: Vec<usize> = others.iter().map(|other| usize::try_from(other.bytes).unwrap_or(usize::MAX)).collect();
        let mut searches = Vec::new();
        for (listed, bytes) in others.iter().zip(divided(MAX_BYTES_OF_OTHERS, &sizes)) {
            let mut pace = pace.of_part();
            // A conversation that was erased since it was listed is not shown, also if it exists again.
            let part = LogPart {
                conversation: &listed.id,
                revision: listed.revision,
                before: listed.revision.next(),
                extent: Extent { bytes, ..self.extent() },
                limit: Search::LIMIT,
            };
            searches.push(async move { self.search_log(part, query, vector, &mut pace).await }.boxed());
        }
        let found: Vec<Option<Result<Log, Stop>>> = side_by_side(end, searches).await;

        let mut logs = Vec::new();
        for (listed, found) in others.iter().zip(found).rev() {
            match found {
                Some(Ok(log)) => {
                    report.searched = report.searched.saturating_add(1);
                    report.unsearched = report.unsearched.saturating_add(log.by_words.unsearched);
                    logs.push(Log { conversation: Some(listed.id.clone()), ..log });
                }
                Some(Err(Stop::Gone)) => {}
                Some(Err(stop @ Stop::Failed(SearchError::TimedOut(_)))) => return Err(stop),
                None | Some(Err(Stop::Failed(_))) => report.failed = report.failed.saturating_add(1),
            }
        }
        Ok((logs, report))
    }

    /// Ranks the messages of all logs. The gate decides once, by the words of all logs together.
    fn ranking(&self, joined: &Joined, query: &Query, meaning: &Meaning) -> Ranking {
        let (evidence, documents) = evidence(&joined.counted(), query, |term| self.gate.counts(term));
        let mut gate = self.gate.outcome(&evidence, documents, query.asks());
        let nearest = joined.nearest();
        let cosine = nearest.first().map(|hit| hit.score);
        gate.open |= self.least_cosine.zip(cosine).is_some_and(|(least, cosine)| cosine >= least);
        let ranking = Ranking { hits: joined.hits(query), gate, documents };
        match meaning {
            Meaning::Compared { .. } => ranking.fused_with(&nearest),
            _ => ranking,
        }
    }

    /// Reads the exchanges at positions of the joined log. If another conversation cannot be read in time, its
    /// exchanges are left out.
    async fn picked_of_all(
        &self,
        ask: &Ask<'_>,
        joined: &Joined,
        needed: &[Seq],
        time: TimeForOthers,
        others: &mut Others,
    ) -> Result<Vec<Recorded>, Stop> {
        let mut own = None;
        let mut numbers = Vec::new();
        let mut reads = Vec::new();
        for (number, log) in joined.logs().iter().enumerate() {
            let positions = joined.positions_of(number, needed);
            match &log.conversation {
                Some(conversation) => {
                    numbers.push(number);
                    reads.push(async move { self.log.picked(conversation, log.incarnation, &positions).await }.boxed());
                }
                None => own = Some((number, log.incarnation, positions)),
            }
        }

        let read_own = async {
            let Some((number, incarnation, positions)) = own else { return Ok(Vec::new()) };
            let exchanges = self.log.picked(ask.conversation, incarnation, &positions).await?;
            Ok::<_, Stop>(Joined::moved(number, exchanges))
        };
        let (read, own) = join(side_by_side(time.end_of_messages(), reads), read_own).await;

        let mut all = own?;
        for (number, read) in numbers.into_iter().zip(read) {
            match read {
                Some(Ok(exchanges)) => all.extend(Joined::moved(number, exchanges)),
                // It was erased in the meantime.
                Some(Err(Stop::Gone)) => {}
                Some(Err(stop @ Stop::Failed(SearchError::TimedOut(_)))) => return Err(stop),
                None | Some(Err(Stop::Failed(_))) => others.failed = others.failed.saturating_add(1),
            }
        }
        all.sort_by_key(|recorded| recorded.seq);
        Ok(all)
    }
}
