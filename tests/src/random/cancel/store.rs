//! An unreliable store: it is slow, fails, loses answers and panics. Every append succeeds within three
//! attempts, unless it panics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tower_chat_history::{
    ConversationId, HistoryStore, MemoryStore, StoreError,
    store::{Append, Appended},
};

use super::super::{
    Ingredient, Ingredients,
    disturbed::{Disturb, Disturbed},
    panics::on_purpose,
};
use crate::rng::SeededRng;

/// The state that the clones of a store share.
#[derive(Debug)]
struct FaultState {
    rng: SeededRng,
    /// The number of failed appends, by exchange.
    failed: BTreeMap<String, u32>,
    panicked: BTreeSet<String>,
}

/// The faults of the store.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    state: Arc<Mutex<FaultState>>,
    ingredients: Ingredients,
}

pub(super) type FlakyStore = Disturbed<Faults>;

enum Behavior {
    Fine,
    Fails,
    LosesTheAnswer,
    Panics,
}

/// The start of the names of conversations that are stored slowly.
pub(super) const SLOW: &str = "slow";

/// Creates a store with faults.
pub(super) fn flaky_store(inner: MemoryStore, rng: SeededRng, ingredients: &Ingredients) -> FlakyStore {
    let state = FaultState { rng, failed: BTreeMap::new(), panicked: BTreeSet::new() };
    let disturb = Faults { state: Arc::new(Mutex::new(state)), ingredients: ingredients.clone() };
    Disturbed { inner, disturb }
}

impl Faults {
    /// Returns true if the append of this exchange panicked.
    pub(super) fn panicked(&self, exchange: &str) -> bool {
        self.state.lock().unwrap().panicked.contains(exchange)
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
impl Disturb for Faults {
    async fn before(&self) {
        let time = self.state.lock().unwrap().rng.duration(Duration::from_millis(20));
        tokio::time::sleep(time).await;
    }

    async fn append(&self, inner: &MemoryStore, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        if self.ingredients.has(Ingredient::HeldPermits) && id.to_string().starts_with(SLOW) {
            tokio::time::sleep(Duration::from_secs(12)).await;
        }
        match self.behavior(append.exchange.id.as_str()) {
            Behavior::Fine => inner.append(id, append).await,
            Behavior::Fails => Err(StoreError::unavailable("fails on purpose")),
            Behavior::LosesTheAnswer => {
                inner.append(id, append).await?;
                Err(StoreError::unavailable("the answer is lost"))
            }
            Behavior::Panics => on_purpose("the store panics"),
        }
    }
}
