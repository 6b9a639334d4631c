//! Calls that hang until they are released.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::util::lock;

/// A handle that holds back calls of an operation, until it is [released](Self::release) or dropped.
/// [`FaultStore::hold`](crate::FaultStore::hold) and [`FaultStore::hold_answers`](crate::FaultStore::hold_answers)
/// return it.
///
/// ```
/// use tower_chat_history_core::{ConversationId, HistoryStore};
/// use tower_chat_history_test::{FaultStore, Op};
///
/// async fn example(store: FaultStore<impl HistoryStore>, id: ConversationId) {
///     let hold = store.hold(Op::Delete);
///     let call = tokio::spawn({
///         let store = store.clone();
///         async move { store.delete(&id).await }
///     });
///     hold.reached(1).await;
///     // The call hangs here.
///     hold.release();
///     assert!(call.await.is_ok());
/// }
/// ```
#[derive(Debug)]
#[must_use = "dropping it releases the calls"]
pub struct Hold {
    gate: Arc<Gate>,
    gates: Gates,
}

impl Hold {
    /// Waits until this many calls hang here at the same time.
    pub async fn reached(&self, calls: usize) {
        // The gate lives as long as this handle, so waiting does not fail.
        let _ = self.gate.0.subscribe().wait_for(|state| state.waiting >= calls).await;
    }

    /// Returns the number of calls that hang here.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.gate.0.borrow().waiting
    }

    /// Releases the calls that hang here, and lets later ones pass.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        lock(&self.gates.0).retain(|gate| !Arc::ptr_eq(gate, &self.gate));
        self.gate.0.send_modify(|state| state.open = true);
    }
}

#[derive(Debug, Default)]
struct Gate(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    open: bool,
    waiting: usize,
}

/// The closed gates of one stage. A call passes when all gates are open that were closed when it arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Gates(Arc<Mutex<Vec<Arc<Gate>>>>);

impl Gates {
    pub(super) fn close(&self) -> Hold {
        let gate = Arc::<Gate>::default();
        lock(&self.0).push(Arc::clone(&gate));
        Hold { gate, gates: self.clone() }
    }

    pub(super) async fn pass(&self) {
        let closed = lock(&self.0).clone();
        for gate in closed {
            let mut state = gate.0.subscribe();
            let _counted = Waiter::new(&gate);
            // The gate lives until the end of this block, so waiting does not fail.
            let _ = state.wait_for(|state| state.open).await;
        }
    }
}

/// Counts a call while it waits, and stops counting it if its future is dropped.
struct Waiter<'a>(&'a Gate);

impl<'a> Waiter<'a> {
    fn new(gate: &'a Gate) -> Self {
        gate.0.send_modify(|state| state.waiting += 1);
        Self(gate)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.waiting -= 1);
    }
}
