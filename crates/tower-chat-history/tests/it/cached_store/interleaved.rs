//! Calls that overlap: a load is answered while others write, and what is kept is never taken for what is newer.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::task::{LocalSet, yield_now};
use tower_chat_history::{
    CachedStore, ConversationId, Exchange, ExchangeId, HistoryStore, MemoryStore, Message, StoreError,
    store::{
        Append, Appended, Compact, CompactOutcome, Cut, Derived, Expect, Incarnation, Load, LoadLimit, Loaded, Page,
        Profile, Prune, PruneTo, Pruned, Revision, Seq, Summary, Truncate, Truncated, Window,
    },
};

const SEEDS: u64 = 300;
const TASKS: usize = 5;
const STEPS: usize = 25;

/// Numbers that look random and are the same in each run (xorshift).
#[derive(Clone, Debug)]
struct Chance(Arc<Mutex<u64>>);

impl Chance {
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

    /// Lets others go first, for a while or a long while.
    async fn pause(&self) {
        let turns = if self.below(10) == 0 { 40 } else { 4 };
        for _ in 0..self.below(turns) {
            yield_now().await;
        }
    }
}

/// A store whose calls take time before and after they are done.
#[derive(Clone, Debug)]
struct Slow(MemoryStore, Chance);

impl Slow {
    async fn slowly<T>(&self, call: impl Future<Output = T> + Send) -> T {
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
        self.slowly(self.0.load(id, load)).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.slowly(self.0.append(id, append)).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.slowly(self.0.compact(id, incarnation, compact)).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.0.read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.slowly(self.0.delete(id)).await
    }
}

#[async_trait]
impl Truncate for Slow {
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError> {
        self.slowly(self.0.truncate(id, expect, from)).await
    }
}

#[async_trait]
impl Prune for Slow {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        traces: Derived,
    ) -> Result<Pruned, StoreError> {
        self.slowly(self.0.prune(id, incarnation, keep, traces)).await
    }
}

/// One of those who use the conversation at once.
struct User {
    store: CachedStore<Slow>,
    behind: MemoryStore,
    id: ConversationId,
    chance: Chance,
}

impl User {
    fn load(&self) -> Load {
        let profile = Profile::new(["small", "large"][self.chance.below(2)]).unwrap();
        let limit = LoadLimit::new([5, 9, 1_000][self.chance.below(3)], 1 << 20).unwrap();
        Load::new().profile(profile).limit(limit)
    }

    /// The whole window of a profile, past every cache.
    async fn now(&self, profile: &Profile) -> Option<Window> {
        match self.behind.load(&self.id, Load::new().profile(profile.clone())).await.unwrap() {
            Loaded::Window(window) => Some(window),
            _ => None,
        }
    }

    /// A compaction that starts at one of the window's turns.
    fn compact(&self, profile: &Profile, window: &Window) -> Option<Compact> {
        let openings = window.exchanges.iter().filter(|recorded| recorded.exchange.opens_turn());
        let openings: Vec<Seq> = openings.map(|recorded| recorded.seq).collect();
        let start = *openings.get(self.chance.below(openings.len().max(1)))?;
        let mut cut = Cut::window_from(start);
        cut.summary = (start > Seq::FIRST).then(|| Summary::new(format!("up to {start}"), start));
        Some(Compact { profile: profile.clone(), replaces: window.compaction_version(), cut })
    }

    /// Does something. What is refused since others were first is refused.
    async fn act(&self) {
        let profile = self.load().profile;
        let now = self.now(&profile).await;
        self.chance.pause().await;
        match (self.chance.below(24), &now) {
            (0, _) => drop(self.store.delete(&self.id).await),
            (1, Some(now)) => {
                let from = Seq::new(now.revision.version().saturating_sub(self.chance.below(3) as u64));
                drop(self.store.truncate(&self.id, now.revision, from).await);
            }
            (2, Some(now)) => {
                let traces = [Derived::Keep, Derived::Erase][self.chance.below(2)];
                let keep = PruneTo::LastTurns(1 + self.chance.below(4));
                drop(self.store.prune(&self.id, now.revision.incarnation(), keep, traces).await);
            }
            (3..=5, Some(now)) => {
                if let Some(compact) = self.compact(&profile, now) {
                    drop(self.store.compact(&self.id, now.revision.incarnation(), compact).await);
                }
            }
            (6..=13, _) => {
                let messages = vec![Message::user("Hi"); 1 + self.chance.below(4)];
                let mut append = Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), messages));
                if let Some(now) = &now {
                    let last = now.exchanges.last().filter(|_| self.chance.below(3) == 0);
                    append.exchange.continues = last.map(|last| last.seq);
                    append.compact = self.compact(&profile, now).filter(|_| self.chance.below(4) == 0);
                }
                drop(self.store.append(&self.id, append).await);
            }
            _ => drop(self.store.load(&self.id, self.load()).await.unwrap()),
        }
    }

    /// Loads, and compares with the store if nothing changed while it did. Whether it could.
    async fn compare(&self) -> bool {
        let load = self.load();
        let before = self.behind.load(&self.id, load.clone()).await.unwrap();
        let loaded = self.store.load(&self.id, load.clone()).await.unwrap();
        let after = self.behind.load(&self.id, load).await.unwrap();
        // (It may be absent, be there, and be absent again.)
        let unchanged = before == after && before != Loaded::Absent;
        if unchanged {
            assert_eq!(loaded, before);
        }
        unchanged
    }
}

/// Each seed is another order of the same kind of calls, on two replicas.
#[tokio::test]
async fn calls_that_overlap_never_see_less_than_the_store_has() {
    let mut compared = 0;
    for seed in 1..=SEEDS {
        let (behind, chance) = (MemoryStore::new(), Chance::new(seed));
        let replica = || CachedStore::new(Slow(behind.clone(), chance.clone()));
        let (one, other) = (replica(), replica());
        let users = LocalSet::new();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let store = if task < 3 { one.clone() } else { other.clone() };
                let id = ConversationId::new(["a"]).unwrap();
                let user = User { store, behind: behind.clone(), id, chance: chance.clone() };
                users.spawn_local(async move {
                    let mut compared = 0;
                    for _ in 0..STEPS {
                        user.act().await;
                        compared += usize::from(user.chance.below(4) == 0 && user.compare().await);
                    }
                    // Now that others may be done, too.
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
