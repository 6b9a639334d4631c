//! The search in other conversations.

use tower_chat_history_core::{ConversationId, ListExt as _, Listed, Prefix};

use super::{
    LogSearch,
    ask::{Ask, Others},
    error::Stop,
    joined::Log,
    pause::Pace,
    waiting::{Waiting, side_by_side, until},
    walk::Extent,
    words::LogPart,
};
use crate::recall::search::{Query, Search};

/// The bytes of messages that are searched of all other conversations together. The last exchange of each may exceed
/// its part.
const MAX_BYTES: usize = 512 << 10;

impl LogSearch {
    /// Returns the prefix of the other conversations to search, if there is one.
    pub(super) fn prefix_of(&self, conversation: &ConversationId) -> Option<Prefix> {
        self.listing.as_ref()?.scope.prefix(conversation)
    }

    /// Searches the newest other conversations under a prefix, the newest first. Returns their logs, the oldest first,
    /// and the report.
    pub(super) async fn others(
        &self,
        ask: &Ask<'_>,
        query: &Query,
        vector: Option<&[f32]>,
        under: &Prefix,
        waiting: &Waiting,
        pace: &mut Pace,
    ) -> Result<(Vec<Log>, Others), Stop> {
        let mut report = Others::default();
        let Some(listing) = &self.listing else { return Ok((Vec::new(), report)) };
        let (most, walk) = listing.limits();
        // The conversation itself may be among the newest.
        let mut end = waiting.for_searches();
        let newest = until(listing.store.newest(under, most.saturating_add(1), walk), &mut end).await;
        let Some(Ok(newest)) = newest else {
            report.failed = 1;
            return Ok((Vec::new(), report));
        };
        pace.pause().await?;
        report.is_incomplete = !newest.is_complete;
        report.failed = u32::try_from(newest.damaged).unwrap_or(u32::MAX);
        // A store that lists others by mistake must not widen the search.
        let is_other = |listed: &Listed| listed.id != *ask.conversation && under.contains(&listed.id);
        let others: Vec<Listed> = newest.conversations.into_iter().filter(is_other).take(most).collect();
        let sizes: Vec<usize> = others.iter().map(|other| usize::try_from(other.bytes).unwrap_or(usize::MAX)).collect();
        let searches = others.iter().zip(divided(MAX_BYTES, &sizes)).map(|(listed, bytes)| {
            let mut pace = pace.of_part();
            // A conversation that was erased since it was listed is not shown, also if it exists again.
            let part = LogPart {
                conversation: &listed.id,
                revision: listed.revision,
                before: listed.revision.next(),
                extent: Extent { bytes, ..self.extent() },
                limit: Search::LIMIT,
            };
            async move { self.log(part, query, vector, &mut pace).await }
        });
        let mut logs = Vec::new();
        let found: Vec<Option<Result<Log, Stop>>> = side_by_side(searches, &mut end).await;
        for (listed, found) in others.iter().zip(found).rev() {
            match found {
                Some(Ok(log)) => {
                    report.searched = report.searched.saturating_add(1);
                    report.unsearched = report.unsearched.saturating_add(log.by_words.unsearched);
                    logs.push(Log { conversation: Some(listed.id.clone()), ..log });
                }
                Some(Err(Stop::Gone)) => {}
                Some(Err(Stop::TimedOut(limit))) => return Err(Stop::TimedOut(limit)),
                None | Some(Err(Stop::Failed(_))) => report.failed = report.failed.saturating_add(1),
            }
        }
        Ok((logs, report))
    }
}

/// Divides a total: no part is greater than its demand, and what small demands leave is divided among the others.
fn divided(total: usize, demands: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|at| demands[*at]);
    let mut left = total;
    let mut parts = vec![0; demands.len()];
    for (done, at) in order.into_iter().enumerate() {
        parts[at] = demands[at].min(left / (demands.len() - done));
        left -= parts[at];
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_demands_are_met_and_the_rest_is_divided() {
        assert_eq!(divided(100, &[500, 10, 80, 500]), [30, 10, 30, 30]);
        assert_eq!(divided(100, &[5, 10]), [5, 10]);
        assert_eq!(divided(100, &[]), [0; 0]);
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
