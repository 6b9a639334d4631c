//! The search by meaning returns the same in every store.

use std::sync::Arc;

use tests::{Storage, over_every_store, rng::hash};
use tower_chat_history::{
    BoxError,
    recall::{Embedder, StoredIndex},
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

    fn model(&self) -> &'static str {
        "groups"
    }
}

fn by_meaning(index: StoredIndex) -> StoredIndex {
    index.by_meaning(Arc::new(Groups)).least_cosine(0.9)
}

async fn a_search_by_meaning_returns_what_it_returns_in_memory(storage: Storage) {
    let world = World::new(storage, by_meaning);
    world.append(0..LEN, |position| exchange(1, position)).await;
    let before = Seq::new(LEN - 4);
    let (index, replica) = (world.index(), world.index_of_replica().await);
    assert_eq!(world.prepare(&index, Seq::new(130)).await, (2, 0));
    assert_eq!(world.prepare(&replica, before).await, (3, 0));
    assert!(world.check(&questions(), before).await > 25);
}
