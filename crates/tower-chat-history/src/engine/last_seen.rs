//! What conversations looked like when this engine last saw them.

use quick_cache::sync::Cache;
use tower_chat_history_core::{ConversationId, Cut, Incarnation, Revision, Seq, Window};

use crate::report::SinceLast;

/// How many conversations are remembered. Of one that is forgotten, nothing is told at its next turn.
const REMEMBERED: usize = 1 << 12;

/// The compactions of conversations, as far as this engine has told of them. The longest unused are forgotten.
pub(super) struct LastSeen(Cache<ConversationId, Sighting>);

/// The positions of a compaction in one life of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    incarnation: Incarnation,
    start: Seq,
    rounds_start: Seq,
    cleared_before: Seq,
    covers_to: Seq,
}

impl Sighting {
    /// Returns the positions of a stored cut, in a log of that revision.
    pub(super) fn of(revision: Revision, cut: Option<&Cut>) -> Self {
        let none = Cut::default();
        let cut = cut.unwrap_or(&none);
        Self {
            incarnation: revision.incarnation(),
            // What was pruned has left the window too.
            start: cut.window_start.max(revision.first()),
            rounds_start: cut.rounds_start,
            cleared_before: cut.cleared_before,
            covers_to: cut.covers_to(),
        }
    }

    pub(super) fn of_window(window: &Window) -> Self {
        Self::of(window.revision, window.compaction.as_ref().map(|compaction| &compaction.cut))
    }

    /// Returns the larger positions of the two. None goes back in an incarnation, so it does not matter which was seen
    /// first.
    fn and(self, other: Self) -> Self {
        Self {
            incarnation: self.incarnation,
            start: self.start.max(other.start),
            rounds_start: self.rounds_start.max(other.rounds_start),
            cleared_before: self.cleared_before.max(other.cleared_before),
            covers_to: self.covers_to.max(other.covers_to),
        }
    }
}

impl Default for LastSeen {
    fn default() -> Self {
        Self(Cache::new(REMEMBERED))
    }
}

impl LastSeen {
    /// Returns what happened since the conversation was last seen, if that is known and something did.
    pub(super) fn since(&self, conversation: &ConversationId, window: &Window) -> Option<SinceLast> {
        let now = Sighting::of_window(window);
        let before = self.0.get(conversation).filter(|before| before.incarnation == now.incarnation)?;
        let moved = |before: Seq, now: Seq| now.get().saturating_sub(before.get());
        let since = SinceLast {
            evicted_exchanges: moved(before.start, now.start),
            rounds_left_out: moved(before.rounds_start, now.rounds_start),
            cleared_exchanges: moved(before.cleared_before, now.cleared_before),
            summarized_exchanges: moved(before.covers_to, now.covers_to),
        };
        (since != SinceLast::default()).then_some(since)
    }

    /// Remembers what was seen or stored, and is told in a report.
    pub(super) fn saw(&self, conversation: &ConversationId, known: Sighting) {
        let before = self.0.get(conversation).filter(|before| before.incarnation == known.incarnation);
        let known = before.map_or(known, |before| before.and(known));
        if before != Some(known) {
            self.0.insert(conversation.clone(), known);
        }
    }
}
