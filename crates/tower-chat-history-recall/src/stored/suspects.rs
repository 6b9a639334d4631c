//! The parts that searches found damaged, for the next step of the index.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tower_chat_history_core::{ConversationId, Incarnation, Seq};

use super::{progress::insert, records::Damaged};

/// The most parts that are remembered of a conversation.
const MAX_PARTS: usize = 256;

/// The parts that searches found damaged. If a damaged part is forgotten, the next search finds it again.
#[derive(Debug, Default)]
pub(super) struct Suspects(Mutex<HashMap<ConversationId, (Incarnation, BTreeSet<Suspect>)>>);

/// A part that is to be checked, and removed if it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suspect {
    /// A block or a segment.
    Terms(Damaged),
    /// The vectors of the block that begins here.
    Vectors(Seq),
}

impl Suspect {
    /// Returns the block or segment.
    pub(super) const fn terms(self) -> Option<Damaged> {
        match self {
            Self::Terms(damaged) => Some(damaged),
            Self::Vectors(_) => None,
        }
    }
}

impl Suspects {
    /// Adds parts of a conversation in this incarnation. Those of another incarnation are forgotten.
    pub(super) fn add(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        suspects: impl IntoIterator<Item = Suspect>,
    ) {
        let mut map = self.lock();
        let known = map.remove(id).filter(|(of, _)| *of == incarnation);
        let mut all = known.map_or_else(BTreeSet::new, |(_, all)| all);
        for suspect in suspects {
            if all.len() < MAX_PARTS {
                all.insert(suspect);
            }
        }
        if !all.is_empty() {
            insert(&mut map, id, (incarnation, all));
        }
    }

    /// Returns the parts of a conversation in this incarnation.
    pub(super) fn of(&self, id: &ConversationId, incarnation: Incarnation) -> BTreeSet<Suspect> {
        let map = self.lock();
        let known = map.get(id).filter(|(of, _)| *of == incarnation);
        known.map_or_else(BTreeSet::new, |(_, suspects)| suspects.clone())
    }

    /// Forgets a part that was checked.
    pub(super) fn forget(&self, id: &ConversationId, incarnation: Incarnation, suspect: Suspect) {
        let mut map = self.lock();
        let Some((_, suspects)) = map.get_mut(id).filter(|(of, _)| *of == incarnation) else { return };
        suspects.remove(&suspect);
        if suspects.is_empty() {
            map.remove(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, (Incarnation, BTreeSet<Suspect>)>> {
        // The map is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_conformance::shorthand::conversation;

    use super::*;

    #[test]
    fn parts_are_of_one_incarnation() {
        let (id, suspects) = (conversation("suspects"), Suspects::default());
        let (old, new) = (Incarnation::random(), Incarnation::random());
        let vectors = |start: u64| Suspect::Vectors(Seq::new(start));
        suspects.add(&id, old, [vectors(0), vectors(64)]);
        assert_eq!((suspects.of(&id, old).len(), suspects.of(&id, new).len()), (2, 0));
        suspects.forget(&id, new, vectors(0));
        suspects.forget(&id, old, vectors(64));
        assert_eq!(suspects.of(&id, old), BTreeSet::from([vectors(0)]));
        suspects.add(&id, new, [vectors(128)]);
        assert_eq!((suspects.of(&id, old).len(), suspects.of(&id, new).len()), (0, 1));
        suspects.add(&id, new, (0..1000).map(vectors));
        assert_eq!(suspects.of(&id, new).len(), MAX_PARTS);
    }
}
