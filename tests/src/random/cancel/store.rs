//! An unreliable store: it is slow, fails, loses answers and panics. Every append succeeds within three
//! attempts, unless it panics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tower_chat_history::{
    Append, Appended, Compact, CompactOutcome, ConversationId, HistoryStore, Incarnation, Load, Loaded, MemoryStore,
    Page, Seq, StoreError,
};

use super::super::{Ingredient, Ingredients, panics::on_purpose};
use crate::rng::SeededRng;

/// The state that the clones of a store share.
#[derive(Debug)]
struct FlakyState {
    rng: SeededRng,
    /// The number of failed appends, by exchange.
    failed: BTreeMap<String, u32>,
    panicked: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(super) struct FlakyStore {
    inner: MemoryStore,
    state: Arc<Mutex<FlakyState>>,
    ingredients: Ingredients,
}

enum Behavior {
    Fine,
    Fails,
    LosesTheAnswer,
    Panics,
}

/// The start of the names of conversations that are stored slowly.
pub(super) const SLOW: &str = "slow";

impl FlakyStore {
    pub(super) fn new(inner: MemoryStore, rng: SeededRng, ingredients: &Ingredients) -> Self {
        let state = FlakyState { rng, failed: BTreeMap::new(), panicked: BTreeSet::new() };
        Self { inner, state: Arc::new(Mutex::new(state)), ingredients: ingredients.clone() }
    }

    /// Returns true if the append of this exchange panicked.
    pub(super) fn panicked(&self, exchange: &str) -> bool {
        self.state.lock().unwrap().panicked.contains(exchange)
    }

    async fn takes_time(&self) {
        let time = self.state.lock().unwrap().rng.duration(Duration::from_millis(20));
        tokio::time::sleep(time).await;
    }

    fn behavior(&self, exchange: &str) -> Behavior {
        let mut state = self.state.lock().unwrap();
        let failed = state.failed.get(exchange).copied().unwrap_or_default();
        let behavior = match state.rng.below(12) {
            0 if failed < 2 => Behavior::Fails,
            1..3 if failed < 2 && self.ingredients.has(Ingredient::LostAnswers) => Behavior::LosesTheAnswer,
            3 if state.rng.once_in(4) => Behavior::Panics,
            _ => return Behavior::Fine,
        };
        *state.failed.entry(exchange.to_owned()).or_default() += 1;
        if matches!(behavior, Behavior::Panics) {
            state.panicked.insert(exchange.to_owned());
        }
        behavior
    }
}

#[async_trait]
impl HistoryStore for FlakyStore {
    fn system(&self) -> &'static str {
        "memory"
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.takes_time().await;
        self.inner.load(id, load).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.takes_time().await;
        if self.ingredients.has(Ingredient::HeldPermits) && id.to_string().starts_with(SLOW) {
            tokio::time::sleep(Duration::from_secs(12)).await;
        }
        match self.behavior(append.exchange.id.as_str()) {
            Behavior::Fine => self.inner.append(id, append).await,
            Behavior::Fails => Err(StoreError::unavailable("fails on purpose")),
            Behavior::LosesTheAnswer => {
                self.inner.append(id, append).await?;
                Err(StoreError::unavailable("the answer is lost"))
            }
            Behavior::Panics => on_purpose("the store panics"),
        }
    }

    async fn compact(
        &self,
        id: &ConversationId,
        life: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.takes_time().await;
        self.inner.compact(id, life, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.takes_time().await;
        self.inner.read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }
}
