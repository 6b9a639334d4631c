//! The log of a conversation as the test expects it.

use std::{collections::BTreeSet, fmt};

use tower_chat_history::{
    ConversationId, ExchangeId, HistoryStoreExt as _, Message, Role,
    store::{Cuts, Load, Loaded, Profile, Recalled, Recorded, Seq},
};

use super::{
    super::{
        notes::Notes,
        outcome::{Checked, Violation, holds},
        rules::{marks, open_calls, shorten},
    },
    base::Base,
};

/// The positions of a compaction that the test follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Positions {
    pub(super) version: u64,
    pub(super) window_start: u64,
    pub(super) rounds_start: u64,
    pub(super) cleared_before: u64,
    pub(super) covers_to: u64,
    pub(super) recalled_from: u64,
}

/// An exchange as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) id: ExchangeId,
    pub(super) messages: Vec<Message>,
    pub(super) incomplete: bool,
    /// True if the store has it as the opening of a turn.
    pub(super) opens: bool,
    /// The messages that were recalled for it.
    pub(super) recalled: Option<Recalled>,
}

impl Entry {
    pub(super) fn of(recorded: &Recorded) -> Self {
        let exchange = &recorded.exchange;
        Self {
            seq: recorded.seq.get(),
            id: exchange.id.clone(),
            messages: exchange.messages.clone(),
            incomplete: exchange.incomplete,
            opens: exchange.opens_turn(),
            recalled: exchange.recalled.clone(),
        }
    }

    /// Returns true if it opens a turn with a question.
    pub(super) fn asks(&self) -> bool {
        self.opens && self.messages.iter().any(|message| *message.role() == Role::User)
    }

    /// Returns the facts that a summary of it must mention.
    fn facts(&self) -> BTreeSet<u64> {
        let said = self.messages.iter().filter(|message| matches!(message.role(), Role::User | Role::Assistant));
        said.flat_map(|message| marks(&message.text())).collect()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opens = if self.opens { "" } else { " continues" };
        let incomplete = if self.incomplete { " incomplete" } else { "" };
        let said: Vec<String> = self.messages.iter().map(shorten).collect();
        write!(f, "{}{opens}{incomplete} [{}]", self.seq, said.join(", "))
    }
}

/// The expected content of the store, according to the reports of the engine.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) id: ConversationId,
    pub(super) entries: Vec<Entry>,
    /// Pruned exchanges. A summary may mention their facts.
    pruned: Vec<Entry>,
    /// Facts that a summary may omit: they were pruned before it was made, or belong to an interrupted reply.
    excused: BTreeSet<u64>,
    /// The newest positions that were seen, for each profile.
    seen: Vec<Positions>,
}

impl Log {
    pub(super) fn new(id: ConversationId, profiles: usize) -> Self {
        let seen = vec![Positions::default(); profiles];
        Self { id, entries: Vec::new(), pruned: Vec::new(), excused: BTreeSet::new(), seen }
    }

    /// Returns the exchange at a position, also if it was pruned.
    pub(super) fn known(&self, seq: Seq) -> Option<&Entry> {
        self.pruned.iter().chain(&self.entries).find(|entry| entry.seq == seq.get())
    }

    /// Returns true if the log has an exchange with this id.
    pub(super) fn has(&self, id: &ExchangeId) -> bool {
        self.entries.iter().any(|entry| entry.id == *id)
    }

    pub(super) fn next(&self) -> u64 {
        self.entries.last().map_or(0, |last| last.seq + 1)
    }

    /// Returns the calls that wait for results, without counting interrupted replies. Returns `None` where
    /// the documentation does not define them.
    pub(super) fn open(&self) -> Option<Vec<String>> {
        let whole = self.entries.iter().rposition(|entry| !entry.incomplete).map_or(0, |last| last + 1);
        // After an interrupted question about open calls, it is not defined whether the question superseded
        // them.
        if self.entries[whole..].iter().any(|entry| entry.opens) {
            return None;
        }
        open_calls(self.entries[..whole].iter().flat_map(|entry| &entry.messages))
    }

    /// Returns the messages of a caller that keeps a list: all but those of interrupted replies, from an
    /// exchange on.
    pub(super) fn transcript(&self, from: usize) -> Vec<Message> {
        let whole = self.entries.iter().skip(from).filter(|entry| !entry.incomplete);
        whole.flat_map(|entry| entry.messages.clone()).collect()
    }

    /// Returns the end of what the stored summary of a profile covers.
    pub(super) fn covers_to(&self, profile: usize) -> u64 {
        self.seen[profile].covers_to
    }

    pub(super) fn push(&mut self, entry: Entry) {
        if entry.incomplete {
            self.excused.extend(entry.facts());
        }
        self.entries.push(entry);
    }

    /// Begins another incarnation.
    pub(super) fn forget(&mut self) {
        *self = Self { excused: std::mem::take(&mut self.excused), ..Self::new(self.id.clone(), self.seen.len()) };
    }

    /// Allows summaries to omit these facts. They occur twice in the log, because their call was repeated.
    pub(super) fn excuse(&mut self, facts: BTreeSet<u64>) {
        self.excused.extend(facts);
    }

    /// Removes the exchanges from a position on.
    pub(super) fn truncate(&mut self, from: u64) {
        self.entries.retain(|entry| entry.seq < from);
        self.seen = vec![Positions::default(); self.seen.len()];
        // Facts of pruned exchanges are only in summaries, which a truncation can remove.
        self.excused.extend(self.pruned.iter().flat_map(Entry::facts));
        if self.entries.is_empty() {
            self.forget();
        }
    }

    /// Forgets the recalled messages that cite exchanges before this position or other conversations, as an erasure
    /// does.
    pub(super) fn erase_recalled(&mut self, first: Seq) {
        let first = i64::try_from(first.get()).unwrap_or(i64::MAX);
        for entry in &mut self.entries {
            entry.recalled.take_if(|recalled| recalled.least_cited().is_some_and(|cited| cited < first));
        }
    }

    /// Returns the log of a copy of everything. It has the compaction of one profile.
    pub(super) fn forked(&self, copy: ConversationId) -> Self {
        let mut forked = Self {
            id: copy,
            entries: self.entries.clone(),
            pruned: self.pruned.clone(),
            excused: self.excused.clone(),
            seen: vec![Positions::default(); self.seen.len()],
        };
        // Facts of pruned exchanges are only in summaries, and those of other profiles are not copied.
        forked.excused.extend(self.pruned.iter().flat_map(Entry::facts));
        let first = self.entries.first().map_or(0, |first| first.seq);
        forked.erase_recalled(Seq::new(first));
        forked
    }

    /// Compares this log with that of the store, whose beginning may have been pruned.
    pub(super) async fn check(&mut self, base: &Base, may_be_pruned: bool) -> Checked {
        let store = base.store();
        let stored = store.conversation(&self.id).exchanges().await;
        let stored = stored.map_err(|error| Violation::new("a log can be read", error.to_string()))?;
        let stored: Vec<Entry> = stored.iter().map(Entry::of).collect();
        let first = stored.first().map_or_else(|| self.next(), |entry| entry.seq);
        let removed = self.entries.iter().take_while(|entry| entry.seq < first).count();
        holds(may_be_pruned || removed == 0, "nothing is lost", || format!("{removed} exchanges are missing"))?;
        holds(self.entries.is_empty() || removed < self.entries.len(), "the newest turn stays", String::new)?;
        for entry in self.entries.drain(..removed) {
            if self.seen.iter().any(|positions| positions.covers_to <= entry.seq) {
                self.excused.extend(entry.facts());
            }
            self.pruned.push(entry);
        }
        if self.entries != stored {
            let shown = |entries: &[Entry]| {
                let each = entries.iter().map(|entry| {
                    let Entry { seq, id, messages, recalled, .. } = entry;
                    format!("{seq} {id} of {}, recalled {recalled:?}", messages.len())
                });
                each.collect::<Vec<_>>().join(", ")
            };
            let seen = format!("expected [{}], stored [{}]", shown(&self.entries), shown(&stored));
            return Err(Violation::new("each exchange is stored once, and nothing else", seen));
        }
        Ok(())
    }

    /// Checks and returns the compaction of a profile: its positions never go back, and its summary mentions
    /// what it covers.
    pub(super) async fn positions(
        &mut self,
        base: &Base,
        number: usize,
        profile: &Profile,
        notes: &Notes,
    ) -> Checked<Positions> {
        let loaded = base.store().load(&self.id, Load::new().profile(profile.clone())).await;
        let loaded = loaded.map_err(|error| Violation::new("a window can be loaded", error.to_string()))?;
        let Loaded::Window(window) = loaded else { return Ok(Positions::default()) };
        let Some(compaction) = window.compaction else { return Ok(Positions::default()) };
        let cuts = Cuts::read(&compaction);
        let cut = &cuts.map_err(|error| Violation::new("a compaction can be read", error.to_string()))?.cut;
        let now = Positions {
            version: compaction.version.get(),
            window_start: cut.window_start.get(),
            rounds_start: cut.rounds_start.get(),
            cleared_before: cut.cleared_before.get(),
            covers_to: cut.covers_to.get(),
            recalled_from: cut.recalled_from.get(),
        };
        let before = &self.seen[number];
        let forward = now.window_start >= before.window_start
            && now.rounds_start >= before.rounds_start
            && now.cleared_before >= before.cleared_before
            && now.covers_to >= before.covers_to
            && now.recalled_from >= before.recalled_from;
        holds(forward, "positions only go forward", || format!("from {before:?} to {now:?}"))?;
        let within = now.window_start < self.next().max(1) && now.covers_to <= now.window_start;
        holds(within, "a window begins within the log, at or after what is summarized", || format!("{now:?}"))?;
        if let Some(summary) = &cut.summary {
            self.check_summary(&summary.text, now.covers_to, notes)?;
        }
        self.seen[number] = now.clone();
        Ok(now)
    }

    fn check_summary(&self, text: &str, covers_to: u64, notes: &Notes) -> Checked {
        let summarized =
            notes.facts(text).ok_or_else(|| Violation::new("a stored summary was made by the summarizer", text))?;
        let covered = self.pruned.iter().chain(&self.entries).filter(|entry| entry.seq < covers_to);
        let facts: BTreeSet<u64> = covered.flat_map(Entry::facts).collect();
        let lost: Vec<&u64> =
            facts.iter().filter(|fact| !summarized.contains(fact) && !self.excused.contains(fact)).collect();
        holds(lost.is_empty(), "a summary loses no fact", || {
            format!("{lost:?} are before {covers_to} and not in the summary")
        })?;
        let foreign: Vec<&u64> =
            summarized.iter().filter(|fact| !facts.contains(fact) && !self.excused.contains(fact)).collect();
        holds(foreign.is_empty(), "a summary has only facts that it covers", || {
            format!("{foreign:?} are not before {covers_to}")
        })
    }
}
