//! Settings of the index have the same effect in any order.

use std::sync::Arc;

use tower_chat_history_core::Seq;
use tower_chat_history_recall::{Analyzer, Meaning, StoredIndex};

use crate::{
    store_index::Chat,
    store_meaning::{QUESTION, Subjects, chat},
};

fn new(chat: &Chat) -> StoredIndex {
    StoredIndex::new(Arc::new(chat.store.clone()), Analyzer::default())
}

#[tokio::test]
async fn the_current_model_is_no_former_one() {
    let chat = chat(200).await;
    let embedder = Subjects::new("subjects");
    let former = ["subjects", "others"];
    let before = Seq::new(190);
    for index in [
        new(&chat).by_meaning(Arc::<Subjects>::clone(&embedder)).former_models(former),
        new(&chat).former_models(former).by_meaning(Arc::<Subjects>::clone(&embedder)),
    ] {
        for _ in 0..8 {
            chat.step(&index, before).await;
        }
        assert!(!chat.step(&index, before).await.more);
        assert_eq!(chat.found(&index, QUESTION, before).await.meaning, Meaning::Compared { vectors: 128 });
    }
    assert_eq!(embedder.embedded(), 128 + 2, "each passage once, and each question");
}

#[tokio::test]
async fn the_least_cosine_can_be_set_before_the_model() {
    let chat = chat(200).await;
    let embedder = Subjects::new("subjects");
    let before = Seq::new(190);
    let index = new(&chat).least_cosine(0.9).by_meaning(Arc::<Subjects>::clone(&embedder));
    chat.index_all(&index, before).await;
    let question = "Do I have a pet animal?";
    assert!(chat.found(&index, question, before).await.gate.open);
    let again = index.by_meaning(embedder);
    assert!(chat.found(&again, question, before).await.gate.open, "setting the model keeps it");
}

#[tokio::test]
async fn debug_shows_settings_and_no_conversations() {
    let chat = chat(100).await;
    let index = new(&chat).scan_limit(7).by_meaning(Subjects::new("subjects"));
    chat.index_all(&index, Seq::new(90)).await;
    let analyzer = Analyzer::default();
    let expected = format!(
        "StoredIndex {{ analyzer: {:?}, scan_limit: 7, scope: None, model: Some(\"subjects\"), .. }}",
        analyzer.id()
    );
    assert_eq!(format!("{index:?}"), expected);
}

#[tokio::test]
async fn former_records_are_looked_for_once() {
    let chat = chat(100).await;
    let index = new(&chat).former_analyzers(["another"]).former_models(["other"]);
    assert!(chat.step(&index, Seq::new(90)).await.more, "they are looked for after the words");
    let calls = chat.store.calls();
    assert!(!chat.step(&index, Seq::new(90)).await.more);
    assert_eq!(chat.store.calls() - calls, 3, "the records, those of the analyzer, and the marks of the model");
    chat.say((0..100).map(|number| format!("later {number}"))).await;
    let calls = chat.store.calls();
    let done = chat.step(&index, Seq::new(190)).await;
    assert_eq!((done.blocks, done.more), (1, false));
    let again = new(&chat).former_analyzers(["another"]);
    assert_eq!(chat.step(&again, Seq::new(190)).await.blocks, 0);
    assert!(chat.store.calls() - calls >= 4, "another process looks for them");
}
