//! Queues that let the appends to one conversation pass one at a time, within one process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_chat_history_core::ConversationId;

/// The queues of all conversations that have an append in progress.
#[derive(Clone, Default)]
pub(super) struct Queues(Arc<Mutex<HashMap<ConversationId, Queue>>>);

struct Queue {
    /// A fair semaphore with one permit.
    turn: Arc<Semaphore>,
    /// The number of appends in the queue, including the one that has the permit.
    appends: usize,
}

/// An append's place in its queue. The queue is removed with its last place.
struct Place {
    queues: Queues,
    id: ConversationId,
}

/// The permit to append. Dropping it lets the next append pass.
pub(super) struct Permit {
    // Fields are dropped in the order of their declaration: the permit is returned before the place is removed.
    _turn: Option<OwnedSemaphorePermit>,
    _place: Place,
}

impl Queues {
    /// Waits for the appends to the conversation that came before.
    pub(super) async fn enter(&self, id: &ConversationId) -> Permit {
        let turn = {
            let mut queues = self.lock();
            let queue =
                queues.entry(id.clone()).or_insert_with(|| Queue { turn: Arc::new(Semaphore::new(1)), appends: 0 });
            queue.appends += 1;
            Arc::clone(&queue.turn)
        };
        let place = Place { queues: self.clone(), id: id.clone() };
        // The semaphore is never closed.
        Permit { _turn: turn.acquire_owned().await.ok(), _place: place }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get_mut(&self.id) {
            queue.appends -= 1;
            if queue.appends == 0 {
                queues.remove(&self.id);
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

    use super::*;

    #[tokio::test]
    async fn the_next_append_passes_after_the_one_before_and_no_queue_stays() {
        let (queues, id): (_, ConversationId) = (Queues::default(), "a".parse().unwrap());
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
