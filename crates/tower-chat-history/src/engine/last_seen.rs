//! The compactions that this engine last loaded or stored, by conversation.

use quick_cache::sync::Cache;
use tower_chat_history_core::{ConversationId, Cut, Incarnation, Positions, Prefix, Revision, Seq};

use crate::{context::plan::LoadedWindow, report::SinceLast};

/// The largest number of conversations whose compactions are remembered. The next turn of a conversation that was
/// evicted reports no changes.
const MAX_CONVERSATIONS: usize = 1 << 12;

/// The positions of the compactions that turns of this engine have reported, by conversation. The least recently used
/// are evicted.
pub(super) struct LastSeen(Cache<ConversationId, CompactionPositions>);

/// The positions of a compaction in one incarnation of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompactionPositions {
    incarnation: Incarnation,
    positions: Positions,
}

impl CompactionPositions {
    /// Returns the positions of a stored cut in a log with this revision.
    pub(super) fn of(revision: Revision, cut: Option<&Cut>) -> Self {
        let mut positions = cut.map(|cut| cut.positions).unwrap_or_default();
        // Pruned exchanges have left the window too.
        positions.window_start = positions.window_start.max(revision.first());
        Self { incarnation: revision.incarnation(), positions }
    }

    pub(super) fn of_window(window: &LoadedWindow) -> Self {
        Self::of(window.revision, window.cut())
    }

    /// Returns the start of the window.
    pub(super) const fn start(self) -> Seq {
        self.positions.window_start
    }

    /// Returns the changes since the conversation was seen with these positions. Returns `None` if there are none, or
    /// if that was another incarnation.
    pub(super) fn since(self, before: Self) -> Option<SinceLast> {
        if before.incarnation != self.incarnation {
            return None;
        }
        let before = before.positions;
        let now = self.positions;
        let moved = |before: Seq, now: Seq| now.get().saturating_sub(before.get());
        let since = SinceLast {
            evicted_exchanges: moved(before.window_start, now.window_start),
            rounds_left_out: moved(before.rounds_start, now.rounds_start),
            cleared_exchanges: moved(before.cleared_before, now.cleared_before),
            summarized_exchanges: moved(before.covers_to, now.covers_to),
        };
        (since != SinceLast::default()).then_some(since)
    }

    /// Returns the maximum of each position. Within an incarnation, positions never decrease, so it does not matter
    /// which of the two values is newer.
    fn max(self, other: Self) -> Self {
        Self { incarnation: self.incarnation, positions: self.positions.max(other.positions) }
    }
}

impl Default for LastSeen {
    fn default() -> Self {
        Self(Cache::new(MAX_CONVERSATIONS))
    }
}

impl LastSeen {
    /// Returns the positions at which the conversation was last seen. Returns `None` if it is not remembered.
    pub(super) fn get(&self, conversation: &ConversationId) -> Option<CompactionPositions> {
        self.0.get(conversation)
    }

    /// Forgets the conversations under the prefix.
    pub(super) fn forget(&self, under: &Prefix) {
        self.0.retain(|conversation, _| !under.contains(conversation));
    }

    /// Remembers positions that were loaded or stored and are part of a report.
    pub(super) fn update(&self, conversation: &ConversationId, seen: CompactionPositions) {
        let before = self.0.get(conversation).filter(|before| before.incarnation == seen.incarnation);
        let latest = before.map_or(seen, |before| before.max(seen));
        if before != Some(latest) {
            self.0.insert(conversation.clone(), latest);
        }
    }
}
