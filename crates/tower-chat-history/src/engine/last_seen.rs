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

    /// Returns the changes since the conversation was seen with these positions. Returns `None` if there are none, or
    /// if that was another incarnation.
    fn since(self, before: Self) -> Option<SinceLast> {
        if before.incarnation != self.incarnation {
            return None;
        }
        let before = before.positions;
        let now = self.positions;
        let since = SinceLast {
            evicted_exchanges: distance(before.window_start, now.window_start),
            rounds_left_out: distance(before.rounds_start, now.rounds_start),
            cleared_exchanges: distance(before.cleared_before, now.cleared_before),
            summarized_exchanges: distance(before.covers_to, now.covers_to),
        };
        (since != SinceLast::default()).then_some(since)
    }

    /// Returns the maximum of each position. Within an incarnation, positions never decrease, so it does not matter
    /// which of the two values is newer.
    fn max(self, other: Self) -> Self {
        Self { incarnation: self.incarnation, positions: self.positions.max(other.positions) }
    }
}

/// Returns by how many exchanges a position moved.
fn distance(before: Seq, now: Seq) -> u64 {
    now.get().saturating_sub(before.get())
}

/// The positions of a conversation's compaction, as a call sees them one after another.
#[derive(Clone, Copy)]
pub(super) struct Sighting {
    /// Where the conversation was last seen before the call.
    before: Option<CompactionPositions>,
    /// Where the call found it.
    loaded: Option<CompactionPositions>,
    /// Where it is stored now. A summary that the call waited for has moved it.
    pub(super) now: Option<CompactionPositions>,
}

/// The changes of the conversation's compaction that a call finds.
pub(super) struct Changes {
    /// The changes since the conversation's previous turn in this engine.
    pub(super) since_last: Option<SinceLast>,
    /// The start of the window by the stored compaction.
    pub(super) window_start: Seq,
    /// True if that start moved after the conversation's previous turn in this engine.
    pub(super) window_moved: bool,
}

impl Default for LastSeen {
    fn default() -> Self {
        Self(Cache::new(MAX_CONVERSATIONS))
    }
}

impl LastSeen {
    /// Begins a sighting of a conversation that a call has loaded. It has no window if it does not exist, or could not
    /// be loaded.
    pub(super) fn sighting(&self, conversation: &ConversationId, window: Option<&LoadedWindow>) -> Sighting {
        let loaded = window.map(CompactionPositions::of_window);
        Sighting { before: self.0.get(conversation), loaded, now: loaded }
    }

    /// Returns the changes that a call has seen, and remembers the last positions.
    pub(super) fn changes(&self, conversation: &ConversationId, seen: &Sighting) -> Changes {
        let Sighting { before, loaded, now } = *seen;
        let since_last = loaded.zip(before).and_then(|(loaded, before)| loaded.since(before));
        let mut changes = Changes { since_last, window_start: Seq::FIRST, window_moved: false };
        if let Some(now) = now {
            // Nearly all calls find the positions unchanged, which needs no second lookup.
            if before != Some(now) {
                self.update(conversation, now);
            }
            changes.window_start = now.positions.window_start;
            // The window was moved by another process, by a summary in the background, or by this call's own summary.
            changes.window_moved = since_last.is_some_and(|since| since.evicted_exchanges > 0)
                || loaded.is_some_and(|loaded| loaded.positions.window_start < now.positions.window_start);
        }
        changes
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
