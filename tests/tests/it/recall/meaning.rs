//! The search by meaning returns the same in every store.

use std::sync::Arc;

use tests::{Storage, over_every_store, rng::hash};
use tower_chat_history::{
    BoxError,
    recall::{Embedder, LogSearch},
    store::Seq,
};

use super::{
    log::{LEN, exchange, questions},
    world::World,
};

over_every_store! {
    #[tokio::test]
    a_search_by_meaning_returns_what_it_returns_in_memory,
}

/// A model whose vectors have a number for each of 32 groups of words.
#[derive(Debug)]
struct Groups;

#[async_trait::async_trait]
impl Embedder for Groups {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, BoxError> {
        let vector = |text: String| {
            // No text is without direction.
            let mut vector = vec![0.01; 32];
            for word in text.split_whitespace() {
                vector[usize::try_from(hash([word]) % 32).unwrap_or_default()] += 1.0;
            }
            vector
        };
        Ok(texts.into_iter().map(vector).collect())
    }
}

fn by_meaning(search: LogSearch) -> LogSearch {
    search.by_meaning(Arc::new(Groups)).least_cosine(0.9)
}

async fn a_search_by_meaning_returns_what_it_returns_in_memory(storage: Storage) {
    let world = World::new(storage, by_meaning).await;
    world.append(0..LEN, |position| exchange(1, position)).await;
    let before = Seq::new(LEN - 4);
    assert!(world.check(&questions(), before).await > 25);
}
