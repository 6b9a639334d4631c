//! The protocol between a worker and its parent: one line for each message of the worker.

use std::{fmt, str::FromStr};

use crate::{
    exchange::{Conversation, Task},
    people::{Owned, State},
};

/// A message of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerMessage {
    /// The worker begins to store the exchange. From now on it may be stored.
    Try(Task),
    /// The worker begins to store these elements for the exchange, in the signing dialect.
    Sent { task: Task, sum: u64 },
    /// The numbers of messages with signed reasoning in a prompt, and of those whose reasoning was left out.
    Reasoning { sent_again: usize, left_out: usize },
    /// The exchange is stored at this position.
    Ack { task: Task, seq: u64, source: AckSource },
    /// An attempt failed, and the worker will try again. The exchange may be stored or not.
    Fail { task: Task, what: String },
    /// The exchange will not be stored: it was refused before the model was called.
    Refused { task: Task, what: String },
    /// A compaction was read from the store. Its positions must not go back from there.
    Cut { conversation: Conversation, profile: usize, at: Positions },
    /// The state of a conversation of a person changes.
    Owned { owned: Owned, state: State },
    /// This many late calls for removed conversations were refused.
    Late { refused: u32 },
    /// A violation that the worker found.
    Violation(String),
}

/// The event by which a worker learned that an exchange is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckSource {
    /// The append stored it.
    Stored,
    /// The append stored it after an exchange that came between a call and its result.
    Moved,
    /// The append answered that it was stored before.
    Duplicate,
    /// The load found it, before the model was called.
    Recorded,
}

/// The positions of a compaction: the start of the window, the start of rounds, the end of cleared results,
/// the end of what the summary covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Positions(pub(crate) [u64; 4]);

impl Positions {
    /// Returns true if any position is before the other's.
    pub(crate) fn goes_back_from(self, other: Self) -> bool {
        self.0.iter().zip(other.0).any(|(now, before)| *now < before)
    }

    /// Returns the later position of each pair.
    pub(crate) fn max(self, other: Self) -> Self {
        let mut max = self.0;
        max.iter_mut().zip(other.0).for_each(|(one, other)| *one = other.max(*one));
        Self(max)
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [window, rounds, cleared, covers] = self.0;
        write!(f, "{window},{rounds},{cleared},{covers}")
    }
}

impl FromStr for Positions {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers: Vec<u64> = text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(drop)?;
        Ok(Self(numbers.try_into().map_err(drop)?))
    }
}

const ACK_SOURCES: [(AckSource, &str); 4] = [
    (AckSource::Stored, "stored"),
    (AckSource::Moved, "moved"),
    (AckSource::Duplicate, "duplicate"),
    (AckSource::Recorded, "recorded"),
];

impl fmt::Display for WorkerMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Try(task) => write!(f, "try {task}"),
            Self::Sent { task, sum } => write!(f, "sent {task} {sum:x}"),
            Self::Reasoning { sent_again, left_out } => write!(f, "reasoning {sent_again} {left_out}"),
            Self::Ack { task, seq, source } => {
                let source = ACK_SOURCES.iter().find(|(known, _)| known == source).map_or("", |(_, word)| word);
                write!(f, "ack {task} {seq} {source}")
            }
            Self::Fail { task, what } => write!(f, "fail {task} {what}"),
            Self::Refused { task, what } => write!(f, "refused {task} {what}"),
            Self::Cut { conversation, profile, at } => write!(f, "cut {conversation} {profile} {at}"),
            Self::Owned { owned, state } => write!(f, "owned {owned} {state}"),
            Self::Late { refused } => write!(f, "late {refused}"),
            Self::Violation(what) => write!(f, "violation {}", what.replace('\n', " ")),
        }
    }
}

impl FromStr for WorkerMessage {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let (word, rest) = line.split_once(' ').ok_or(())?;
        let words: Vec<&str> = rest.split(' ').collect();
        // A task has three words.
        let task = || words.get(..3).ok_or(())?.join(" ").parse();
        let what = || words.get(3..).map(|words| words.join(" ")).ok_or(());
        Ok(match (word, words.as_slice()) {
            ("try", [_, _, _]) => Self::Try(task()?),
            ("sent", [_, _, _, sum]) => Self::Sent { task: task()?, sum: u64::from_str_radix(sum, 16).map_err(drop)? },
            ("reasoning", [sent_again, left_out]) => Self::Reasoning {
                sent_again: sent_again.parse().map_err(drop)?,
                left_out: left_out.parse().map_err(drop)?,
            },
            ("ack", [_, _, _, seq, source]) => {
                let source = ACK_SOURCES.iter().find(|(_, word)| word == source).ok_or(())?.0;
                Self::Ack { task: task()?, seq: seq.parse().map_err(drop)?, source }
            }
            ("fail", _) => Self::Fail { task: task()?, what: what()? },
            ("refused", _) => Self::Refused { task: task()?, what: what()? },
            ("cut", [conversation, profile, at]) => Self::Cut {
                conversation: conversation.parse().map_err(drop)?,
                profile: profile.parse().map_err(drop)?,
                at: at.parse()?,
            },
            ("owned", [owned, state @ ..]) => Self::Owned { owned: owned.parse()?, state: state.join(" ").parse()? },
            ("late", [refused]) => Self::Late { refused: refused.parse().map_err(drop)? },
            ("violation", _) => Self::Violation(rest.to_owned()),
            _ => return Err(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exchange::{Kind, Name},
        people::Person,
    };

    #[test]
    fn messages_round_trip() {
        let task = Task { name: Name { worker: 1, number: 2 }, conversation: 3, kind: Kind::Result };
        for said in [
            WorkerMessage::Try(task),
            WorkerMessage::Sent { task, sum: u64::MAX },
            WorkerMessage::Reasoning { sent_again: 3, left_out: 0 },
            WorkerMessage::Ack { task, seq: 9, source: AckSource::Moved },
            WorkerMessage::Ack { task, seq: 0, source: AckSource::Recorded },
            WorkerMessage::Fail { task, what: "save unavailable".into() },
            WorkerMessage::Refused { task, what: "input".into() },
            WorkerMessage::Cut { conversation: 3, profile: 1, at: Positions([1, 2, 0, 1]) },
            WorkerMessage::Owned {
                owned: Person { worker: 1, number: 2 }.at(3),
                state: State::Kept { life: 1, exchanges: 2 },
            },
            WorkerMessage::Late { refused: 7 },
            WorkerMessage::Violation("all is lost".into()),
        ] {
            assert_eq!(said.to_string().parse(), Ok(said));
        }
        for wrong in [
            "",
            "try",
            "try w1-2 3",
            "sent w1-2 3 plain -",
            "ack w1-2 3 plain 9",
            "ack w1-2 3 plain 9 somehow",
            "cut 3 1 1,2,3",
        ] {
            assert_eq!(wrong.parse::<WorkerMessage>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn a_position_that_goes_back_is_found() {
        let before = Positions([4, 5, 0, 2]);
        assert!(!before.goes_back_from(before) && !Positions([9, 5, 0, 2]).goes_back_from(before));
        assert!(Positions([9, 9, 9, 1]).goes_back_from(before));
        assert_eq!(Positions([1, 9, 0, 0]).max(before), Positions([4, 9, 0, 2]));
    }
}
