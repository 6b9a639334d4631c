//! A store with moods: slow, failing, losing answers, panicking. Every append is done within three attempts, unless it panics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tower_chat_history::{
    ConversationId, HistoryStore, MemoryStore, StoreError,
    store::{Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Seq},
};

use super::super::{Ingredient, Ingredients, panics::on_purpose};
use crate::chance::Chance;

/// What has happened so far.
#[derive(Debug)]
struct Moods {
    chance: Chance,
    /// How often an exchange's append has failed.
    failed: BTreeMap<String, u32>,
    panicked: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Moody {
    inner: MemoryStore,
    moods: Arc<Mutex<Moods>>,
    ingredients: Ingredients,
}

enum Mood {
    Fine,
    Fails,
    LosesTheAnswer,
    Panics,
}

/// A conversation whose name begins so is stored slowly.
pub(super) const SLOW: &str = "slow";

impl Moody {
    pub(super) fn new(inner: MemoryStore, chance: Chance, ingredients: &Ingredients) -> Self {
        let moods = Moods { chance, failed: BTreeMap::new(), panicked: BTreeSet::new() };
        Self { inner, moods: Arc::new(Mutex::new(moods)), ingredients: ingredients.clone() }
    }

    /// Returns whether the append of that exchange panicked.
    pub(super) fn panicked(&self, exchange: &str) -> bool {
        self.moods.lock().unwrap().panicked.contains(exchange)
    }

    async fn takes_time(&self) {
        let time = self.moods.lock().unwrap().chance.time(Duration::from_millis(20));
        tokio::time::sleep(time).await;
    }

    fn mood(&self, exchange: &str) -> Mood {
        let mut moods = self.moods.lock().unwrap();
        let failed = moods.failed.get(exchange).copied().unwrap_or_default();
        let mood = match moods.chance.below(12) {
            0 if failed < 2 => Mood::Fails,
            1..3 if failed < 2 && self.ingredients.has(Ingredient::LostAnswers) => Mood::LosesTheAnswer,
            3 if moods.chance.once_in(4) => Mood::Panics,
            _ => return Mood::Fine,
        };
        *moods.failed.entry(exchange.to_owned()).or_default() += 1;
        if matches!(mood, Mood::Panics) {
            moods.panicked.insert(exchange.to_owned());
        }
        mood
    }
}

#[async_trait]
impl HistoryStore for Moody {
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
        match self.mood(append.exchange.id.as_str()) {
            Mood::Fine => self.inner.append(id, append).await,
            Mood::Fails => Err(StoreError::unavailable("in a mood")),
            Mood::LosesTheAnswer => {
                self.inner.append(id, append).await?;
                Err(StoreError::unavailable("the answer is lost"))
            }
            Mood::Panics => on_purpose("the store panics"),
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
