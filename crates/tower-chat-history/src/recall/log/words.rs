//! The search by words, in the newest messages of one log.

use std::{ops::Range, sync::Arc};

use tower_chat_history_core::{ConversationId, Recorded, Revision, Seq};

use super::{
    cache::{Entry, ExchangeCache, Extent},
    pace::{Pace, Stop},
    read::{LogReader, Walk},
};
use crate::recall::{
    analyzer::Analyzer,
    passage::{Passage, Passages},
    search::{Document, ExchangeTerms, Hit, Query, Scoring, Statistics},
};

/// The work to read a message is that of analyzing this part of it.
const READ: usize = 8;

/// A log, and the part of it that is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPart<'a> {
    pub(crate) conversation: &'a ConversationId,
    /// The log's revision, which was read for this search.
    pub(crate) revision: Revision,
    pub(crate) before: Seq,
    pub(super) extent: Extent,
    /// The most messages that are ranked.
    pub(crate) limit: usize,
}

/// The messages of a log that have words of the query, and what was seen for that.
#[derive(Debug)]
pub(crate) struct ByWords {
    /// The messages, best first.
    pub(crate) hits: Vec<Hit>,
    pub(crate) counted: Statistics,
    /// The range that was searched.
    pub(crate) within: Range<Seq>,
    /// The number of exchanges before the range.
    pub(crate) unsearched: u64,
    /// The newest exchange with a hit that has so many passages that the others were left out.
    pub(crate) longest: Option<Seq>,
}

/// The terms of exchanges. They stay in memory.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(super) analyzer: Analyzer,
    pub(super) terms: Arc<ExchangeCache<ExchangeTerms>>,
}

impl Words {
    /// Ranks the newest messages of a log. Reads and analyzes the exchanges whose terms are not in memory.
    pub(crate) async fn search(
        &self,
        log: &LogReader,
        part: LogPart<'_>,
        query: &Query,
        pace: &mut Pace,
    ) -> Result<ByWords, Stop> {
        let mut walk = Walk::new(log, part.conversation, part.revision, part.before, part.extent);
        let mut newest_first: Vec<Arc<Entry<ExchangeTerms>>> = Vec::new();
        while let Some(seq) = walk.next() {
            let Some(made) = self.terms_at(seq, &part, &mut walk, pace).await? else { break };
            walk.pass(seq, made.extent);
            newest_first.push(made);
        }

        let mut scoring = Scoring::new(query);
        for made in newest_first.iter().rev() {
            scoring.add(&made.content);
            pace.worked(made.content.documents.iter().map(|document| document.terms.len()).sum()).await?;
        }
        pace.pause().await?;

        let (hits, counted) = scoring.finish(true, part.limit);
        pace.pause().await?;

        let longest = newest_first
            .iter()
            .filter(|made| made.content.documents.len() >= Passage::MAX_OF_EXCHANGE)
            .map(|made| made.content.seq)
            .find(|seq| hits.iter().any(|hit| hit.seq == *seq));

        let within = walk.passed();
        let unsearched = within.start.get() - part.revision.first().get();
        Ok(ByWords { hits, counted, within, unsearched, longest })
    }

    /// Returns the terms of the next older exchange of a walk. Reads and analyzes it if they are not in memory. Returns
    /// `None` if it was pruned in the meantime.
    async fn terms_at(
        &self,
        seq: Seq,
        part: &LogPart<'_>,
        walk: &mut Walk<'_>,
        pace: &mut Pace,
    ) -> Result<Option<Arc<Entry<ExchangeTerms>>>, Stop> {
        let id = part.conversation;
        let incarnation = part.revision.incarnation();
        if let Some(made) = self.terms.get(id, incarnation, seq) {
            return Ok(Some(made));
        }

        let Some(recorded) = walk.read(seq).await? else { return Ok(None) };
        let content = self.analyzed(&recorded, pace).await?;
        let made = Entry { extent: Extent::of(&recorded), memory: content.memory(), content };
        Ok(Some(self.terms.insert(id, incarnation, seq, made)))
    }

    /// Analyzes an exchange, with pauses between its passages.
    async fn analyzed(&self, recorded: &Recorded, pace: &mut Pace) -> Result<ExchangeTerms, Stop> {
        let exchange = &recorded.exchange;
        let mut documents = Vec::new();
        for (message, passages) in exchange.messages.iter().zip(Passages::of(exchange)) {
            pace.worked(message.bytes() / READ).await?;

            for passage in passages {
                let document = Document::of(&self.analyzer, exchange, &passage);
                pace.worked(self.analyzer.work(&passage.text, document.terms.len())).await?;
                documents.push(document);
            }
        }
        Ok(ExchangeTerms { seq: recorded.seq, documents })
    }
}
