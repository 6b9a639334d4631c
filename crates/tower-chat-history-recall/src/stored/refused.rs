//! The blocks whose texts an embedder refused, and the steps until they are tried again.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tower_chat_history_core::{ConversationId, Incarnation, Seq};

use super::progress::insert;

/// The most blocks that are remembered of a conversation. Others are tried again at each step.
const MAX_BLOCKS: usize = 256;
/// The number of doublings after which the wait does not grow any more: it is 1,024 steps then.
const MAX_DOUBLINGS: u32 = 10;

/// The blocks that wait, by their starts. A block that is forgotten is tried again.
#[derive(Debug, Default)]
pub(super) struct Refused(Mutex<HashMap<ConversationId, (Incarnation, Blocks)>>);

type Blocks = BTreeMap<Seq, Wait>;

/// The wait of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wait {
    refusals: u32,
    /// The number of steps that leave the block out.
    steps: u32,
}

impl Refused {
    /// Notes that a block was refused. It waits for 1 step, then for 2, 4 and so on.
    pub(super) fn add(&self, id: &ConversationId, incarnation: Incarnation, start: Seq) {
        let mut map = self.lock();
        let known = map.remove(id).filter(|(of, _)| *of == incarnation);
        let (_, mut blocks) = known.unwrap_or_else(|| (incarnation, Blocks::new()));
        if blocks.len() < MAX_BLOCKS || blocks.contains_key(&start) {
            let wait = blocks.entry(start).or_default();
            wait.steps = 1 << wait.refusals.min(MAX_DOUBLINGS);
            wait.refusals = wait.refusals.saturating_add(1);
        }
        insert(&mut map, id, (incarnation, blocks));
    }

    /// Counts a step. Returns the blocks that it leaves out. Blocks that are not due any more are forgotten.
    pub(super) fn step(&self, id: &ConversationId, incarnation: Incarnation, is_due: impl Fn(Seq) -> bool) -> Vec<Seq> {
        let mut map = self.lock();
        let Some((_, blocks)) = map.get_mut(id).filter(|(of, _)| *of == incarnation) else { return Vec::new() };
        blocks.retain(|start, _| is_due(*start));
        let mut waiting = Vec::new();
        for (start, wait) in blocks.iter_mut().filter(|(_, wait)| wait.steps > 0) {
            wait.steps -= 1;
            waiting.push(*start);
        }
        waiting
    }

    /// Counts a step that would have nothing else to do. Returns the number of blocks that wait, or `None` if one of
    /// them is to be tried again: then the step is to be made, and is not counted.
    pub(super) fn idle_step(&self, id: &ConversationId, incarnation: Incarnation) -> Option<usize> {
        let mut map = self.lock();
        let Some((_, blocks)) = map.get_mut(id).filter(|(of, _)| *of == incarnation) else { return Some(0) };
        if blocks.values().any(|wait| wait.steps == 0) {
            return None;
        }
        blocks.values_mut().for_each(|wait| wait.steps -= 1);
        Some(blocks.len())
    }

    /// Returns the number of blocks that were refused.
    pub(super) fn len(&self, id: &ConversationId, incarnation: Incarnation) -> usize {
        let map = self.lock();
        map.get(id).filter(|(of, _)| *of == incarnation).map_or(0, |(_, blocks)| blocks.len())
    }

    /// Forgets a block that was embedded.
    pub(super) fn forget(&self, id: &ConversationId, incarnation: Incarnation, start: Seq) {
        let mut map = self.lock();
        let Some((_, blocks)) = map.get_mut(id).filter(|(of, _)| *of == incarnation) else { return };
        blocks.remove(&start);
        if blocks.is_empty() {
            map.remove(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, (Incarnation, Blocks)>> {
        // The map is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_conformance::shorthand::conversation;

    use super::*;

    #[test]
    fn waits_double_up_to_a_limit() {
        let (id, incarnation, start) = (conversation("refused"), Incarnation::random(), Seq::new(64));
        let refused = Refused::default();
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024] {
            refused.add(&id, incarnation, start);
            let mut waited = 0;
            while refused.idle_step(&id, incarnation).is_some() {
                waited += 1;
            }
            assert_eq!(waited, expected);
        }
        assert_eq!(refused.step(&id, incarnation, |_| true), []);
        assert_eq!((refused.len(&id, incarnation), refused.len(&id, Incarnation::random())), (1, 0));
        refused.forget(&id, incarnation, start);
        assert_eq!(refused.idle_step(&id, incarnation), Some(0));
    }

    #[test]
    fn blocks_are_bounded_and_forgotten_if_they_are_not_due() {
        let (id, incarnation) = (conversation("refused"), Incarnation::random());
        let refused = Refused::default();
        (0..1000).for_each(|start| refused.add(&id, incarnation, Seq::new(start)));
        assert_eq!(refused.len(&id, incarnation), MAX_BLOCKS);
        assert_eq!(refused.step(&id, incarnation, |start| start < Seq::new(2)), [Seq::new(0), Seq::new(1)]);
        assert_eq!(refused.len(&id, incarnation), 2);
        refused.add(&id, Incarnation::random(), Seq::FIRST);
        assert_eq!(refused.len(&id, incarnation), 0, "it is of another incarnation");
    }
}
