//! The memory of work that is done already, so that most steps read nothing.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tower_chat_history_core::{ConversationId, Incarnation, Seq};

/// The most conversations that are remembered. One more clears the memory.
const MAX_CONVERSATIONS: usize = 4096;

/// The positions up to which conversations are indexed, and the conversations without records of former analyzers and
/// models. If a position is forgotten, the next step reads the index again.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    indexed: HashMap<ConversationId, (Incarnation, Seq)>,
    cleaned: HashMap<ConversationId, Incarnation>,
}

impl Progress {
    /// Returns `true` if there is nothing to do in this incarnation for a log whose last whole block ends here.
    pub(super) fn has_indexed(&self, id: &ConversationId, incarnation: Incarnation, end: Seq) -> bool {
        self.lock().indexed.get(id).is_some_and(|(of, indexed)| *of == incarnation && *indexed >= end)
    }

    /// Notes that all is done for a log whose last whole block ends here.
    pub(super) fn set_indexed(&self, id: &ConversationId, incarnation: Incarnation, end: Seq) {
        insert(&mut self.lock().indexed, id, (incarnation, end));
    }

    /// Notes that something is to be done.
    pub(super) fn forget_indexed(&self, id: &ConversationId) {
        self.lock().indexed.remove(id);
    }

    /// Returns `true` if the records of former analyzers and models were removed in this incarnation.
    pub(super) fn has_cleaned(&self, id: &ConversationId, incarnation: Incarnation) -> bool {
        self.lock().cleaned.get(id) == Some(&incarnation)
    }

    /// Notes that the records of former analyzers and models were removed.
    pub(super) fn set_cleaned(&self, id: &ConversationId, incarnation: Incarnation) {
        insert(&mut self.lock().cleaned, id, incarnation);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // The maps are whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds an entry to a map of conversations, which is cleared before if it is full.
pub(super) fn insert<T>(map: &mut HashMap<ConversationId, T>, id: &ConversationId, value: T) {
    if map.len() >= MAX_CONVERSATIONS && !map.contains_key(id) {
        map.clear();
    }
    map.insert(id.clone(), value);
}
