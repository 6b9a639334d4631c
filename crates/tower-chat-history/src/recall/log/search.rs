//! The search for the input of a call.

use futures_util::future::join;
use tower_chat_history_core::{Citation, Prefix, Recorded, Seq};

use super::{
    LogSearch,
    ask::{Ask, Found, Meaning, Others, Searched},
    error::{SearchError, Stop},
    fit::fit,
    joined::{Joined, Log},
    meaning::Nearest,
    pause::Pace,
    waiting::{Waiting, side_by_side},
    words::LogPart,
};
use crate::recall::{
    search::{Query, Ranking, Search, evidence},
    select::Selector,
};

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
    pub async fn search(&self, ask: Ask<'_>) -> Result<Searched, SearchError> {
        let query = Query::of_input(&self.analyzer, ask.input);
        let has_earlier = ask.revision.is_some_and(|revision| ask.before > revision.first());
        let under = self.prefix_of(ask.conversation);
        let can_open = self.opens_by_meaning() || query.any(|term| self.gate.counts(term));
        if query.is_empty() || !can_open || ask.allowance == 0 || !has_earlier && under.is_none() {
            return Ok(Searched::Nothing);
        }
        match self.found(&ask, &query, has_earlier, under).await {
            Ok(found) => Ok(Searched::Found(found)),
            Err(Stop::Gone) => Ok(Searched::Gone),
            Err(Stop::TimedOut(limit)) => Err(SearchError::TimedOut(limit)),
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
    ) -> Result<Found, Stop> {
        let mut pace = Pace::new(self.time_limit);
        let waiting = self.waiting();
        let embedded = match &self.by_meaning {
            Some(by_meaning) => Some(by_meaning.query(ask.input).await),
            None => None,
        };
        let vector = embedded.as_ref().and_then(|embedded| embedded.as_deref().ok());

        let mut own = None;
        if has_earlier {
            let incarnation = ask.revision.map(|revision| revision.incarnation());
            let part =
                LogPart { before: ask.before, ..self.newest(ask.conversation, incarnation, Search::LIMIT).await? };
            own = Some(self.log(part, query, vector, &mut pace).await?);
        }
        let unsearched = own.as_ref().map_or(0, |own| own.by_words.unsearched);
        let unprepared = own.as_ref().map_or(0, |own| own.nearest.unprepared);
        let (mut logs, mut others) = match under {
            Some(under) => self.others(ask, query, vector, &under, &waiting, &mut pace).await?,
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
        let exchanges = self.picked_of_all(ask, &joined, &selector.needed(&ranking), &waiting, &mut others).await?;
        pace.pause().await?;
        let fitted = fit(ask, &joined, selector, &ranking, &exchanges, &mut pace).await?;
        let (recalled, cost) = fitted.map_or((None, 0), |(recalled, cost)| (Some(recalled), cost));
        let cited = recalled.as_ref().map_or(&[][..], |recalled| recalled.citations.as_slice());
        Ok(Found {
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
    pub(super) async fn log(
        &self,
        part: LogPart<'_>,
        query: &Query,
        vector: Option<&[f32]>,
        pace: &mut Pace,
    ) -> Result<Log, Stop> {
        let incarnation = part.revision.incarnation();
        let by_words = self.by_words(part, query, pace).await?;
        let nearest = match (&self.by_meaning, vector) {
            (Some(by_meaning), Some(vector)) => {
                by_meaning.nearest(part.conversation, incarnation, by_words.within.clone(), vector, pace).await?
            }
            _ => Nearest::default(),
        };
        Ok(Log { conversation: None, incarnation, by_words, nearest })
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
        waiting: &Waiting,
        others: &mut Others,
    ) -> Result<Vec<Recorded>, Stop> {
        let pick = |number: usize, log: &'_ Log| {
            let conversation = log.conversation.clone().unwrap_or_else(|| ask.conversation.clone());
            let positions = joined.positions_of(number, needed);
            let incarnation = log.incarnation;
            async move { self.picked(&conversation, incarnation, &positions).await }
        };
        let logs = || joined.logs().iter().enumerate();
        let own = logs().find(|(_, log)| log.conversation.is_none());
        let of_others: Vec<usize> = logs().filter(|(_, log)| log.conversation.is_some()).map(|(at, _)| at).collect();
        let mut end = waiting.for_messages();
        let reads = of_others.iter().filter_map(|at| Some(pick(*at, joined.logs().get(*at)?)));
        let (read, own) = join(side_by_side(reads, &mut end), async {
            match own {
                Some((number, log)) => pick(number, log).await.map(|exchanges| Joined::moved(number, exchanges)),
                None => Ok(Vec::new()),
            }
        })
        .await;
        let mut all = own?;
        for (number, read) in of_others.into_iter().zip(read) {
            match read {
                Some(Ok(exchanges)) => all.extend(Joined::moved(number, exchanges)),
                // It was erased in the meantime.
                Some(Err(Stop::Gone)) => {}
                Some(Err(Stop::TimedOut(limit))) => return Err(Stop::TimedOut(limit)),
                None | Some(Err(Stop::Failed(_))) => others.failed = others.failed.saturating_add(1),
            }
        }
        all.sort_by_key(|recorded| recorded.seq);
        Ok(all)
    }
}
