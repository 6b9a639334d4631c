//! The logs that were searched, as one log.

use std::ops::Range;

use tower_chat_history_core::{Citation, ConversationId, Incarnation, Recorded, Seq};

use super::{meaning::Nearest, words::ByWords};
use crate::recall::{
    search::{Hit, Query, Search, Statistics},
    shown::Origin,
};

/// The positions that each log has. No log is so long.
const LOG: u64 = 1 << 40;

/// A log that was searched.
#[derive(Debug)]
pub(super) struct Log {
    /// The conversation, or `None` for the conversation that the search is made for.
    pub(super) conversation: Option<ConversationId>,
    pub(super) incarnation: Incarnation,
    pub(super) by_words: ByWords,
    pub(super) nearest: Nearest,
}

/// The logs that were searched, laid end to end: the other conversations from the oldest to the newest one, then the
/// conversation itself. So messages of all of them are selected and ordered as those of one log are. A position in the
/// joined log is `LOG` times the number of logs before, plus the position in the log itself. If there is only one log,
/// its positions stay the same.
#[derive(Debug)]
pub(super) struct Joined(Vec<Log>);

impl Joined {
    /// Joins logs, which are in the order of the joined log.
    pub(super) const fn new(logs: Vec<Log>) -> Self {
        Self(logs)
    }

    pub(super) fn logs(&self) -> &[Log] {
        &self.0
    }

    /// Returns the position in the joined log of a position in the log with this number.
    pub(super) fn position(number: usize, seq: Seq) -> Seq {
        Seq::new((number as u64).saturating_mul(LOG).saturating_add(seq.get().min(LOG - 1)))
    }

    /// Returns the number of a log, and the position in it, of a position in the joined log.
    pub(super) fn log_of(position: Seq) -> (usize, Seq) {
        let number = usize::try_from(position.get() / LOG).unwrap_or(usize::MAX);
        (number, Seq::new(position.get() % LOG))
    }

    /// Returns the range that is searched.
    pub(super) fn range(&self) -> Range<Seq> {
        match self.0.as_slice() {
            [log] => log.by_words.within.clone(),
            logs => Seq::FIRST..Seq::new((logs.len() as u64).saturating_mul(LOG)),
        }
    }

    /// Returns the messages with words of the query, best first. Each log has its own statistics, so the scores of
    /// several logs are shares of what a message with all words of the query would have there.
    pub(super) fn hits(&self, query: &Query) -> Vec<Hit> {
        let mut hits = Vec::new();
        for (number, log) in self.0.iter().enumerate() {
            let weight = if self.0.len() == 1 { 1.0 } else { log.by_words.counted.weight(query) };
            for hit in &log.by_words.hits {
                hits.push(Hit { seq: Self::position(number, hit.seq), score: hit.score / weight, ..*hit });
            }
        }
        best(hits)
    }

    /// Returns the messages of near meaning, best first. Their scores are cosines, which can be compared.
    pub(super) fn nearest(&self) -> Vec<Hit> {
        let mut hits = Vec::new();
        for (number, log) in self.0.iter().enumerate() {
            for hit in &log.nearest.hits {
                hits.push(Hit { seq: Self::position(number, hit.seq), ..*hit });
            }
        }
        best(hits)
    }

    /// Returns what was counted in each log.
    pub(super) fn counted(&self) -> Vec<&Statistics> {
        self.0.iter().map(|log| &log.by_words.counted).collect()
    }

    /// Returns the best score by words, before scores are made comparable.
    pub(super) fn best(&self) -> f64 {
        self.0.iter().filter_map(|log| log.by_words.hits.first()).map(|hit| hit.score).fold(0.0, f64::max)
    }

    /// Returns the number of vectors that were compared.
    pub(super) fn vectors(&self) -> u32 {
        self.0.iter().fold(0, |sum, log| log.nearest.vectors.saturating_add(sum))
    }

    /// Returns citations with positions in the joined log. Those of conversations that were not searched are left out.
    pub(super) fn joined(&self, citations: &[Citation]) -> Vec<Citation> {
        let mut joined = Vec::new();
        for citation in citations {
            if let Some(number) = self.0.iter().position(|log| log.conversation == citation.conversation) {
                joined.push(Citation::new(Self::position(number, citation.seq), citation.messages.clone()));
            }
        }
        joined
    }

    /// Returns the citation for one with a position in the joined log.
    pub(super) fn separated(&self, Citation { seq, messages, .. }: Citation) -> Citation {
        let (number, seq) = Self::log_of(seq);
        let citation = Citation::new(seq, messages);

        match self.0.get(number).and_then(|log| log.conversation.clone()) {
            Some(conversation) => citation.of(conversation),
            None => citation,
        }
    }

    /// Returns the positions of one log among positions of the joined log, without those that are not searched.
    pub(super) fn positions_of(&self, number: usize, positions: &[Seq]) -> Vec<Seq> {
        let Some(log) = self.0.get(number) else { return Vec::new() };

        let mut of_log = Vec::new();
        for position in positions {
            let (of, seq) = Self::log_of(*position);
            if of == number && log.by_words.within.contains(&seq) {
                of_log.push(seq);
            }
        }
        of_log
    }

    /// Moves exchanges of a log to their positions in the joined log.
    pub(super) fn moved(number: usize, mut exchanges: Vec<Recorded>) -> Vec<Recorded> {
        for recorded in &mut exchanges {
            recorded.seq = Self::position(number, recorded.seq);
        }
        exchanges
    }

    /// Returns the place to show for a position in the joined log.
    pub(super) fn origin(&self, position: Seq) -> Origin {
        let (number, seq) = Self::log_of(position);
        let is_other = self.0.get(number).is_some_and(|log| log.conversation.is_some());
        Origin { other: is_other.then_some(number), seq }
    }

    /// Returns `true` if other conversations were searched.
    pub(super) fn has_others(&self) -> bool {
        self.0.iter().any(|log| log.conversation.is_some())
    }
}

/// Returns the best hits of all logs, best first.
fn best(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by(Hit::better_first);
    hits.truncate(Search::LIMIT);
    hits
}
