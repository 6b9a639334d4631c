//! The search for the input of a call.

use futures_util::future::join;
use tower_chat_history_core::{Citation, Prefix, Recorded, Seq};

use super::{
    StoredIndex,
    ask::{Ask, Found, Meaning, Others, Searched},
    embedder::EmbedError,
    error::{IndexError, Stop},
    fit::fit,
    joined::{Joined, Log},
    limits::Limits,
    pause::Pace,
    ranked::LogPart,
    waiting::{Waiting, side_by_side},
};
use crate::{
    search::{Query, Ranking, Search, evidence},
    select::Selector,
    vectors::Vector,
};

impl StoredIndex {
    /// Searches a conversation for the words of an input, and renders the messages that it finds. If the index has a
    /// [scope](Self::under), other conversations are searched, too.
    ///
    /// It reads the index in one call, then the exchanges that are not indexed, then the exchanges to show. If the gate
    /// is shut, the last read is left out. If a part of the index turns out to be damaged, its exchanges are read from
    /// the log, as others that are not indexed.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails for the conversation itself. If it fails for another conversation, the
    /// result has no messages of that one.
    pub async fn search(&self, ask: Ask<'_>) -> Result<Searched, IndexError> {
        let query = Query::of_input(&self.analyzer, ask.input);
        let has_earlier = ask.revision.is_some_and(|revision| ask.before > revision.first());
        let under = self.prefix_of(ask.conversation);
        if query.is_empty() || ask.allowance == 0 || !has_earlier && under.is_none() {
            return Ok(Searched::Nothing);
        }
        match self.found(&ask, &query, has_earlier, under).await {
            Ok(found) => Ok(Searched::Found(found)),
            Err(Stop::Gone) => Ok(Searched::Gone),
            Err(Stop::TimedOut(limit)) => Err(IndexError::TimedOut(limit)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    async fn found(
        &self,
        ask: &Ask<'_>,
        query: &Query,
        has_earlier: bool,
        under: Option<Prefix>,
    ) -> Result<Found, Stop> {
        let (mut pace, waiting) = (Pace::new(self.time_limit), self.waiting());
        let (vector, failed) = match self.embedded(ask, query).await {
            Some(Ok(vector)) => (Some(vector), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let own = match has_earlier {
            true => Some(self.own(ask, query, vector.as_ref(), &mut pace).await?),
            false => None,
        };
        let (mut logs, mut others) = match under {
            Some(under) => self.others(ask, query, vector.as_ref(), &under, &waiting, &mut pace).await?,
            None => (Vec::new(), Others::default()),
        };
        let unsearched = own.as_ref().map_or(0, |own| own.ranked.unsearched);
        logs.extend(own);
        let joined = Joined::new(logs);
        let ranking = self.ranking(&joined, query);

        let already = joined.joined(ask.already);
        let mut selector = Selector::new(joined.range(), ask.allowance).already(&already);
        let meaning = failed.map_or_else(|| joined.meaning(), Meaning::Failed);
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
            damaged: joined.logs().iter().fold(0, |sum, log| log.ranked.damaged.saturating_add(sum)),
            meaning,
            others,
        })
    }

    /// Embeds the input, if vectors are used and can matter.
    async fn embedded(&self, ask: &Ask<'_>, query: &Query) -> Option<Result<Vector, EmbedError>> {
        let by_meaning = self.by_meaning.as_ref()?;
        if self.least_cosine.is_none() && !query.any(|term| self.gate.counts(term)) {
            return None;
        }
        Some(by_meaning.query(ask.input).await)
    }

    /// Searches the part of the conversation itself that is before the window.
    async fn own(&self, ask: &Ask<'_>, query: &Query, vector: Option<&Vector>, pace: &mut Pace) -> Result<Log, Stop> {
        let part = LogPart {
            conversation: ask.conversation,
            incarnation: ask.revision.map(|revision| revision.incarnation()),
            before: Some(ask.before),
            is_due: true,
            limit: Search::LIMIT,
            limits: Limits::of_one(self.scan_limit),
        };
        Ok(Log { conversation: None, ranked: self.ranked(part, query, vector, pace).await? })
    }

    /// Ranks the messages of all logs. The gate decides once, by the words of all logs together.
    fn ranking(&self, joined: &Joined, query: &Query) -> Ranking {
        let (evidence, documents) = evidence(&joined.counted(), query, |term| self.gate.counts(term));
        let mut gate = self.gate.outcome(&evidence, documents, query.asks());
        let nearest = joined.nearest();
        let cosine = nearest.first().map(|hit| hit.score);
        gate.open |= self.least_cosine.zip(cosine).is_some_and(|(least, cosine)| cosine >= least);
        let ranking = Ranking { hits: joined.hits(query), gate, documents };
        match joined.meaning() {
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
            let (incarnation, known) = (log.ranked.incarnation, log.ranked.exchanges.clone());
            async move { self.picked(&conversation, incarnation, &positions, &known).await }
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
