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
    a_search_in_an_index_of_two_processes_returns_what_it_returns_in_memory,
}

/// The start of the window.
const BEFORE: Seq = Seq::new(LEN - 4);
/// The least number of all questions for which messages are found.
const ANSWERED: usize = 25;
/// The same, of a few questions.
const FEW_ANSWERED: usize = 3;

/// Returns two of the few questions, for searches that read much.
fn two() -> Vec<&'static str> {
    few().into_iter().take(2).collect()
}

async fn filled(storage: Storage) -> World {
    let world = World::new(storage, |index| index);
    world.append(0..LEN, |position| exchange(1, position)).await;
    world
}

async fn a_search_returns_what_it_returns_in_memory(storage: Storage) {
    let world = filled(storage).await;
    // Each search reads the whole log.
    assert!(world.check(&two(), BEFORE).await > 0, "nothing is indexed");
    let index = world.index();
    assert_eq!(world.prepare(&index, Seq::new(200)).await, (3, 0));
    assert!(world.check(&two(), BEFORE).await > 0, "three blocks are indexed");
    assert_eq!(world.prepare(&index, BEFORE).await, (2, 0));
    assert!(world.check(&few(), BEFORE).await >= FEW_ANSWERED, "all blocks are indexed");
    world.check(&two(), Seq::new(170)).await;
}

pub(crate) async fn a_search_of_a_few_questions_returns_what_it_returns_in_memory(storage: Storage) {
    let world = filled(storage).await;
    world.prepare(&world.index(), BEFORE).await;
    assert!(world.check(&few(), BEFORE).await >= FEW_ANSWERED);
}

async fn a_search_in_a_truncated_log_returns_what_it_returns_in_memory(storage: Storage) {
    let world = filled(storage).await;
    let index = world.index();
    world.prepare(&index, BEFORE).await;
    world.truncate(Seq::new(205)).await;
    assert!(world.check(&two(), Seq::new(204)).await > 0);
    // The removed positions get other exchanges.
    world.append(205..LEN, |position| exchange(2, position)).await;
    assert!(world.check(&two(), BEFORE).await > 0, "three blocks are left");
    assert_eq!(world.prepare(&index, BEFORE).await, (2, 0));
    assert!(world.check(&few(), BEFORE).await >= FEW_ANSWERED, "all blocks are indexed again");
}

#[tokio::test]
async fn all_searches_in_sqlite_return_what_they_return_in_memory() {
    let world = filled(Storage::sqlite().await.unwrap()).await;
    world.prepare(&world.index(), BEFORE).await;
    assert!(world.check(&questions(), BEFORE).await >= ANSWERED);
    let answered = pruned(Storage::sqlite().await.unwrap(), Derived::Keep, 0, &questions()).await;
    // Eight facts are gone.
    assert!((ANSWERED - 9..ANSWERED).contains(&answered), "{answered}");
}

async fn a_search_in_a_pruned_log_returns_what_it_returns_in_memory(storage: Storage) {
    assert!(pruned(storage, Derived::Keep, 0, &few()).await > 0);
}

async fn a_search_in_a_log_without_traces_returns_what_it_returns_in_memory(storage: Storage) {
    // The block in which the log begins was made from exchanges that are gone.
    assert!(pruned(storage, Derived::Erase, 1, &few()).await > 0);
}

/// Returns the number of questions for which the rest of a pruned log has messages.
async fn pruned(storage: Storage, derived: Derived, again: u32, questions: &[&str]) -> usize {
    let world = filled(storage).await;
    let index = world.index();
    assert_eq!(world.prepare(&index, BEFORE).await, (5, 0));
    world.prune(Seq::new(100), derived).await;
    world.check(&few(), BEFORE).await;
    assert_eq!(world.prepare(&index, BEFORE).await, (again, 0));
    world.check(questions, BEFORE).await
}

async fn a_search_in_an_index_of_two_processes_returns_what_it_returns_in_memory(storage: Storage) {
    let world = World::new(storage, |index| index);
    let (index, replica) = (world.index(), world.index_of_replica().await);
    world.append(0..LEN / 2, |position| exchange(1, position)).await;
    assert_eq!(world.prepare(&index, Seq::new(LEN / 2)).await, (2, 0));
    world.append(LEN / 2..LEN, |position| exchange(1, position)).await;
    assert_eq!(world.prepare(&replica, BEFORE).await, (3, 0));
    assert!(world.check(&few(), BEFORE).await >= FEW_ANSWERED);
    assert_eq!(world.prepare(&index, BEFORE).await, (0, 0), "nothing is left to do");
}
