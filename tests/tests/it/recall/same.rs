//! Every store returns the same as the memory store, through every wrapper, also after the log was edited.
//!
//! All questions are asked in SQLite only. With the others, a few are enough.

use tests::{Storage, over_every_store};
use tower_chat_history::store::{Derived, Seq};

use super::{
    log::{LEN, exchange, few, questions},
    world::World,
};

over_every_store! {
    #[tokio::test]
    a_search_returns_what_it_returns_in_memory,
    a_search_in_a_truncated_log_returns_what_it_returns_in_memory,
    a_search_in_a_pruned_log_returns_what_it_returns_in_memory,
    a_search_in_a_log_without_traces_returns_what_it_returns_in_memory,
}

/// The start of the window.
const BEFORE: Seq = Seq::new(LEN - 4);
/// The least number of all questions for which messages are found.
const ANSWERED: usize = 25;
/// The same, of a few questions.
const FEW_ANSWERED: usize = 3;

async fn filled(storage: Storage) -> World {
    let world = World::new(storage, |search| search).await;
    world.append(0..LEN, |position| exchange(1, position)).await;
    world
}

pub(crate) async fn a_search_returns_what_it_returns_in_memory(storage: Storage) {
    let world = filled(storage).await;
    assert!(world.check(&few(), BEFORE).await >= FEW_ANSWERED);
    world.check(&few(), Seq::new(170)).await;
}

async fn a_search_in_a_truncated_log_returns_what_it_returns_in_memory(storage: Storage) {
    let world = filled(storage).await;
    world.check(&few(), BEFORE).await;
    world.truncate(Seq::new(205)).await;
    assert!(world.check(&few(), Seq::new(204)).await > 0);
    // The removed positions get other exchanges.
    world.append(205..LEN, |position| exchange(2, position)).await;
    assert!(world.check(&few(), BEFORE).await >= FEW_ANSWERED);
}

#[tokio::test]
async fn all_searches_in_sqlite_return_what_they_return_in_memory() {
    let world = filled(Storage::sqlite().await.unwrap()).await;
    assert!(world.check(&questions(), BEFORE).await >= ANSWERED);
    let answered = pruned(Storage::sqlite().await.unwrap(), Derived::Keep, &questions()).await;
    // Eight facts are gone.
    assert!((ANSWERED - 9..ANSWERED).contains(&answered), "{answered}");
}

async fn a_search_in_a_pruned_log_returns_what_it_returns_in_memory(storage: Storage) {
    assert!(pruned(storage, Derived::Keep, &few()).await > 0);
}

async fn a_search_in_a_log_without_traces_returns_what_it_returns_in_memory(storage: Storage) {
    assert!(pruned(storage, Derived::Erase, &few()).await > 0);
}

/// Returns the number of questions for which the rest of a pruned log has messages.
async fn pruned(storage: Storage, derived: Derived, questions: &[&str]) -> usize {
    let world = filled(storage).await;
    world.check(&few(), BEFORE).await;
    world.prune(Seq::new(100), derived).await;
    world.check(questions, BEFORE).await
}
