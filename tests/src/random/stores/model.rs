//! A model of the contract of stores: the answer to each call, written from the documentation of the traits.

use std::{collections::BTreeMap, sync::Arc};

use tower_chat_history::{
    Exchange,
    store::{
        Compact, Compaction, CompactionVersion, Derived, Expect, Incarnation, Labels, LabelsVersion, Load, LoadLimit,
        Profile, PruneTo, Revision, Seq, Timestamp,
    },
};

/// One incarnation of a conversation.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) incarnation: Incarnation,
    pub(super) first: u64,
    pub(super) entries: Vec<Exchange>,
    pub(super) compactions: BTreeMap<Profile, Compaction>,
    pub(super) labels: Labels,
    pub(super) labels_version: LabelsVersion,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

/// The outcome of a compaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Compacted {
    Stored,
    Kept,
}

/// The kind of the error with which a call is refused.
pub(super) type Refused = &'static str;

/// The answer to a load.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Absent,
    Unchanged,
    Recorded(u64),
    /// The position of the first exchange that was added.
    Added(u64),
    /// The first position, and true if the limit cut something off.
    Window(u64, bool),
}

impl Life {
    /// Creates an empty log that begins at a position.
    pub(super) fn new(incarnation: Incarnation, first: Seq, created_at: Timestamp) -> Self {
        Self {
            incarnation,
            first: first.get(),
            entries: Vec::new(),
            compactions: BTreeMap::new(),
            labels: Labels::default(),
            labels_version: LabelsVersion::NONE,
            created_at,
            updated_at: created_at,
        }
    }

    /// Returns the size of the log, in bytes of message JSON.
    pub(super) fn bytes(&self) -> u64 {
        self.entries.iter().map(|exchange| exchange.bytes() as u64).sum()
    }

    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(super) fn revision(&self) -> Revision {
        Revision::new(self.incarnation, self.next()).beginning_at(Seq::new(self.first))
    }

    pub(super) fn at(&self, seq: u64) -> Option<&Exchange> {
        self.entries.get(usize::try_from(seq.checked_sub(self.first)?).ok()?)
    }

    pub(super) fn version(&self, profile: &Profile) -> CompactionVersion {
        self.compactions.get(profile).map_or(CompactionVersion::NONE, |stored| stored.version)
    }

    /// Returns the position of the exchange with an id.
    pub(super) fn find(&self, id: &tower_chat_history::ExchangeId) -> Option<u64> {
        self.entries.iter().position(|exchange| exchange.id == *id).map(|at| self.first + at as u64)
    }

    /// Returns the outcome of a compaction.
    pub(super) fn compact(&self, compact: &Compact) -> Compacted {
        if compact.replaces == self.version(&compact.profile) { Compacted::Stored } else { Compacted::Kept }
    }

    /// Returns the positions before `end` at which a window may start. Where the log was pruned, any position may be
    /// one.
    pub(super) fn starts(&self, end: u64) -> Vec<Seq> {
        let openings = (self.first..end).filter(|seq| self.at(*seq).is_some_and(Exchange::opens_turn));
        [0].into_iter().chain(openings).map(Seq::new).collect()
    }

    /// Returns the answer to a load.
    pub(super) fn load(&self, load: &Load) -> Answer {
        if let Some(seq) = load.exchange.as_ref().and_then(|id| self.find(id)) {
            return Answer::Recorded(seq);
        }
        if let Some(known) = &load.known {
            let newest = known.newest.is_none() || known.newest.as_ref() == self.entries.last().map(|last| &last.id);
            if known.revision == self.revision() && known.compaction == self.version(&load.profile) && newest {
                return Answer::Unchanged;
            }
        }
        let start = self.compactions.get(&load.profile).map_or(0, |stored| stored.window_start.get());
        let start = start.max(self.first);
        let (from, truncated) = self.limited(start, load.limit);
        Answer::Window(from, truncated)
    }

    /// Returns the position from which on a load may return the exchanges as added.
    pub(super) fn added(&self, load: &Load) -> Option<u64> {
        let known = load.known.as_ref().filter(|_| load.or_added)?;
        let (seq, newest) = known.end_within(self.revision(), self.version(&load.profile))?;
        let from = seq.next().get();
        let added = || (from..self.next()).filter_map(|seq| self.at(seq));
        let messages = added().map(Exchange::counted_messages).sum::<usize>();
        let media = added().map(Exchange::media_bytes).sum::<usize>();
        let text = added().map(Exchange::bytes).sum::<usize>() - media;
        let fits = messages <= load.limit.messages() && text <= load.limit.bytes() && media <= load.limit.media_bytes();
        (fits && self.at(seq.get())?.id == *newest).then_some(from)
    }

    /// Returns where the newest turns begin that fit a limit. An exchange counts as at least one message.
    fn limited(&self, start: u64, limit: LoadLimit) -> (u64, bool) {
        let (mut from, mut messages, mut text, mut media) = (None, 0, 0, 0);
        for seq in (start..self.next()).rev() {
            let Some(exchange) = self.at(seq) else { break };
            messages += exchange.messages.len().max(1);
            for message in &exchange.messages {
                media += message.media_bytes();
                text += message.bytes() - message.media_bytes();
            }
            let over = messages > limit.messages() || text > limit.bytes() || media > limit.media_bytes();
            if let (true, Some(from)) = (over, from) {
                return (from, true);
            }
            if exchange.continues.is_none() {
                from = Some(seq);
            }
        }
        (start, false)
    }

    /// Returns where the log begins after it is pruned.
    pub(super) fn pruned(&self, keep: PruneTo) -> u64 {
        let openings = (self.first..self.next()).filter(|seq| self.at(*seq).is_some_and(Exchange::opens_turn));
        let openings: Vec<u64> = openings.collect();
        let Some(newest) = openings.last().copied() else { return self.first };
        let messages =
            |from: u64| (from..self.next()).filter_map(|seq| self.at(seq)).map(|one| one.messages.len()).sum::<usize>();
        match keep {
            PruneTo::From(from) => openings.iter().copied().rfind(|seq| *seq <= from.get()).unwrap_or(self.first),
            PruneTo::LastTurns(turns) => {
                let at = openings.len().saturating_sub(turns.max(1));
                openings.get(at).copied().unwrap_or(newest)
            }
            PruneTo::LastMessages(most) => {
                openings.iter().copied().find(|seq| messages(*seq) <= most).unwrap_or(newest)
            }
            _ => self.first,
        }
    }

    /// Removes the exchanges before a position.
    pub(super) fn prune(&mut self, from: u64) {
        let removed = usize::try_from(from - self.first).unwrap_or_default();
        self.entries.drain(..removed);
        self.first = from;
    }

    /// Removes data derived from the removed exchanges, if it is to be erased.
    pub(super) fn forget_traces(&mut self, traces: Derived, incarnation: Incarnation) {
        if traces == Derived::Erase && self.first > 0 {
            self.incarnation = incarnation;
            for stored in self.compactions.values_mut() {
                let start = if stored.derived.is_some() { Seq::new(self.first) } else { stored.window_start };
                *stored = Compaction::new(stored.version.next(), start, Arc::clone(&stored.state), None);
            }
        }
    }

    /// Removes the exchanges from a position on, and all compactions but the one to keep.
    pub(super) fn truncate(&mut self, from: u64, incarnation: Incarnation, keep: Option<&Compact>) {
        self.entries.truncate(usize::try_from(from.saturating_sub(self.first)).unwrap_or_default());
        self.incarnation = incarnation;
        let keep = keep.filter(|keep| keep.replaces == self.version(&keep.profile));
        let kept = keep.map(|keep| (keep.profile.clone(), keep.stored_as(keep.replaces.next())));
        self.compactions = kept.into_iter().collect();
    }
}

/// Checks a log against an expectation.
pub(super) fn expected(expect: Expect, life: Option<&Life>) -> Result<(), Refused> {
    match (expect, life) {
        (Expect::AnyOrCreate, _) | (Expect::Absent, None) => Ok(()),
        (Expect::AnyIn(incarnation), Some(life)) if life.incarnation == incarnation => Ok(()),
        (Expect::AnyIn(_) | Expect::Exactly(_), None) | (Expect::AnyIn(_), Some(_)) => Err("gone"),
        (Expect::Exactly(revision), Some(life)) if revision.incarnation() != life.incarnation => Err("gone"),
        (Expect::Exactly(revision), Some(life)) if revision.version() == life.next() => Ok(()),
        (Expect::Absent | Expect::Exactly(_), Some(_)) => Err("conflict"),
    }
}
