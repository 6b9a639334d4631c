//! Expiry in the background.

use std::{convert::Infallible, fmt, future::pending, sync::Arc, time::Duration};

use tokio::runtime::Handle;
use tower_chat_history_core::{Erase, Expiry, ExpiryRun, Timestamp};

use crate::timer::sleep;

/// Applies the rules of an [`Expiry`] again and again.
///
/// It looks at a bounded number of conversations, pauses, and continues where it stopped. After all conversations, it
/// waits until the next round. Any number of processes may run it over one store. After a restart, it begins from the
/// beginning. If the store fails, it logs a warning and continues after the next pause. A conversation that cannot be
/// erased is passed, with a warning, until the next round.
///
/// Spawn [`run`](Self::run), and abort or drop it to stop: an erasure of a conversation is then complete or did not
/// begin.
///
/// ```no_run
/// use std::time::Duration;
/// use tower_chat_history::{MemoryStore, store::{Expiry, ExpiryRule, ExpiryTask, Prefix}};
///
/// # async fn start() {
/// let month = Duration::from_secs(30 * 24 * 60 * 60);
/// let expiry = Expiry::new().under(Prefix::all(), ExpiryRule::Idle(month));
/// let task = ExpiryTask::new(MemoryStore::new(), expiry);
/// let running = tokio::spawn(task.run());
/// # running.abort();
/// # }
/// ```
pub struct ExpiryTask<S> {
    store: S,
    expiry: Expiry,
    every: Duration,
    pause: Duration,
    step: usize,
    on_run: Arc<dyn Fn(&ExpiryRun) + Send + Sync>,
}

impl<S: Erase> ExpiryTask<S> {
    /// Creates a task with these rules. A round begins every hour.
    pub fn new(store: S, expiry: Expiry) -> Self {
        let (every, pause) = (Duration::from_secs(60 * 60), Duration::from_secs(1));
        Self { store, expiry, every, pause, step: 1_000, on_run: Arc::new(|_| {}) }
    }

    /// Sets the time between the end of a round and the beginning of the next one. The default is one hour.
    #[must_use]
    pub const fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Sets the number of conversations that are looked at in one step, and the pause between two steps. The default is
    /// 1,000 conversations and one second. A number of 0 means 1.
    #[must_use]
    pub const fn steps_of(mut self, conversations: usize, pause: Duration) -> Self {
        self.step = if conversations == 0 { 1 } else { conversations };
        self.pause = pause;
        self
    }

    /// Sets a function that gets the receipt of each step, also of one that failed in the middle. The default does
    /// nothing.
    #[must_use]
    pub fn on_run(mut self, on_run: impl Fn(&ExpiryRun) + Send + Sync + 'static) -> Self {
        self.on_run = Arc::new(on_run);
        self
    }

    /// Runs until it is dropped. Its pauses need a tokio runtime. Outside of one, it logs an error and does nothing.
    pub async fn run(self) -> Infallible {
        if Handle::try_current().is_err() {
            tracing::error!("conversations do not expire: the task runs outside of a tokio runtime");
            return pending().await;
        }
        let mut from = None;
        loop {
            let run = match self.expiry.run_once(&self.store, Timestamp::now(), from.as_ref(), self.step).await {
                Ok(run) => run,
                Err(error) => {
                    let kind = error.source.kind();
                    tracing::warn!(error.type = kind, error = %error, "an expiry stopped; it continues after a pause");
                    *error.run
                }
            };
            if let Some(first) = &run.first_failure {
                let (kind, error) = (first.error.kind(), &first.error);
                tracing::warn!(error.type = kind, %error, failed = run.failed, "expired conversations were not erased");
            }
            (self.on_run)(&run);
            let pause = if run.next.is_some() { self.pause } else { self.every };
            from = run.next;
            sleep(pause).await;
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for ExpiryTask<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiryTask")
            .field("store", &self.store)
            .field("expiry", &self.expiry)
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}
