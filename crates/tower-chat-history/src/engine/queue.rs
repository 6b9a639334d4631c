//! Queues that run the calls of one conversation one at a time, within one engine.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::{self, Either};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tower_chat_history_core::ConversationId;

use super::saves::InFlight;
use crate::{error::HistoryError, policy::QueueLimits};

/// The queues of all conversations that have a call in progress.
#[derive(Default)]
pub(super) struct Queues(Mutex<HashMap<ConversationId, Arc<Line>>>);

struct Line {
    /// A fair semaphore with one permit: calls are served in the order of their arrival.
    turn: Arc<Semaphore>,
    /// The number of calls in the line, including the one that holds the permit.
    calls: AtomicUsize,
}

/// The permit of a conversation's queue. Only its holder may run. Dropping it lets the next call run.
pub(super) struct QueuePermit {
    // Fields are dropped in the order of their declaration: the permit must be returned before the place is removed.
    _turn: OwnedSemaphorePermit,
    _place: QueuePlace,
}

/// Where a call is in a conversation's line after it has entered.
pub(super) enum Place {
    /// The line was empty: the call holds the permit.
    First(QueuePermit),
    /// Another call is ahead.
    Behind(QueuePlace),
}

/// A call's place in the line. When the last call leaves, the line is removed.
pub(super) struct QueuePlace {
    queues: Arc<Queues>,
    conversation: ConversationId,
    line: Arc<Line>,
}

impl Queues {
    /// Takes a place in the conversation's line, and the permit if the line is empty.
    pub(super) fn enter(
        self: &Arc<Self>,
        conversation: &ConversationId,
        queue: QueueLimits,
    ) -> Result<Place, HistoryError> {
        let place = self.take_place(conversation, queue)?;
        Ok(match Arc::clone(&place.line.turn).try_acquire_owned() {
            Ok(turn) => Place::First(QueuePermit { _turn: turn, _place: place }),
            Err(_) => Place::Behind(place),
        })
    }

    fn take_place(
        self: &Arc<Self>,
        conversation: &ConversationId,
        queue: QueueLimits,
    ) -> Result<QueuePlace, HistoryError> {
        let mut lines = self.lock();
        let line = lines
            .entry(conversation.clone())
            .or_insert_with(|| Arc::new(Line { turn: Arc::new(Semaphore::new(1)), calls: AtomicUsize::new(0) }));
        // `calls` includes the call that holds the permit, which does not wait.
        if line.calls.load(Ordering::Relaxed) > queue.max_waiting {
            return Err(HistoryError::QueueFull { max_waiting: queue.max_waiting });
        }
        line.calls.fetch_add(1, Ordering::Relaxed);
        Ok(QueuePlace { queues: Arc::clone(self), conversation: conversation.clone(), line: Arc::clone(line) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueuePlace {
    /// Waits for the permit. During the wait, it polls the conversation's saves, because an earlier call may hold the
    /// permit until its save is done.
    pub(super) async fn wait(self, queue: QueueLimits, in_flight: &InFlight) -> Result<QueuePermit, HistoryError> {
        let turn = Arc::clone(&self.line.turn).acquire_owned();
        let turn = async {
            let saving = in_flight.keep_saving(&self.conversation);
            match future::select(pin!(turn), pin!(saving)).await {
                Either::Left((turn, _)) => turn,
            }
        };
        let full = HistoryError::QueueFull { max_waiting: queue.max_waiting };
        match timeout(queue.timeout, turn).await {
            Ok(turn) => Ok(QueuePermit { _turn: turn.map_err(|_| full)?, _place: self }),
            Err(_) => Err(HistoryError::QueueTimeout(queue.timeout)),
        }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        // The lock prevents a call from entering a line that is being removed.
        let mut lines = self.queues.lock();
        if self.line.calls.fetch_sub(1, Ordering::Relaxed) == 1 {
            lines.remove(&self.conversation);
        }
    }
}
