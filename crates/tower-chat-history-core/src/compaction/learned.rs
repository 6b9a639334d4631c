//! The facts that a conversation has learned about its readers.

use serde::{Deserialize, Serialize};

use crate::{compat::Compat, digest::Digest, json::AtMost, seq::Seq};

/// The facts that a conversation has learned about one of its readers from refusals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LearnedReader {
    /// The key of the reader: a digest of its names.
    pub reader: Digest,
    /// The position of the log's next exchange when it was learned.
    pub at: Seq,
    /// The description of what the reader accepts.
    #[serde(default, skip_serializing_if = "Compat::is_default")]
    pub compat: Compat,
    /// The size that the reader accepts, of prompt and reply together, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u32>,
}

impl LearnedReader {
    /// Creates a reader of which nothing was learned yet.
    #[must_use]
    pub fn new(reader: Digest, at: Seq) -> Self {
        Self { reader, at, compat: Compat::default(), context_tokens: None }
    }
}

/// The facts that a conversation has learned about its readers from refusals, for the newest
/// [`MAX_READERS`](Self::MAX_READERS) of them.
///
/// It's kept in the conversation's compaction and never shared with other conversations, because a refusal can repeat
/// what a user wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "AtMost<LearnedReader, { LearnedReaders::MAX_READERS }>")]
pub struct LearnedReaders(Vec<LearnedReader>);

impl LearnedReaders {
    /// The largest number of readers.
    pub const MAX_READERS: usize = 8;

    /// The number of exchanges after which something that was learned is forgotten. A server may have changed by then,
    /// or it may have said something wrong.
    pub const EXPIRE_AFTER: u64 = 256;

    /// Returns what was learned about the reader with this key. `next` is the position of the log's next exchange.
    #[must_use]
    pub fn get(&self, reader: Digest, next: Seq) -> Option<&LearnedReader> {
        let known = self.0.iter().find(|learned| learned.reader == reader)?;
        Some(known).filter(|known| next.get().saturating_sub(known.at.get()) < Self::EXPIRE_AFTER)
    }

    /// Stores what was learned about a reader, in place of what was known about it. If there are too many readers, the
    /// one whose entry is the oldest is forgotten.
    pub fn learn(&mut self, newer: LearnedReader) {
        self.0.retain(|learned| learned.reader != newer.reader);
        if self.0.len() == Self::MAX_READERS {
            self.0.remove(0);
        }
        self.0.push(newer);
    }

    /// Adds what another list has. Its entries are the newer ones.
    pub(crate) fn merge(&mut self, newer: &Self) {
        for learned in &newer.0 {
            self.learn(learned.clone());
        }
    }

    /// Returns `true` if nothing was learned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<AtMost<LearnedReader, { LearnedReaders::MAX_READERS }>> for LearnedReaders {
    fn from(stored: AtMost<LearnedReader, { LearnedReaders::MAX_READERS }>) -> Self {
        Self(stored.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(number: u8, tokens: u32) -> LearnedReader {
        let context_tokens = Some(tokens);
        LearnedReader { context_tokens, ..LearnedReader::new(Digest::of(&[number]), Seq::new(7)) }
    }

    #[test]
    fn what_was_learned_last_about_a_reader_counts() {
        let mut learned = LearnedReaders::default();
        learned.learn(reader(1, 8_192));
        learned.learn(reader(1, 4_096));
        assert_eq!(learned.get(reader(1, 0).reader, Seq::new(8)), Some(&reader(1, 4_096)));
        assert_eq!(learned.get(reader(2, 0).reader, Seq::new(8)), None);
    }

    #[test]
    fn the_oldest_reader_is_forgotten_if_there_are_too_many() {
        let mut learned = LearnedReaders::default();
        for number in 0..=8 {
            learned.learn(reader(number, 1));
        }
        assert_eq!(learned.get(reader(0, 0).reader, Seq::new(8)), None);
        assert!(learned.get(reader(8, 0).reader, Seq::new(8)).is_some());
        let json = serde_json::to_string(&learned).unwrap();
        assert_eq!(serde_json::from_str::<LearnedReaders>(&json).unwrap(), learned);
    }

    #[test]
    fn what_was_learned_is_forgotten_after_256_exchanges() {
        let mut learned = LearnedReaders::default();
        learned.learn(reader(1, 1));
        assert!(learned.get(reader(1, 1).reader, Seq::new(7 + 255)).is_some());
        assert_eq!(learned.get(reader(1, 1).reader, Seq::new(7 + 256)), None);
    }
}
