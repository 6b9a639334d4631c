//! The search in other conversations.

use tower_chat_history_core::{ConversationId, ListExt as _, Listed, Prefix};

use super::{
    StoredIndex,
    ask::{Ask, Others},
    error::Stop,
    joined::Log,
    limits::Limits,
    pause::Pace,
    ranked::{LogPart, Ranked},
    waiting::{Waiting, side_by_side, until},
};
use crate::{
    search::{Query, Search},
    vectors::Vector,
};

impl StoredIndex {
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
        vector: Option<&Vector>,
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
        let limits = Limits::of_others(self.scan_limit, &others);
        let paces: Vec<Pace> = others.iter().map(|_| pace.of_part()).collect();
        let searches = others.iter().zip(limits).zip(paces).map(|((listed, limits), mut pace)| async move {
            let part = LogPart {
                conversation: &listed.id,
                // A conversation that was erased since it was listed is not searched, also if it exists again.
                incarnation: Some(listed.revision.incarnation()),
                before: Some(listed.revision.next()),
                is_due: false,
                limit: Search::LIMIT,
                limits,
            };
            self.ranked(part, query, vector, &mut pace).await
        });
        let mut logs = Vec::new();
        let found: Vec<Option<Result<Ranked, Stop>>> = side_by_side(searches, &mut end).await;
        for (listed, found) in others.iter().zip(found).rev() {
            match found {
                Some(Ok(ranked)) => {
                    report.searched = report.searched.saturating_add(1);
                    report.unsearched = report.unsearched.saturating_add(ranked.unsearched);
                    logs.push(Log { conversation: Some(listed.id.clone()), ranked });
                }
                Some(Err(Stop::Gone)) => {}
                Some(Err(Stop::TimedOut(limit))) => return Err(Stop::TimedOut(limit)),
                None | Some(Err(Stop::Failed(_))) => report.failed = report.failed.saturating_add(1),
            }
        }
        Ok((logs, report))
    }
}
