//! Queues that let those who use one thing pass one at a time, within one process.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The queues of all things that are in use, by the name of the thing.
pub(crate) struct Queues<K>(Arc<Mutex<HashMap<K, Queue>>>);

struct Queue {
    /// A fair semaphore with one permit.
    turn: Arc<Semaphore>,
    /// The number of places in the queue, including the one that has the permit.
    places: usize,
}

/// A place in a queue. The queue is removed with its last place.
struct Place<K: Eq + Hash> {
    queues: Queues<K>,
    name: K,
}

/// The permit to use a thing. Dropping it lets the next one pass.
pub(crate) struct Permit<K: Eq + Hash> {
    // Fields are dropped in the order of their declaration: the permit is returned before the place is removed.
    _turn: Option<OwnedSemaphorePermit>,
    _place: Place<K>,
}

impl<K: Clone + Eq + Hash + Send + Sync> Queues<K> {
    /// Waits for those that came before.
    pub(crate) async fn enter(&self, name: &K) -> Permit<K> {
        let turn = {
            let mut queues = self.lock();
            let queue =
                queues.entry(name.clone()).or_insert_with(|| Queue { turn: Arc::new(Semaphore::new(1)), places: 0 });
            queue.places += 1;
            Arc::clone(&queue.turn)
        };
        let place = Place { queues: self.clone(), name: name.clone() };
        // The semaphore is never closed.
        Permit { _turn: turn.acquire_owned().await.ok(), _place: place }
    }
}

impl<K> Queues<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Clone for Queues<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Queues<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get_mut(&self.name) {
            queue.places -= 1;
            if queue.places == 0 {
                queues.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use tower_chat_history_core::ConversationId;

    use super::*;

    #[tokio::test]
    async fn the_next_one_passes_after_the_one_before_and_no_queue_stays() {
        let queues = Queues::default();
        let id: ConversationId = "a".parse().unwrap();
        let first = queues.enter(&id).await;
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut gives_up = pin!(queues.enter(&id));
            assert!(gives_up.as_mut().poll(&mut context).is_pending());
        }
        let mut second = pin!(queues.enter(&id));
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(queues.enter(&"b".parse().unwrap()).await);
        drop(first);
        let Poll::Ready(second) = second.poll(&mut context) else { panic!("the queue stands still") };
        drop(second);
        assert!(queues.lock().is_empty());
    }
}
