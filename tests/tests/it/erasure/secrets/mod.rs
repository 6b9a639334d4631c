//! A secret that one person has said, in every place where a store keeps text. After an erasure with a scrub, and
//! after the steps that the documentation leaves to the operator, it is found nowhere: not in a file, not in a dump,
//! and not in the results of caches.

pub(crate) mod places;
pub(crate) mod plant;
pub(crate) mod search;
mod served;

use std::sync::Arc;

use tests::FullStore;
use tower_chat_history::{
    CachedStore, HistoryStore as _,
    store::{Erase as _, EraseExt as _},
};

use self::{
    places::{Place, PostgresPlace, RedisPlace, SqlitePlace},
    plant::{NEIGHBORS, PERSON, id, plant_all, snapshot},
    served::Process,
};
use super::world::prefix;

/// The conversations of the person.
const CONVERSATIONS: usize = 1_000;
/// The conversations of neighbors, whose ids are similar.
const OF_NEIGHBORS: usize = 50;

#[tokio::test]
async fn an_erased_secret_is_nowhere_in_sqlite() {
    an_erased_secret_is_nowhere(SqlitePlace::new()).await;
}

#[tokio::test]
async fn an_erased_secret_is_nowhere_in_postgres() {
    if PostgresPlace::is_available() {
        an_erased_secret_is_nowhere(PostgresPlace::new().await).await;
    }
}

#[tokio::test]
async fn an_erased_secret_is_nowhere_in_redis() {
    if RedisPlace::is_available() {
        an_erased_secret_is_nowhere(RedisPlace::new()).await;
    }
}

async fn an_erased_secret_is_nowhere(place: impl Place) {
    let store = place.open().await;
    let cached: Arc<dyn FullStore> = Arc::new(CachedStore::new(Arc::clone(&store)));
    plant_all(&cached, PERSON, CONVERSATIONS).await;
    for neighbor in NEIGHBORS {
        plant_all(&cached, neighbor, OF_NEIGHBORS).await;
    }
    // Two processes have everything in their caches.
    let processes = [Process::new(cached), Process::new(Arc::new(CachedStore::new(place.open().await)))];
    for process in &processes {
        process.serve().await;
    }
    let before = snapshot(&store, NEIGHBORS).await;
    place.write_all_files();

    // A store remembers the ids of deletions.
    store.delete(&id(PERSON, CONVERSATIONS)).await.unwrap();
    let under = prefix(PERSON);
    let counted = store.count(&under).await.unwrap().total();
    assert_eq!(counted.conversations, CONVERSATIONS as u64);
    let receipt = processes[0].store().erase_all(&under).await.unwrap();
    assert!(receipt.is_complete(), "{receipt:?}");
    assert_eq!(receipt.removed.total(), counted);
    assert_ne!(place.found(), [""; 0], "the search finds what only a scrub removes");

    for process in &processes {
        process.serve_nothing().await;
    }
    place.an_hour_passes();
    let scrubbed = store.scrub().await.unwrap();
    let receipt = receipt.scrubbed(scrubbed);
    place.do_the_operators_steps();
    assert_eq!(place.found(), [""; 0], "{:?}", receipt.scrubbed);
    if let Some(dump) = place.dump() {
        assert!(String::from_utf8_lossy(&dump).contains("something-question"), "the dump has the neighbors");
        assert_eq!(search::secrets_in(&dump), [""; 0], "in a dump");
    }
    assert_eq!(search::secrets_in(serde_json::to_string(&receipt).unwrap().as_bytes()), [""; 0], "in the receipt");
    assert_eq!(snapshot(&store, NEIGHBORS).await, before, "nothing else was touched");
}
