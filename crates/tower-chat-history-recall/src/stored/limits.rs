//! The limits of what a search reads, and their division among conversations.

use tower_chat_history_core::Listed;

use super::{read::MAX_INDEX_BYTES, vectors::MAX_VECTORS};

/// The bytes of messages from which a search reads no more that are not indexed.
const MAX_READ: usize = 16 << 20;
/// The most bytes of messages that a search analyzes because they are not indexed: about a tenth of a second for
/// English, and up to a quarter for text that is hard to normalize.
const MAX_ANALYZED: usize = 4 << 20;
/// The same two limits for all other conversations together.
const MAX_READ_OF_OTHERS: usize = 4 << 20;
const MAX_ANALYZED_OF_OTHERS: usize = 1 << 20;
/// The most exchanges that are not indexed and that are read of all other conversations together.
const MAX_EXCHANGES_OF_OTHERS: usize = 512;

/// The most that a search reads of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The bytes of the index, without vectors.
    pub(super) index: usize,
    pub(super) vectors: usize,
    /// The exchanges that are not indexed.
    pub(super) exchanges: usize,
    /// The bytes of these from which no more are read.
    pub(super) read: usize,
    /// The bytes of these that are analyzed.
    pub(super) analyzed: usize,
}

impl Limits {
    /// Returns the limits for the conversation that is searched first.
    pub(crate) const fn of_one(exchanges: usize) -> Self {
        Self { index: MAX_INDEX_BYTES, vectors: MAX_VECTORS, exchanges, read: MAX_READ, analyzed: MAX_ANALYZED }
    }

    /// Divides the limits for all other conversations. Small conversations get what they need, and the others get equal
    /// parts of the rest.
    pub(super) fn of_others(exchanges: usize, others: &[Listed]) -> Vec<Self> {
        let bytes: Vec<usize> = others.iter().map(|listed| size(listed.bytes)).collect();
        let lengths: Vec<usize> = others.iter().map(|listed| size(listed.revision.len())).collect();
        // The index of a conversation is smaller than its messages, except if these are short.
        let indexes: Vec<usize> = bytes.iter().map(|bytes| bytes.saturating_add(64 << 10)).collect();
        let index = divided(MAX_INDEX_BYTES, &indexes);
        let exchanges = divided(exchanges.min(MAX_EXCHANGES_OF_OTHERS), &lengths);
        let (read, analyzed) = (divided(MAX_READ_OF_OTHERS, &bytes), divided(MAX_ANALYZED_OF_OTHERS, &bytes));
        // Each exchange has a passage or more, and long ones have one for about each kilobyte.
        let passages: Vec<usize> = lengths.iter().zip(&bytes).map(|(len, bytes)| len * 2 + bytes / 1024).collect();
        let vectors = divided(MAX_VECTORS, &passages);
        (0..others.len())
            .map(|at| Self {
                index: index[at],
                vectors: vectors[at],
                exchanges: exchanges[at],
                read: read[at],
                analyzed: analyzed[at],
            })
            .collect()
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Divides a total: no part is greater than its demand, and what small demands leave is divided among the others.
fn divided(total: usize, demands: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|at| demands[*at]);
    let (mut left, mut parts) = (total, vec![0; demands.len()]);
    for (done, at) in order.into_iter().enumerate() {
        parts[at] = demands[at].min(left / (demands.len() - done));
        left -= parts[at];
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tower_chat_history_core::{Incarnation, Revision, Timestamp};

    use super::*;

    #[test]
    fn small_demands_are_met_and_the_rest_is_divided() {
        assert_eq!(divided(100, &[500, 10, 80, 500]), [30, 10, 30, 30]);
        assert_eq!(divided(100, &[5, 10]), [5, 10]);
        assert_eq!(divided(100, &[]), [0; 0]);
    }

    #[test]
    fn a_small_conversation_may_compare_all_its_vectors() {
        let listed = |len: u64, bytes: u64| {
            let revision = Revision::new(Incarnation::random(), len);
            let now = Timestamp::now();
            Listed::new("a".parse().unwrap(), revision, now, now, bytes)
        };
        let mut others = vec![listed(4_000, 40 << 20); 19];
        others.push(listed(50, 5_000));
        let vectors: Vec<usize> = Limits::of_others(512, &others).iter().map(|limits| limits.vectors).collect();
        assert!(vectors[19] >= 100 && vectors[..19].iter().all(|vectors| *vectors > 1_000), "{vectors:?}");
        assert!(vectors.iter().sum::<usize>() <= MAX_VECTORS);
    }

    proptest! {
        #[test]
        fn parts_never_exceed_the_total_or_their_demands(
            total in 0..1_000_usize,
            demands in prop::collection::vec(0..400_usize, 0..30),
        ) {
            let parts = divided(total, &demands);
            prop_assert!(parts.iter().sum::<usize>() <= total);
            prop_assert!(parts.iter().zip(&demands).all(|(part, demand)| part <= demand));
            let all: usize = demands.iter().sum();
            prop_assert!(all > total || parts == demands);
        }
    }
}
