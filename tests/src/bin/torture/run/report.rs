//! The report of a run, in lines of `name: value`.

use std::{fmt, time::Duration};

use super::{ledger::Ledger, verify::Found};
use crate::proxy::Faults;

/// The numbers of a run.
pub(crate) struct Report<'a> {
    pub(crate) store: String,
    pub(crate) seed: u64,
    pub(crate) ledger: &'a Ledger,
    pub(crate) found: &'a Found,
    /// `None` if there was no proxy in front of the server.
    pub(crate) faults: Option<Faults>,
    pub(crate) kills: u64,
    pub(crate) restarts: u64,
    /// The data keys that were added during an encrypted run.
    pub(crate) rotations: u64,
    pub(crate) running: Duration,
    pub(crate) reading: Duration,
}

/// The number of violations to show.
const MAX_SHOWN: usize = 50;

impl Report<'_> {
    pub(crate) fn violations(&self) -> usize {
        self.ledger.violations.len() + self.found.violations.len()
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, seed, ledger, found, .. } = self;
        let [stored, moved, duplicates, recorded] = ledger.ack_sources;
        let failed: u64 = ledger.failed.values().sum();
        let conflicts = ledger.failed.get("save conflict").copied().unwrap_or_default();
        writeln!(f, "store: {store}")?;
        writeln!(f, "seed: {seed}")?;
        writeln!(f, "exchanges tried: {}", ledger.tried())?;
        writeln!(f, "exchanges acknowledged: {}", ledger.acknowledged)?;
        writeln!(f, "exchanges stored: {} ({} KB of messages)", found.stored, found.bytes >> 10)?;
        let [sent_again, left_out] = ledger.reasoning;
        writeln!(f, "exchanges stored in the signing dialect: {}", found.signed)?;
        writeln!(f, "messages whose signed reasoning was sent again: {sent_again}, left out: {left_out}")?;
        writeln!(f, "acknowledged by the append: {}, after another exchange: {moved}", stored + moved)?;
        writeln!(f, "repeated appends answered as duplicates: {duplicates}")?;
        writeln!(f, "repeated calls answered from the log: {recorded}")?;
        writeln!(f, "attempts that failed and were repeated: {failed}")?;
        for (what, times) in &ledger.failed {
            writeln!(f, "  {what}: {times}")?;
        }
        writeln!(f, "conflicts: {conflicts}")?;
        writeln!(f, "results refused, since their turn was superseded: {}", ledger.refused)?;
        writeln!(f, "changes of the writer within a log: {}", found.turns_taken)?;
        writeln!(f, "compactions stored: {}", found.compactions)?;
        let people = &ledger.people;
        writeln!(f, "conversations of people stored: {}", people.stored)?;
        writeln!(f, "conversations of people removed: {}", people.removed)?;
        writeln!(f, "conversations of people left: {}", found.people)?;
        writeln!(f, "removals interrupted by kills: {}", found.interrupted)?;
        writeln!(f, "late calls refused: {}", people.refused)?;
        writeln!(f, "workers killed: {}", self.kills)?;
        writeln!(f, "server restarts: {}", self.restarts)?;
        writeln!(f, "keys replaced: {}", self.rotations)?;
        match self.faults {
            Some(Faults { connections, cuts, lost, delays }) => {
                writeln!(f, "connections: {connections}")?;
                writeln!(f, "requests cut off: {cuts}")?;
                writeln!(f, "answers lost: {lost}")?;
                writeln!(f, "delays: {delays}")?;
            }
            None => writeln!(f, "connections: not cut, there was no proxy")?,
        }
        let seconds = self.running.as_secs_f64().max(0.001);
        let rate = ledger.acknowledged as f64 / seconds;
        writeln!(f, "time: {seconds:.1} s, {rate:.0} exchanges a second")?;
        writeln!(f, "time to read everything: {:.1} s", self.reading.as_secs_f64())?;
        writeln!(f, "violations: {}", self.violations())?;
        for violation in ledger.violations.iter().chain(&found.violations).take(MAX_SHOWN) {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}
