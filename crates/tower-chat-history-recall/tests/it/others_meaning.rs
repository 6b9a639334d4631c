//! A search by meaning in other conversations.

use std::sync::Arc;

use tower_chat_history_core::{ConversationId, HistoryStoreExt, Seq};
use tower_chat_history_recall::{Embedder, Gate, Meaning, StoredIndex};

use crate::{
    halting::Halting,
    others::{found, id, index, say, scope},
    store_meaning::Subjects,
};

const NAMED: &str = "Rex barked at the postman.";
/// It shares a word with each conversation, and no word with the message that it is about.
const QUESTION: &str = "Is note1 about an animal?";

fn by_meaning(store: &Halting) -> StoredIndex {
    let embedder: Arc<dyn Embedder> = Subjects::new("subjects");
    index(store, scope(2)).gate(Gate::always_open()).by_meaning(embedder)
}

/// Appends exchanges with one passage, or with ten.
async fn chat(store: &Halting, id: &ConversationId, len: usize, named: Option<usize>, is_long: bool) {
    let text = |number: usize| match named {
        Some(at) if at == number => NAMED.to_owned(),
        _ if is_long => format!("note{number} {}", "and so on, ".repeat(1_000)),
        _ => format!("note{number} on page {}", number % 7),
    };
    say(store, id, (0..len).map(text)).await;
}

/// Makes the index of a conversation.
async fn prepare(store: &Halting, index: &StoredIndex, id: &ConversationId) {
    let revision = store.store.conversation(id).revision().await.unwrap().unwrap();
    while index.index(id, revision, revision.next()).await.unwrap().more {}
}

fn vectors(meaning: &Meaning) -> u32 {
    match meaning {
        Meaning::Compared { vectors } => *vectors,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn messages_of_the_same_meaning_are_found_in_other_conversations() {
    let store = Halting::new();
    let index = by_meaning(&store);
    for number in 0..3 {
        let other = id(&format!("acme/ann/{number}"));
        chat(&store, &other, 128, (number == 1).then_some(5), false).await;
        prepare(&store, &index, &other).await;
    }
    let found = found(&store, &index, &id("acme/ann/new"), QUESTION).await;
    assert_eq!((vectors(&found.meaning), found.others.searched, found.others.failed), (3 * 128, 3, 0));
    assert!(found.recalled.unwrap().message.text().contains("Rex"));
}

#[tokio::test]
async fn the_newest_vectors_of_each_conversation_are_compared_also_if_there_are_too_many() {
    let store = Halting::new();
    let index = by_meaning(&store);
    for number in 0..20 {
        // About 2,500 vectors each, of which a thousand are compared.
        let other = id(&format!("acme/ann/{number}"));
        chat(&store, &other, 256, (number == 4).then_some(250), true).await;
        prepare(&store, &index, &other).await;
    }
    let small = id("acme/ann/small");
    chat(&store, &small, 64, None, false).await;
    prepare(&store, &index, &small).await;
    let found = found(&store, &index, &id("acme/ann/new"), QUESTION).await;
    let compared = vectors(&found.meaning);
    assert!((19_000..=20_000).contains(&compared), "{compared}");
    assert_eq!((found.others.searched, found.others.failed), (20, 0));
    let cited = found.recalled.unwrap().citations;
    assert!(
        cited.iter().any(|one| one.conversation == Some(id("acme/ann/4")) && one.seq == Seq::new(250)),
        "{cited:?}"
    );
}
