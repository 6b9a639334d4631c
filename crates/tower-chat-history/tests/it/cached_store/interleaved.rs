//! Calls that overlap: while a load runs, others write. A cached window must never replace a newer one.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::task::{LocalSet, yield_now};
use tower_chat_history::{
    CachedStore, ConversationId, Exchange, ExchangeId, HistoryStore, MemoryStore, Message, StoreError,
    store::{
        Append, Appended, Compact, CompactOutcome, Compaction, Cut, Cuts, Derived, Expect, Incarnation, Load,
        LoadLimit, Loaded, Page, Profile, Prune, PruneTo, Pruned, Revision, Seq, Summary, Truncate, Truncated, Window,
    },
};

const SEEDS: u64 = 300;
const TASKS: usize = 5;
const STEPS: usize = 25;

/// A pseudorandom generator (xorshift). A seed determines its numbers.
#[derive(Clone, Debug)]
struct Random(Arc<Mutex<u64>>);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)))
    }

    fn below(&self, bound: usize) -> usize {
        let mut state = self.0.lock().unwrap();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) as usize % bound
    }

    /// Lets other tasks run, for a short or a long time.
    async fn pause(&self) {
        let turns = if self.below(10) == 0 { 40 } else { 4 };
        for _ in 0..self.below(turns) {
            yield_now().await;
        }
    }
}

/// A store whose calls take time before and after they reach the inner store.
#[derive(Clone, Debug)]
struct Slow(MemoryStore, Random);

impl Slow {
    async fn with_pauses<T>(&self, call: impl Future<Output = T> + Send) -> T {
        self.1.pause().await;
        let answer = call.await;
        self.1.pause().await;
        answer
    }
}

#[async_trait]
impl HistoryStore for Slow {
    fn system(&self) -> &'static str {
        self.0.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.with_pauses(self.0.load(id, load)).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.with_pauses(self.0.append(id, append)).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.with_pauses(self.0.compact(id, incarnation, compact)).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.0.read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.with_pauses(self.0.delete(id)).await
    }
}

#[async_trait]
impl Truncate for Slow {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        self.with_pauses(self.0.truncate(id, expect, from, keep)).await
    }
}

#[async_trait]
impl Prune for Slow {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        self.with_pauses(self.0.prune(id, incarnation, keep, derived)).await
    }
}

/// One of several concurrent users of the conversation.
struct User {
    store: CachedStore<Slow>,
    inner_store: MemoryStore,
    id: ConversationId,
    random: Random,
}

impl User {
    fn load(&self) -> Load {
        let profile = Profile::new(["small", "large"][self.random.below(2)]).unwrap();
        let limit = LoadLimit::new([5, 9, 1_000][self.random.below(3)], 1 << 20).unwrap();
        Load::new().profile(profile).limit(limit)
    }

    /// Returns the whole window of a profile, without a cache.
    async fn window_in_store(&self, profile: &Profile) -> Option<Window> {
        match self.inner_store.load(&self.id, Load::new().profile(profile.clone())).await.unwrap() {
            Loaded::Window(window) => Some(window),
            _ => None,
        }
    }

    /// Returns a compaction whose window starts at one of the turns of `window`.
    fn compact(&self, profile: &Profile, window: &Window) -> Option<Compact> {
        let openings = window.exchanges.iter().filter(|recorded| recorded.exchange.opens_turn());
        let openings: Vec<Seq> = openings.map(|recorded| recorded.seq).collect();
        let start = *openings.get(self.random.below(openings.len().max(1)))?;
        let mut cut = Cut::window_from(start);
        if start > Seq::FIRST {
            cut.set_summary(Summary::new(format!("up to {start}")), start);
        }
        Some(Cuts::new(cut).compact(profile.clone(), window.compaction_version()).unwrap())
    }

    /// Makes a random call. It may be refused because another user was first.
    async fn random_call(&self) {
        let profile = self.load().profile;
        let current = self.window_in_store(&profile).await;
        self.random.pause().await;
        match (self.random.below(24), &current) {
            (0, _) => drop(self.store.delete(&self.id).await),
            (1, Some(current)) => {
                let from = Seq::new(current.revision.version().saturating_sub(self.random.below(3) as u64));
                let kept = |stored: &Compaction| {
                    let cuts = Cuts::read(stored).unwrap().truncated_to(from.get())?;
                    Some(cuts.compact(profile.clone(), stored.version).unwrap())
                };
                let keep = current.compaction.as_ref().and_then(kept);
                drop(self.store.truncate(&self.id, current.revision, from, keep).await);
            }
            (2, Some(current)) => {
                let derived = [Derived::Keep, Derived::Erase][self.random.below(2)];
                let keep = PruneTo::LastTurns(1 + self.random.below(4));
                drop(self.store.prune(&self.id, current.revision.incarnation(), keep, derived).await);
            }
            (3..=5, Some(current)) => {
                if let Some(compact) = self.compact(&profile, current) {
                    drop(self.store.compact(&self.id, current.revision.incarnation(), compact).await);
                }
            }
            (6..=13, _) => {
                let messages = vec![Message::user("Hi"); 1 + self.random.below(4)];
                let mut append = Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), messages));
                if let Some(current) = &current {
                    let last = current.exchanges.last().filter(|_| self.random.below(3) == 0);
                    Arc::make_mut(&mut append.exchange).continues = last.map(|last| last.seq);
                    append.compact = self.compact(&profile, current).filter(|_| self.random.below(4) == 0);
                }
                drop(self.store.append(&self.id, append).await);
            }
            _ => drop(self.store.load(&self.id, self.load()).await.unwrap()),
        }
    }

    /// Loads, and compares the result with the store if nothing changed during the load. Returns whether it
    /// compared.
    async fn compare(&self) -> bool {
        let load = self.load();
        let before = self.inner_store.load(&self.id, load.clone()).await.unwrap();
        let loaded = self.store.load(&self.id, load.clone()).await.unwrap();
        let after = self.inner_store.load(&self.id, load).await.unwrap();
        // (In between, the conversation may have existed and been deleted again.)
        let unchanged = before == after && !before.is_absent();
        if unchanged {
            assert_eq!(loaded, before);
        }
        unchanged
    }
}

/// Each seed is another order of the same kinds of calls, on two replicas.
#[tokio::test]
async fn overlapping_calls_never_see_an_outdated_window() {
    let mut compared = 0;
    for seed in 1..=SEEDS {
        let (inner_store, random) = (MemoryStore::new(), Random::new(seed));
        let replica = || CachedStore::new(Slow(inner_store.clone(), random.clone()));
        let (one, other) = (replica(), replica());
        let users = LocalSet::new();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let store = if task < 3 { one.clone() } else { other.clone() };
                let id = ConversationId::new(["a"]).unwrap();
                let user = User { store, inner_store: inner_store.clone(), id, random: random.clone() };
                users.spawn_local(async move {
                    let mut compared = 0;
                    for _ in 0..STEPS {
                        user.random_call().await;
                        compared += usize::from(user.random.below(4) == 0 && user.compare().await);
                    }
                    // Other users may have finished since.
                    compared + usize::from(user.compare().await)
                })
            })
            .collect();
        users.await;
        for task in tasks {
            compared += task.await.unwrap();
        }
    }
    assert!(compared > SEEDS as usize * 5, "{compared}");
}
