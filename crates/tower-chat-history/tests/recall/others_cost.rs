//! The cost of a search in other conversations is bounded, whatever their number and length.

use std::time::Duration;

use tower_chat_history::recall::{SearchAnswer, SearchError};
use tower_chat_history_core::Seq;

use crate::{
    halting::Halting,
    others::{chapters, found, id, index, say, scope, search},
};

/// Returns the calls of the store for a search beside this many conversations.
async fn calls_beside(conversations: usize) -> usize {
    let store = Halting::new();
    for number in 0..conversations {
        say(&store, &id(&format!("acme/ann/{number}")), ["My dog is called Rex."]).await;
    }
    let index = index(&store, scope(2));
    let before = store.calls();
    let found = found(&store, &index, &id("acme/ann/new"), "What is my dog called?").await;
    assert_eq!(found.others.searched as usize, conversations.min(20));
    assert!(!found.others.is_incomplete);
    store.calls() - before
}

#[tokio::test]
async fn the_calls_do_not_grow_with_the_number_of_conversations() {
    let few = calls_beside(20).await;
    assert_eq!(calls_beside(100).await, few);
    assert!(calls_beside(400).await <= few + 2, "their listing has more pages, up to the walk");
}

#[tokio::test]
async fn more_conversations_than_the_walk_are_reported() {
    let store = Halting::new();
    for number in 0..30 {
        say(&store, &id(&format!("acme/ann/{number}")), ["My dog is called Rex."]).await;
    }
    let index = index(&store, scope(2).conversations(3).walk(10));
    let found = found(&store, &index, &id("acme/ann/new"), "What is my dog called?").await;
    assert_eq!((found.others.searched, found.others.is_incomplete), (3, true));
}

#[tokio::test]
async fn the_newest_conversations_share_the_limits() {
    let store = Halting::new();
    for number in 0..8 {
        say(&store, &id(&format!("acme/ann/{number}")), (0..200).map(|number| format!("{number} {}", "-".repeat(600))))
            .await;
    }
    say(&store, &id("acme/ann/short"), ["My dog is called Rex."]).await;
    let ann = index(&store, scope(2));
    let before = store.read();
    let searched = found(&store, &ann, &id("acme/ann/new"), "What is my dog called?").await;
    // Each exchange has more than 600 bytes. Of each log, a page may have one too many.
    let searched_exchanges = 1_601 - searched.others.unsearched;
    assert!((700..(512 << 10) / 600).contains(&searched_exchanges), "{searched_exchanges}");
    assert!((store.read() - before) as u64 <= searched_exchanges + 8, "{}", store.read() - before);
    assert!(searched.recalled.is_some(), "a short conversation is searched whole");
    assert_eq!(searched.unsearched, 0, "the conversation itself has nothing to search");

    // Long messages are limited by their bytes. The newest one of each conversation exceeds its part.
    let store = Halting::new();
    for number in 0..40 {
        say(&store, &id(&format!("acme/bob/{number}")), ["older ", "newer "].map(|word| word.repeat(4_000))).await;
    }
    let bob = index(&store, scope(2).conversations(40));
    let searched = found(&store, &bob, &id("acme/bob/new"), "Which newer word?").await;
    assert!(searched.documents <= 4_000, "{}", searched.documents);
    assert_eq!(searched.others.unsearched, 40);
}

#[tokio::test]
async fn a_second_question_reads_nothing_of_others() {
    let store = Halting::new();
    for number in 0..30 {
        let size = 100 * (number + 1);
        let texts = (0..100).map(|page| format!("page {page} {}", "-".repeat(size)));
        say(&store, &id(&format!("acme/ann/{number}")), texts).await;
    }
    let index = index(&store, scope(2));
    let new = id("acme/ann/new");
    let first = found(&store, &index, &new, "Which dog?").await;
    assert!(first.others.unsearched > 0, "they are larger than their parts");
    let read = store.read();
    assert_eq!(found(&store, &index, &new, "Which dog?").await, first);
    assert_eq!(store.read(), read);
}

#[tokio::test]
async fn the_time_limit_holds_for_all_conversations_together() {
    let store = Halting::new();
    for number in 0..20 {
        say(&store, &id(&format!("acme/ann/{number}")), chapters(25)).await;
    }
    let index = index(&store, scope(2)).time_limit(Duration::ZERO);
    let ask = tower_chat_history::recall::Ask {
        conversation: &id("acme/ann/new"),
        revision: None,
        before: Seq::FIRST,
        input: &[tower_chat_history_core::Message::user("Which chapter?")],
        already: &[],
        allowance: 1000,
        cost: &|_| 1,
    };
    assert!(matches!(index.search(ask).await, Err(SearchError::TimedOut(_))));
    let unlimited = index.time_limit(Duration::from_secs(3600));
    let searched = search(&store, &unlimited, &id("acme/ann/new"), Seq::FIRST, "Which chapter?", &[]).await;
    assert!(matches!(searched, SearchAnswer::Found(_)));
}
