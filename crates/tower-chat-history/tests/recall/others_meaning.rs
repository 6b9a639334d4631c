//! A search by meaning in other conversations.

use tower_chat_history::recall::{Gate, LogSearch, Meaning};
use tower_chat_history_core::{ConversationId, HistoryStoreExt};

use crate::{
    halting::Halting,
    meaning::Subjects,
    others::{found, id, index, say, scope},
};

const NAMED: &str = "Rex barked at the postman.";
/// It shares a word with each conversation, and no word with the message that it is about.
const QUESTION: &str = "Is note1 about an animal?";

fn by_meaning(store: &Halting) -> LogSearch {
    index(store, scope(2)).gate(Gate::always_open()).by_meaning(Subjects::new())
}

/// Appends exchanges with one passage each.
async fn chat(store: &Halting, id: &ConversationId, len: usize, named: Option<usize>) {
    let text = |number: usize| match named {
        Some(at) if at == number => NAMED.to_owned(),
        _ => format!("note{number} on page {}", number % 7),
    };
    say(store, id, (0..len).map(text)).await;
}

/// Makes the vectors of a conversation.
async fn prepare(store: &Halting, index: &LogSearch, id: &ConversationId) {
    let revision = store.store.conversation(id).revision().await.unwrap().unwrap();
    while index.prepare(id, revision, revision.next()).await.unwrap().more {}
}

#[tokio::test]
async fn messages_of_the_same_meaning_are_found_in_other_conversations() {
    let store = Halting::new();
    let index = by_meaning(&store);
    for number in 0..3 {
        let other = id(&format!("acme/ann/{number}"));
        chat(&store, &other, 128, (number == 1).then_some(5)).await;
        prepare(&store, &index, &other).await;
    }
    let found = found(&store, &index, &id("acme/ann/new"), QUESTION).await;
    assert_eq!(found.meaning, Meaning::Compared { vectors: 3 * 128 });
    assert_eq!((found.others.searched, found.others.failed), (3, 0));
    assert!(found.recalled.unwrap().message.text().contains("Rex"));
}
