//! A text that the embedder always refuses holds up no other block, and is tried again less and less often.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use tower_chat_history_core::Seq;
use tower_chat_history_recall::{Embedder, Meaning, StoredIndex};

use crate::store_index::Chat;

/// Refuses one text.
#[derive(Debug, Default)]
struct Refuses {
    calls: AtomicUsize,
    refused: AtomicUsize,
    is_down: AtomicBool,
    accepts_all: AtomicBool,
}

#[async_trait::async_trait]
impl Embedder for Refuses {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, Box<dyn Error + Send + Sync>> {
        self.calls.fetch_add(1, Relaxed);
        if self.is_down.load(Relaxed) {
            return Err("it is down".into());
        }
        if texts.iter().any(|text| text.contains("refused")) && !self.accepts_all.load(Relaxed) {
            self.refused.fetch_add(1, Relaxed);
            return Err("it is refused".into());
        }
        Ok(texts.iter().map(|text| vec![1.0, text.len() as f32]).collect())
    }

    fn model(&self) -> &str {
        "refuses"
    }
}

const BEFORE: Seq = Seq::new(320);

/// Returns a log of five blocks with a text at this position that is refused.
async fn chat(refused: u64) -> (Chat, Arc<Refuses>, StoredIndex) {
    let chat = Chat::new();
    chat.say((0..330).map(|number| if number == refused { "refused".to_owned() } else { format!("note{number}") }))
        .await;
    let embedder = Arc::new(Refuses::default());
    let index = chat.index().by_meaning(Arc::clone(&embedder) as Arc<dyn Embedder>);
    (chat, embedder, index)
}

/// Searches and makes a step, as a turn does.
async fn turn(chat: &Chat, index: &StoredIndex) -> Meaning {
    let found = chat.found(index, "Which note7?", BEFORE).await;
    chat.step(index, BEFORE).await;
    found.meaning
}

#[tokio::test]
async fn a_refused_block_holds_up_no_other_block() {
    for at in [300, 130, 1] {
        let (chat, embedder, index) = chat(at).await;
        for _ in 0..4 {
            turn(&chat, &index).await;
        }
        assert_eq!(turn(&chat, &index).await, Meaning::Compared { vectors: 4 * 64 }, "{at}");
        assert!(embedder.refused.load(Relaxed) > 0);
        assert_eq!(chat.step(&index, BEFORE).await.refused, 1);
    }
}

#[tokio::test]
async fn a_refused_block_is_tried_again_less_and_less_often() {
    let (chat, embedder, index) = chat(130).await;
    let mut turns = Vec::new();
    for number in 0..100 {
        let before = embedder.refused.load(Relaxed);
        turn(&chat, &index).await;
        if embedder.refused.load(Relaxed) > before {
            turns.push(number);
        }
    }
    let waits: Vec<usize> = turns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [2, 3, 5, 9, 17, 33]);
    // Steps in between read nothing.
    let calls = chat.store.calls();
    let done = chat.step(&index, BEFORE).await;
    assert_eq!((done.refused, done.more, chat.store.calls()), (1, false, calls));

    embedder.accepts_all.store(true, Relaxed);
    for _ in 0..64 {
        chat.step(&index, BEFORE).await;
    }
    assert_eq!(turn(&chat, &index).await, Meaning::Compared { vectors: 5 * 64 });
    assert_eq!(chat.step(&index, BEFORE).await.refused, 0);
}

#[tokio::test]
async fn a_model_that_is_down_is_asked_once_for_each_step_and_makes_all_vectors_later() {
    let (chat, embedder, index) = chat(u64::MAX).await;
    turn(&chat, &index).await;
    embedder.is_down.store(true, Relaxed);
    let mut asked = Vec::new();
    for _ in 0..6 {
        let before = embedder.calls.load(Relaxed);
        assert!(chat.step(&index, BEFORE).await.embedding.is_some());
        asked.push(embedder.calls.load(Relaxed) - before);
    }
    // It had just embedded the question, so the first failure may be that of a text.
    assert_eq!(asked, [2, 1, 1, 1, 1, 1]);
    embedder.is_down.store(false, Relaxed);
    chat.step(&index, BEFORE).await;
    chat.step(&index, BEFORE).await;
    assert_eq!(turn(&chat, &index).await, Meaning::Compared { vectors: 5 * 64 });
}
