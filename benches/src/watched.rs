//! A store that notes when its calls begin and end, so that a bench can divide the time of a turn.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tower_chat_history::{
    ConversationId, HistoryStore,
    store::{Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Seq, StoreError},
};

/// The number of parts of a turn: before the load, the load, between load and append, the append, and after it.
pub const PARTS: usize = 5;

/// A store whose loads and appends are timed.
#[derive(Debug)]
pub struct Watched {
    inner: Arc<dyn HistoryStore>,
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    /// The times of the current turn.
    turn: Vec<Instant>,
    /// The durations of each part, of all turns.
    parts: [Vec<Duration>; PARTS],
}

impl Watched {
    /// Wraps a store.
    #[must_use]
    pub fn new(inner: Arc<dyn HistoryStore>) -> Self {
        Self { inner, times: Mutex::default() }
    }

    /// Makes a turn, which must have one load and one append.
    pub async fn turn(&self, turn: impl Future<Output = ()>) {
        self.times().turn.clear();
        self.note();
        turn.await;
        self.note();
        let Times { turn, parts } = &mut *self.times();
        assert_eq!(turn.len(), PARTS + 1, "a turn makes one load and one append");
        for (part, ends) in parts.iter_mut().zip(turn.windows(2)) {
            part.push(ends[1] - ends[0]);
        }
    }

    /// Returns the median time of each part, and forgets the times.
    pub fn medians(&self) -> [Duration; PARTS] {
        mem::take(&mut self.times().parts).map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        })
    }

    async fn timed<T>(&self, call: impl Future<Output = T>) -> T {
        self.note();
        let answer = call.await;
        self.note();
        answer
    }

    fn note(&self) {
        self.times().turn.push(Instant::now());
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap()
    }
}

#[async_trait]
impl HistoryStore for Watched {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.timed(self.inner.load(id, load)).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.timed(self.inner.append(id, append)).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.inner.compact(id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.inner.read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }
}
