//! A store that fails on demand.

mod gate;
mod store;

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tower_chat_history_core::{ConversationId, Loaded, Seq, StoreError};

use self::gate::Gates;
pub use self::{gate::Hold, store::Op};
use crate::util::lock;

/// A store that wraps another store and counts its calls. A test can make calls fail, lose their answers, wait or hang.
///
/// Without a plan, each call has the effect and the result of the inner store. A clone is another handle on the same
/// store: keep one to control the faults, and pass the other to the code under test. A call passes these stages:
///
/// 1. It is counted, and takes its step of the plan.
/// 2. It waits for the [delay](Self::delay).
/// 3. It is [held](Self::hold).
/// 4. It [fails](Self::fail) if its step says so.
/// 5. It runs the inner operation.
/// 6. Its answer is [held](Self::hold_answers).
/// 7. Its answer is [lost](Self::lose_answers) if its step says so.
///
/// ```
/// use tower_chat_history_core::{ConversationId, HistoryStore, Load, StoreError};
/// use tower_chat_history_test::{Fault, FaultStore, Op};
///
/// async fn example(inner: impl HistoryStore, id: &ConversationId) {
///     let store = FaultStore::new(inner);
///     store.fail(Op::Load, 1, Fault::Unavailable);
///     assert!(matches!(store.load(id, Load::new()).await, Err(StoreError::Unavailable { .. })));
///     assert!(store.load(id, Load::new()).await.is_ok());
///     assert_eq!(store.calls(Op::Load), 2);
/// }
/// ```
///
/// Each operation has its own queue of steps, one for each call. `pass(op, 2)` followed by `fail(op, 1, ..)` therefore
/// fails the third of the next calls, and only that one.
pub struct FaultStore<S> {
    faults: Arc<[OpFaults; Op::COUNT]>,
    loaded_messages: Arc<AtomicUsize>,
    inner: Arc<S>,
}

/// The state of one operation.
#[derive(Debug, Default)]
struct OpFaults {
    calls: AtomicUsize,
    plan: Mutex<Plan>,
    delay: Mutex<Duration>,
    before: Gates,
    after: Gates,
}

impl OpFaults {
    /// Runs one call through its stages.
    async fn run_stages<T: Send>(
        &self,
        id: Option<&ConversationId>,
        inner: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Relaxed);
        let step = lock(&self.plan).next();

        let delay = *lock(&self.delay);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        self.before.pass().await;
        if let Step::Fail(fault) = step {
            return Err(fault.error(id));
        }

        let answer = inner.await;
        self.after.pass().await;
        if let Step::LoseAnswer = step { Err(StoreError::unavailable("the answer was lost on demand")) } else { answer }
    }
}

impl<S> FaultStore<S> {
    /// Wraps a store. An `Arc<dyn HistoryStore>` is also a store.
    #[must_use]
    pub fn new(inner: S) -> Self {
        Self { faults: Arc::default(), loaded_messages: Arc::default(), inner: Arc::new(inner) }
    }

    /// Returns the inner store, to inspect or fill it without faults.
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Lets the next `calls` calls of the operation pass.
    pub fn pass(&self, op: Op, calls: usize) {
        self.plan(op, calls, Step::Pass);
    }

    /// Fails the next `calls` calls of the operation without calling the inner store. Pass `usize::MAX` to fail all.
    pub fn fail(&self, op: Op, calls: usize, fault: Fault) {
        self.plan(op, calls, Step::Fail(fault));
    }

    /// Loses the answers of the next `calls` calls of the operation: the inner store completes these calls, and their
    /// callers get [`Unavailable`](StoreError::Unavailable), so they cannot know the outcome. Pass `usize::MAX` to lose
    /// all.
    pub fn lose_answers(&self, op: Op, calls: usize) {
        self.plan(op, calls, Step::LoseAnswer);
    }

    /// Sets the time for which each call of the operation waits before it is held, fails, or reaches the inner store.
    /// The default is 0. The wait uses tokio's timer, so a [paused clock](crate#time) works.
    pub fn delay(&self, op: Op, delay: Duration) {
        *lock(&self.of(op).delay) = delay;
    }

    /// Holds back calls of the operation before they reach the inner store. They continue when the returned handle is
    /// released or dropped.
    pub fn hold(&self, op: Op) -> Hold {
        self.of(op).before.close()
    }

    /// Holds back the answers of calls of the operation after the inner store has completed them. They are returned
    /// when the returned handle is released or dropped.
    pub fn hold_answers(&self, op: Op) -> Hold {
        self.of(op).after.close()
    }

    /// Removes all steps and delays. Calls that are held back stay held back, and the counts are not reset.
    pub fn mend(&self) {
        for op in self.faults.iter() {
            *lock(&op.plan) = Plan::default();
            *lock(&op.delay) = Duration::ZERO;
        }
    }

    /// Returns the number of calls of the operation so far, including failed ones.
    #[must_use]
    pub fn calls(&self, op: Op) -> usize {
        self.of(op).calls.load(Relaxed)
    }

    /// Returns the number of messages that loads have returned so far, in windows or as recorded exchanges.
    #[must_use]
    pub fn loaded_messages(&self) -> usize {
        self.loaded_messages.load(Relaxed)
    }

    fn of(&self, op: Op) -> &OpFaults {
        &self.faults[op as usize]
    }

    fn plan(&self, op: Op, calls: usize, step: Step) {
        lock(&self.of(op).plan).push(calls, step);
    }

    fn count(&self, loaded: &Loaded) {
        let exchanges = match loaded {
            Loaded::Window(window) => window.exchanges.as_slice(),
            Loaded::Added(added) => added.exchanges.as_slice(),
            Loaded::AlreadyRecorded(recorded) => std::slice::from_ref(recorded),
            Loaded::Absent(_) | Loaded::Unchanged => &[],
        };
        let messages = exchanges.iter().map(|recorded| recorded.exchange.messages.len()).sum();
        self.loaded_messages.fetch_add(messages, Relaxed);
    }
}

impl<S> Clone for FaultStore<S> {
    fn clone(&self) -> Self {
        Self {
            faults: Arc::clone(&self.faults),
            loaded_messages: Arc::clone(&self.loaded_messages),
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for FaultStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore").field("faults", &self.faults).field("inner", &&*self.inner).finish_non_exhaustive()
    }
}

/// A kind of [`StoreError`] that a [`FaultStore`](crate::FaultStore) fails with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// [`StoreError::Unavailable`]: a retry may succeed.
    Unavailable,
    /// [`StoreError::Backend`]: a retry will not succeed.
    Backend,
    /// [`StoreError::Conflict`], without the current revision.
    Conflict,
    /// [`StoreError::Gone`].
    Gone,
    /// [`StoreError::Corrupt`], at the first position of the conversation of the call. If the call names no
    /// conversation, it is [`StoreError::Backend`].
    Corrupt,
}

impl Fault {
    fn error(self, id: Option<&ConversationId>) -> StoreError {
        const REASON: &str = "the store failed on demand";
        match (self, id) {
            (Self::Unavailable, _) => StoreError::unavailable(REASON),
            (Self::Backend, _) | (Self::Corrupt, None) => StoreError::backend(REASON),
            (Self::Conflict, _) => StoreError::Conflict { current: None },
            (Self::Gone, _) => StoreError::Gone,
            (Self::Corrupt, Some(id)) => {
                StoreError::Corrupt { conversation: id.clone(), seq: Seq::FIRST, source: REASON.into() }
            }
        }
    }
}

/// The step of the plan that one call takes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass,
    Fail(Fault),
    LoseAnswer,
}

/// The steps of the next calls, as pairs of a number of calls and their step. When all steps are used, calls pass.
#[derive(Debug, Default)]
struct Plan(VecDeque<(usize, Step)>);

impl Plan {
    fn push(&mut self, calls: usize, step: Step) {
        if calls > 0 {
            self.0.push_back((calls, step));
        }
    }

    fn next(&mut self) -> Step {
        let Some((left, step)) = self.0.front_mut() else { return Step::Pass };
        let step = *step;
        *left -= 1;
        if *left == 0 {
            self.0.pop_front();
        }
        step
    }
}
