//! The layer's own part of the time of a turn. Each turn is divided at the calls of its store: before the load, the
//! load, between load and append, the append, and after it. The layer's own work is in the first, the third and the
//! last part. So are the request and the model of the bench, which a turn without a layer has, too.
//!
//! A turn is one of the whole layer over a `CachedStore`, with a window of 60 to 80 messages, in one of 8 or of 1,000
//! conversations. Turns are made one after the other. Each number is the median in microseconds.
//!
//! Run it with `cargo bench -p benches --bench own_part`. To measure only some stores, name them: `-- memory redis`. A
//! server that is not installed is left out, and a line reports that.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use benches::{
    WINDOW, fill_all,
    growth::{Base, CACHE_BYTES, STORES, Turns},
};
use tokio::runtime::Runtime;
use tower_chat_history::{
    CachedStore, ConversationId, HistoryStore, MemoryStore,
    store::{Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Seq, StoreError},
};

const MEMORY: &str = "memory";
const CONVERSATIONS: [usize; 2] = [8, 1_000];
const TURNS: usize = 6_000;

/// The number of parts of a turn: before the load, the load, between load and append, the append, and after it.
const PARTS: usize = 5;

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Runtime::new().unwrap();
    println!("us: store, conversations, before the load, load, between load and append, append, after the append");
    for name in [MEMORY].into_iter().chain(STORES).filter(|name| is_selected(name)) {
        for conversations in CONVERSATIONS {
            let Some(medians) = runtime.block_on(medians_over(name, conversations)) else { break };
            let medians: Vec<String> = medians.iter().map(|time| format!("{time:8.1}")).collect();
            println!("{name:14} {conversations:6} {}", medians.join(" "));
        }
    }
}

/// Returns the medians over the store with this name, or `None` if its server is not installed.
async fn medians_over(name: &str, conversations: usize) -> Option<[f64; PARTS]> {
    if name == MEMORY {
        let store = MemoryStore::new();
        fill_all(&store, 0..conversations, WINDOW / 2).await;
        return Some(medians(Arc::new(store), conversations).await);
    }
    // Dropping `base` ends the server.
    let mut base = Base::of(name, env!("CARGO_TARGET_TMPDIR"))?;
    let store = base.filled(async |store| fill_all(store, 0..conversations, WINDOW / 2).await).await;
    Some(medians(store, conversations).await)
}

/// Returns the median of each part, in microseconds, of turns over this store.
async fn medians(store: Arc<dyn HistoryStore>, conversations: usize) -> [f64; PARTS] {
    let cached = CachedStore::with_limit(store, CACHE_BYTES);
    let stopwatch = Arc::new(Stopwatch::new(Arc::new(cached)));
    let turns = Turns::among(Arc::clone(&stopwatch) as Arc<dyn HistoryStore>, conversations);

    // The first turn of a conversation costs more: it fills the cache.
    for _ in 0..conversations {
        turns.make().await;
    }

    for _ in 0..TURNS {
        stopwatch.turn(turns.make()).await;
    }
    stopwatch.medians().map(|time| time.as_secs_f64() * 1e6)
}

/// A store that notes when its loads and appends begin and end.
#[derive(Debug)]
struct Stopwatch {
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

impl Stopwatch {
    /// Wraps a store.
    fn new(inner: Arc<dyn HistoryStore>) -> Self {
        Self { inner, times: Mutex::default() }
    }

    /// Makes a turn, which must have one load and one append.
    async fn turn(&self, turn: impl Future<Output = ()>) {
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
    fn medians(&self) -> [Duration; PARTS] {
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
impl HistoryStore for Stopwatch {
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
