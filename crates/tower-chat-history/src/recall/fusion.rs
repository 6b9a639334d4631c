//! Reciprocal rank fusion.

use std::collections::BTreeMap;

/// The constant of reciprocal rank fusion.
const K: f64 = 60.0;

/// Fuses two ranked lists, best first, by reciprocal rank: an item's score is the sum of `1 / (60 + rank)` over the
/// lists that have it. Ranks begin at 1.
///
/// Returns the items with their scores, best first. Of equal scores, the greater item comes first: of positions in a
/// log, the newer one. An item counts once in a list, at its best rank.
///
/// ```
/// use tower_chat_history::recall::fuse;
///
/// let items: Vec<char> = fuse(&['a', 'b', 'c'], &['c', 'b']).into_iter().map(|(item, _)| item).collect();
/// assert_eq!(items, ['c', 'b', 'a']);
/// ```
#[must_use]
pub fn fuse<T: Ord + Copy>(by_words: &[T], by_meaning: &[T]) -> Vec<(T, f64)> {
    let mut scores: BTreeMap<T, [Option<f64>; 2]> = BTreeMap::new();
    for (list, items) in [by_words, by_meaning].into_iter().enumerate() {
        let mut rank = 1.0;
        for &item in items {
            let score = &mut scores.entry(item).or_default()[list];
            if score.is_none() {
                *score = Some(1.0 / (K + rank));
                rank += 1.0;
            }
        }
    }
    let sum = |[words, meaning]: [Option<f64>; 2]| words.unwrap_or_default() + meaning.unwrap_or_default();
    let mut fused: Vec<(T, f64)> = scores.into_iter().map(|(item, scores)| (item, sum(scores))).collect();
    fused.sort_by(|(a, a_score), (b, b_score)| b_score.total_cmp(a_score).then(b.cmp(a)));
    fused
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fusion_keeps_each_item_once_and_an_agreed_order(
            a in prop::collection::vec(0..30_u8, 0..30),
            b in prop::collection::vec(0..30_u8, 0..30),
        ) {
            let fused = fuse(&a, &b);
            let mut items: Vec<u8> = fused.iter().map(|(item, _)| *item).collect();
            items.sort_unstable();
            let mut all = [a.clone(), b.clone()].concat();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(items, all);
            prop_assert!(fused.is_sorted_by(|(a, x), (b, y)| x > y || x == y && a > b));
            let swapped = fuse(&b, &a);
            prop_assert_eq!(&fused, &swapped);
            let alone: Vec<u8> = fuse(&a, &[]).into_iter().map(|(item, _)| item).collect();
            let mut distinct = a;
            let mut seen = std::collections::HashSet::new();
            distinct.retain(|item| seen.insert(*item));
            prop_assert_eq!(alone, distinct);
        }
    }
}
