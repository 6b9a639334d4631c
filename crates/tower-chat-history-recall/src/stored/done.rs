//! The memory of what is indexed already, so that most steps read nothing.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tower_chat_history_core::{ConversationId, Incarnation, Seq};

/// The most conversations that are remembered. One more clears the memory.
const MAX_CONVERSATIONS: usize = 4096;

/// The positions up to which conversations are indexed, and segments that a search found damaged. Forgetting the former
/// costs reads. Forgetting the latter lasts until the next search.
#[derive(Debug, Default)]
pub(super) struct Done(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    done: HashMap<ConversationId, (Incarnation, Seq)>,
    suspects: HashMap<ConversationId, Seq>,
    suspect_vectors: HashMap<ConversationId, Seq>,
}

impl Done {
    /// Returns `true` if there is nothing to do in this incarnation for a log whose last whole block ends here.
    pub(super) fn has(&self, id: &ConversationId, incarnation: Incarnation, end: Seq) -> bool {
        self.lock().done.get(id).is_some_and(|(of, done)| *of == incarnation && *done >= end)
    }

    pub(super) fn remember(&self, id: &ConversationId, incarnation: Incarnation, end: Seq) {
        insert(&mut self.lock().done, id, (incarnation, end));
    }

    pub(super) fn forget(&self, id: &ConversationId) {
        self.lock().done.remove(id);
    }

    /// Notes that the segment that begins here lacks a table, so that the next step of the index removes it.
    pub(super) fn suspect(&self, id: &ConversationId, start: Seq) {
        let mut known = self.lock();
        known.done.remove(id);
        insert(&mut known.suspects, id, start);
    }

    pub(super) fn take_suspect(&self, id: &ConversationId) -> Option<Seq> {
        self.lock().suspects.remove(id)
    }

    /// Notes that the vectors of the block that begins here cannot be read, so that they are made again.
    pub(super) fn suspect_vectors(&self, id: &ConversationId, start: Seq) {
        let mut known = self.lock();
        known.done.remove(id);
        insert(&mut known.suspect_vectors, id, start);
    }

    pub(super) fn take_suspect_vectors(&self, id: &ConversationId) -> Option<Seq> {
        self.lock().suspect_vectors.remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // The maps are whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert<T>(map: &mut HashMap<ConversationId, T>, id: &ConversationId, value: T) {
    if map.len() >= MAX_CONVERSATIONS && !map.contains_key(id) {
        map.clear();
    }
    map.insert(id.clone(), value);
}
