//! Blocks of vectors, and the search in them.

use std::{collections::BTreeMap, fmt, ops::Range};

use tower_chat_history_core::Seq;

use super::Vector;
use crate::{
    search::Hit,
    varint::{DecodeError, Reader, Writer},
};

/// The version of the format.
const FORMAT: u8 = 1;

/// The vectors of the passages of a range of exchanges, all of one model.
///
/// The name of the model is not in it: store blocks of different models apart.
#[derive(Clone, PartialEq)]
pub struct VectorBlock {
    dimension: usize,
    entries: Vec<(Seq, u32, Vector)>,
}

impl VectorBlock {
    /// Creates an empty block for vectors of this dimension.
    #[must_use]
    pub const fn new(dimension: usize) -> Self {
        Self { dimension, entries: Vec::new() }
    }

    /// Adds the vector of a passage of a message, given by its place in its exchange. The vectors must be added in
    /// the order of the log. Returns `false`, and adds nothing, if the dimension or the order is wrong.
    pub fn push(&mut self, seq: Seq, message: u32, vector: Vector) -> bool {
        let in_order = self.entries.last().is_none_or(|(last, other, _)| (*last, *other) <= (seq, message));
        let fits = in_order && vector.dimension() == self.dimension;
        if fits {
            self.entries.push((seq, message, vector));
        }
        fits
    }

    /// Returns the number of numbers of each vector.
    #[must_use]
    pub const fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the number of vectors.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if there are no vectors.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the block as bytes: 4 more than its dimension for each vector, and some for its position.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.byte(FORMAT);
        out.number(self.dimension as u64);
        out.number(self.entries.len() as u64);
        let (mut last, mut last_message) = (0, 0);
        for (seq, message, vector) in &self.entries {
            let distance = seq.get() - last;
            out.number(distance);
            out.number(u64::from(if distance == 0 { message - last_message } else { *message }));
            let (scale, values) = vector.parts();
            out.bytes(&scale.to_le_bytes());
            values.iter().for_each(|value| out.byte(value.to_le_bytes()[0]));
            (last, last_message) = (seq.get(), *message);
        }
        out.finish()
    }

    /// Reads a block.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a block, or one of another format.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        reader.version(FORMAT)?;
        let dimension = usize::try_from(reader.number()?).map_err(|_| reader.error("the dimension is too large"))?;
        let mut block = Self::new(dimension);
        let (mut last, mut last_message) = (0_u64, 0_u32);
        for _ in 0..reader.count()? {
            let distance = reader.number()?;
            let base = if distance == 0 { last_message } else { 0 };
            let message = base.checked_add(reader.small()?).ok_or(reader.error("a number is too large"))?;
            let seq = last.checked_add(distance).ok_or(reader.error("a number is too large"))?;
            let scale = reader.take(4)?.try_into().map_or(f32::NAN, f32::from_le_bytes);
            let values = reader.take(dimension)?.iter().map(|byte| i8::from_le_bytes([*byte])).collect();
            let vector = Vector::from_parts(scale, values).ok_or(reader.error("a scale is no number"))?;
            block.entries.push((Seq::new(seq), message, vector));
            (last, last_message) = (seq, message);
        }
        reader.end()?;
        Ok(block)
    }

    /// Returns the messages of a range that are nearest to a vector, nearest first, at most `limit`. The score of a
    /// message is the best cosine of its passages. Of equal scores, the newer message comes first. Blocks of another
    /// dimension are ignored.
    ///
    /// It compares with every vector.
    #[must_use]
    pub fn nearest<'a>(
        blocks: impl IntoIterator<Item = &'a Self>,
        to: &Vector,
        within: &Range<Seq>,
        limit: usize,
    ) -> Vec<Hit> {
        let mut nearest = Nearest::default();
        for block in blocks {
            nearest.add_newest(block, to, within, usize::MAX);
        }
        nearest.hits(limit)
    }
}

/// The best cosine of each message that was compared.
#[derive(Debug, Default)]
pub(crate) struct Nearest(BTreeMap<(Seq, u32), f64>);

impl Nearest {
    /// Compares with the vectors of a block.
    /// Compares with the newest vectors of a block, at most `most`. Returns the number of vectors that were compared.
    pub(crate) fn add_newest(&mut self, block: &VectorBlock, to: &Vector, within: &Range<Seq>, most: usize) -> usize {
        for (seq, message, vector) in block.entries.iter().rev().take(most) {
            let Some(score) = vector.cosine(to).filter(|_| within.contains(seq)) else { continue };
            self.0.entry((*seq, *message)).and_modify(|best| *best = best.max(score)).or_insert(score);
        }
        block.len().min(most)
    }

    /// Returns the nearest messages, at most `limit`.
    pub(crate) fn hits(self, limit: usize) -> Vec<Hit> {
        let hit = |((seq, message), score)| Hit { seq, message, score };
        let mut hits: Vec<Hit> = self.0.into_iter().map(hit).collect();
        hits.sort_by(Hit::better_first);
        hits.truncate(limit);
        hits
    }
}

impl fmt::Debug for VectorBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VectorBlock").field("dimension", &self.dimension).field("vectors", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(entries: &[(u64, u32, [i8; 3])]) -> VectorBlock {
        let (mut block, mut at, mut message) = (VectorBlock::new(3), 0, 0);
        for (seq, step, numbers) in entries {
            message = if *seq == 0 { message + step } else { *step };
            at += seq;
            if let Some(vector) = Vector::new(&numbers.map(f32::from)) {
                assert!(block.push(Seq::new(at), message, vector));
            }
        }
        block
    }

    proptest! {
        #[test]
        fn blocks_are_read_as_written(entries in prop::collection::vec((0..3_u64, 0..3_u32, any::<[i8; 3]>()), 0..20)) {
            let block = block(&entries);
            prop_assert_eq!(VectorBlock::decode(&block.encode()), Ok(block));
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = VectorBlock::decode(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = FORMAT;
            }
            let _ = VectorBlock::decode(&bytes);
        }

        #[test]
        fn the_nearest_come_first(entries in prop::collection::vec((0..3_u64, 0..3_u32, any::<[i8; 3]>()), 0..20), split in 0..20_usize) {
            let block = block(&entries);
            let to = Vector::new(&[1.0, 2.0, -1.0]).unwrap();
            let within = Seq::new(2)..Seq::new(9);
            let hits = VectorBlock::nearest([&block], &to, &within, usize::MAX);
            prop_assert!(hits.is_sorted_by(|a, b| a.score > b.score || a.score == b.score && (a.seq, a.message) > (b.seq, b.message)));
            prop_assert!(hits.iter().all(|hit| within.contains(&hit.seq)));
            let (mut a, mut b) = (VectorBlock::new(3), VectorBlock::new(3));
            for (index, (seq, message, vector)) in block.entries.iter().enumerate() {
                let part = if index < split { &mut a } else { &mut b };
                part.push(*seq, *message, vector.clone());
            }
            prop_assert_eq!(VectorBlock::nearest([&a, &b], &to, &within, usize::MAX), hits);
        }
    }
}
