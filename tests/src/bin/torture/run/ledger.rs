//! The messages of the workers about each exchange.

use std::collections::{BTreeMap, HashMap};

use super::people::People;
use crate::{
    exchange::{Conversation, Name, Task},
    protocol::{AckSource, Positions, WorkerMessage},
};

/// The state of all exchanges, and the counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    tried: HashMap<Name, Tried>,
    /// The highest acknowledged position, for each worker and conversation.
    furthest: HashMap<(u32, Conversation), u64>,
    /// The highest positions at which each compaction was seen, by conversation and profile.
    pub(crate) cuts: HashMap<(Conversation, usize), Positions>,
    pub(crate) acknowledged: u64,
    pub(crate) refused: u64,
    /// Failed attempts, by kind of failure.
    pub(crate) failed: BTreeMap<String, u64>,
    /// The sums of the elements that were sent for an exchange in the signing dialect, of all attempts.
    sent: HashMap<Name, Vec<u64>>,
    /// The messages with signed reasoning in the prompts of stored exchanges, and those whose reasoning was left out.
    pub(crate) reasoning: [usize; 2],
    /// The conversations of people.
    pub(crate) people: People,
    /// Acknowledgments, by source.
    pub(crate) ack_sources: [u64; 4],
    pub(crate) violations: Vec<String>,
}

/// The state of one exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    pub(crate) task: Task,
    pub(crate) acknowledged: Option<u64>,
    refused: bool,
    /// A position that the worker knew to be taken when it first tried. The exchange must come after it.
    behind: Option<u64>,
    /// The worker that has to store the exchange.
    owner: u32,
}

impl Ledger {
    /// Notes a message of a worker. Returns true if it is the first acknowledgment of an exchange.
    pub(crate) fn note(&mut self, worker: u32, line: &str) -> bool {
        let Ok(said) = line.parse() else {
            self.violations.push(format!("worker {worker} wrote an unknown message: {line:.80}"));
            return false;
        };
        match said {
            WorkerMessage::Try(task) => {
                let behind = self.furthest.get(&(worker, task.conversation)).copied();
                let new = Tried { task, acknowledged: None, refused: false, behind, owner: worker };
                let tried = *self.tried.entry(task.name).or_insert(new);
                if tried.task != task || tried.owner != worker {
                    self.violations
                        .push(format!("worker {worker} tried {}, which belongs to another worker", task.name));
                }
            }
            WorkerMessage::Ack { task, seq, source } => {
                let count = match source {
                    AckSource::Stored => 0,
                    AckSource::Moved => 1,
                    AckSource::Duplicate => 2,
                    AckSource::Recorded => 3,
                };
                self.ack_sources[count] += 1;
                return self.acknowledge(worker, task, seq);
            }
            WorkerMessage::Sent { task, sum } => self.sent.entry(task.name).or_default().push(sum),
            WorkerMessage::Reasoning { sent_again, left_out } => {
                self.reasoning[0] += sent_again;
                self.reasoning[1] += left_out;
            }
            WorkerMessage::Fail { what, .. } => *self.failed.entry(what).or_default() += 1,
            WorkerMessage::Refused { task, .. } => {
                self.refused += 1;
                self.change(task, |tried| tried.refused = true);
            }
            WorkerMessage::Cut { conversation, profile, at } => {
                let cut = self.cuts.entry((conversation, profile)).or_default();
                *cut = cut.max(at);
            }
            WorkerMessage::Owned { owned, state } => self.people.note(owned, state),
            WorkerMessage::Late { refused } => self.people.refused += u64::from(refused),
            WorkerMessage::Violation(what) => self.violations.push(format!("worker {worker}: {what}")),
        }
        false
    }

    fn acknowledge(&mut self, worker: u32, task: Task, seq: u64) -> bool {
        let (mut before, mut behind) = (None, None);
        self.change(task, |tried| (before, behind) = (tried.acknowledged.replace(seq), tried.behind));
        if let Some(behind) = behind.filter(|behind| *behind >= seq) {
            self.violations.push(format!("{} is at {seq}, and was tried when {behind} was taken", task.name));
        }
        let furthest = self.furthest.entry((worker, task.conversation)).or_insert(seq);
        *furthest = seq.max(*furthest);
        match before {
            None => self.acknowledged += 1,
            Some(before) if before == seq => {}
            Some(before) => {
                self.violations.push(format!("{} was acknowledged at {before} and at {seq}", task.name));
            }
        }
        before.is_none()
    }

    fn change(&mut self, task: Task, change: impl FnOnce(&mut Tried)) {
        match self.tried.get_mut(&task.name) {
            Some(tried) if tried.task == task => change(tried),
            _ => self.violations.push(format!("{} was never tried with this task", task.name)),
        }
    }

    /// Hands the unsettled exchanges of a worker that has ended over to another worker, and returns them.
    pub(crate) fn hand_over(&mut self, from: u32, to: u32) -> Vec<Task> {
        let open = self.tried.values_mut().filter(|tried| tried.owner == from && tried.is_open());
        let mut open: Vec<Task> = open
            .map(|tried| {
                tried.owner = to;
                tried.task
            })
            .collect();
        // A call comes before its result.
        open.sort_by_key(|task| task.name);
        open
    }

    /// Returns the state of an exchange.
    pub(crate) fn get(&self, name: Name) -> Option<&Tried> {
        self.tried.get(&name)
    }

    /// Returns true if elements with this sum were sent for the exchange.
    pub(crate) fn was_sent(&self, name: Name, sum: u64) -> bool {
        self.sent.get(&name).is_some_and(|sums| sums.contains(&sum))
    }

    /// Returns the acknowledged exchanges of a conversation, with their positions.
    pub(crate) fn acknowledged_in(&self, conversation: Conversation) -> impl Iterator<Item = (Name, u64)> {
        let tried = self.tried.values().filter(move |tried| tried.task.conversation == conversation);
        tried.filter_map(|tried| tried.acknowledged.map(|seq| (tried.task.name, seq)))
    }

    /// Returns the number of exchanges that were tried.
    pub(crate) fn tried(&self) -> usize {
        self.tried.len()
    }
}

impl Tried {
    fn is_open(&self) -> bool {
        self.acknowledged.is_none() && !self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsettled_exchanges_of_a_killed_worker_are_handed_over() {
        let mut ledger = Ledger::default();
        for line in ["try w1-0 5 call", "try w1-1 5 plain", "try w1-2 6 plain", "refused w1-2 6 plain superseded"] {
            assert!(!ledger.note(1, line));
        }
        assert!(ledger.note(1, "ack w1-1 5 plain 0 stored"));
        let open = ledger.hand_over(1, 2);
        assert_eq!(open.iter().map(ToString::to_string).collect::<Vec<_>>(), ["w1-0 5 call"]);
        assert!(ledger.hand_over(1, 3).is_empty());
        assert!(ledger.note(2, "ack w1-0 5 call 1 recorded") && ledger.hand_over(2, 3).is_empty());
        assert_eq!((ledger.acknowledged, ledger.ack_sources, ledger.violations.len()), (2, [1, 0, 0, 1], 0));
        assert_eq!(ledger.acknowledged_in(5).count(), 2);
    }

    #[test]
    fn contradictions_are_violations() {
        let mut ledger = Ledger::default();
        ledger.note(1, "try w1-0 5 plain");
        assert!(ledger.note(1, "ack w1-0 5 plain 3 stored"));
        for line in
            ["ack w1-0 5 plain 4 recorded", "ack w1-9 5 plain 5 stored", "ack w1-0 6 plain 3 stored", "nonsense"]
        {
            let before = ledger.violations.len();
            ledger.note(1, line);
            assert_eq!(ledger.violations.len(), before + 1, "{line}");
        }
        ledger.note(2, "try w1-0 5 plain");
        assert_eq!(ledger.violations.len(), 5, "an exchange of another worker");
        for line in
            ["try w1-10 5 plain", "ack w1-10 5 plain 6 stored", "try w1-11 5 plain", "ack w1-11 5 plain 2 stored"]
        {
            ledger.note(1, line);
        }
        assert_eq!(ledger.violations.len(), 6, "a later exchange has an earlier position");
    }
}
