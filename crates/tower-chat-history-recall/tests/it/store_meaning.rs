//! Vectors in a store: made once, searched with the words, and never trusted.

use std::{
    error::Error,
    sync::{Arc, Mutex},
};

use tower_chat_history_core::{Attach, Derived, Prune, PruneTo, Seq, Truncate};
use tower_chat_history_recall::{Analyzer, EmbedError, Embedder, Meaning, Searched, StoredIndex};

use crate::{
    halting::Halting,
    store_index::{Chat, record},
};

/// Counts words of two subjects, so texts on a subject are near even if they share no word.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    model: &'static str,
    batches: Mutex<Vec<usize>>,
    mode: Mutex<Mode>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Mode {
    #[default]
    Right,
    Fails,
    TooFew,
    NotANumber,
    OtherDimension,
    TooLong,
    Zero,
}

impl Subjects {
    pub(crate) fn new(model: &'static str) -> Arc<Self> {
        Arc::new(Self { model, ..Self::default() })
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    pub(crate) fn embedded(&self) -> usize {
        self.batches.lock().unwrap().iter().sum()
    }
}

#[async_trait::async_trait]
impl Embedder for Subjects {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, Box<dyn Error + Send + Sync>> {
        let mode = *self.mode.lock().unwrap();
        self.batches.lock().unwrap().push(texts.len());
        let count = |text: &str, words: &[&str]| words.iter().filter(|word| text.contains(*word)).count() as f32;
        let vector = |text: String| {
            let animals = count(&text, &["dog", "Rex", "puppy", "pet", "animal"]);
            let weather = count(&text, &["rain", "sun", "storm", "weather", "forecast"]);
            vec![animals, weather, 0.1]
        };
        let mut vectors: Vec<Vec<f32>> = texts.into_iter().map(vector).collect();
        match mode {
            Mode::Right => {}
            Mode::Fails => return Err("the model is down".into()),
            Mode::TooFew => vectors.truncate(0),
            Mode::NotANumber => vectors.iter_mut().for_each(|vector| vector[0] = f32::NAN),
            Mode::OtherDimension => vectors.iter_mut().for_each(|vector| vector.push(1.0)),
            Mode::TooLong => vectors.iter_mut().for_each(|vector| vector.resize(8193, 1.0)),
            Mode::Zero => vectors.iter_mut().for_each(|vector| vector.fill(0.0)),
        }
        Ok(vectors)
    }

    fn model(&self) -> &str {
        self.model
    }
}

fn index(store: &Halting, embedder: &Arc<Subjects>) -> StoredIndex {
    let embedder: Arc<dyn Embedder> = Arc::<Subjects>::clone(embedder);
    StoredIndex::new(Arc::new(store.clone()), Analyzer::default()).by_meaning(embedder)
}

/// A log in which Rex is named at position 5, as no animal.
pub(crate) async fn chat(len: usize) -> Chat {
    let chat = Chat::new();
    let text = |number: usize| match number {
        5 => "Rex barked at the postman.".to_owned(),
        9 => "There was a storm.".to_owned(),
        number => format!("note{number} on page {}", number % 7),
    };
    chat.say((0..len).map(text)).await;
    chat
}

pub(crate) const QUESTION: &str = "Is note8 about an animal?";

#[tokio::test]
async fn messages_of_the_same_meaning_are_found() {
    let chat = chat(300).await;
    let embedder = Subjects::new("subjects");
    let index = index(&chat.store, &embedder);
    let before = Seq::new(290);
    let words = chat.found(&chat.index(), QUESTION, before).await;
    let shows = |recalled: &Option<tower_chat_history_core::Recalled>| {
        recalled.as_ref().is_some_and(|recalled| recalled.message.text().contains("Rex"))
    };
    assert!(!shows(&words.recalled) && words.meaning == Meaning::Unused);
    let found = chat.found(&index, QUESTION, before).await;
    assert_eq!((found.meaning, &found.recalled), (Meaning::Missing, &words.recalled));

    chat.index_all(&index, before).await;
    assert_eq!(embedder.embedded(), 256 + 1, "each passage once, and the question");
    assert!(embedder.batches.lock().unwrap().iter().all(|count| *count <= StoredIndex::EMBED_BATCH));
    let found = chat.found(&index, QUESTION, before).await;
    assert_eq!((found.meaning, found.best), (Meaning::Compared { vectors: 256 }, words.best));
    assert!(shows(&found.recalled));
    assert!(found.cost <= 2000);

    // Another process makes nothing again.
    let other = StoredIndex::clone(&index);
    chat.index_all(&other, before).await;
    chat.index_all(&self::index(&chat.store, &embedder), before).await;
    assert_eq!(embedder.embedded(), 258);
}

#[tokio::test]
async fn near_meaning_opens_the_gate_only_if_it_may() {
    let chat = chat(300).await;
    let embedder = Subjects::new("subjects");
    let shut = index(&chat.store, &embedder);
    let before = Seq::new(290);
    chat.index_all(&shut, before).await;
    let question = "Do I have a pet animal?";
    assert_eq!(chat.found(&shut, question, before).await.recalled, None);
    let found = chat.found(&shut.clone().least_cosine(0.9), question, before).await;
    assert!(found.gate.open && found.recalled.unwrap().message.text().contains("Rex"));
    let found = chat.found(&shut.clone().least_cosine(0.9), "A pet animal in rain and weather?", before).await;
    assert!(!found.gate.open, "no message is near");
    let count = embedder.embedded();
    assert_eq!(chat.found(&shut, "Thanks!", before).await.meaning, Meaning::Unused);
    assert_eq!(embedder.embedded(), count, "small talk is not embedded");
}

#[tokio::test]
async fn a_failing_model_leaves_the_search_by_words() {
    let chat = chat(200).await;
    let embedder = Subjects::new("subjects");
    let index = index(&chat.store, &embedder);
    let before = Seq::new(190);
    let words = chat.found(&chat.index(), QUESTION, before).await;
    for (mode, kind) in [
        (Mode::Fails, "embedder"),
        (Mode::TooFew, "vector_count"),
        (Mode::NotANumber, "vector_numbers"),
        (Mode::TooLong, "vector_dimension"),
    ] {
        embedder.set(mode);
        let found = chat.found(&index, QUESTION, before).await;
        assert!(matches!(&found.meaning, Meaning::Failed(error) if error.kind() == kind), "{found:?}");
        assert_eq!(found.recalled, words.recalled);
        let mut step = chat.step(&index, before).await;
        while step.more {
            step = chat.step(&index, before).await;
        }
        assert_eq!(step.embedding.map(|error| error.kind()), Some(kind));
        assert_eq!(chat.stored(&record("all")).await.len(), 2, "the words are indexed");
    }
    embedder.set(Mode::Right);
    chat.index_all(&index, before).await;
    embedder.set(Mode::OtherDimension);
    let found = chat.found(&index, QUESTION, before).await;
    assert_eq!(found.meaning, Meaning::Failed(EmbedError::Dimension { expected: 3, found: 4 }));
    assert_eq!(found.recalled, words.recalled);
    chat.say((0..100).map(|number| format!("later {number}"))).await;
    let step = chat.step(&index, Seq::new(290)).await;
    assert!(step.more && step.blocks == 2);
    let step = chat.step(&index, Seq::new(290)).await;
    assert_eq!(step.embedding, Some(EmbedError::Dimension { expected: 3, found: 4 }));
    embedder.set(Mode::Zero);
    assert_eq!(chat.found(&index, QUESTION, before).await.meaning, Meaning::Failed(EmbedError::NoDirection));
    chat.index_all(&index, Seq::new(290)).await;
    embedder.set(Mode::Right);
    assert_eq!(chat.found(&index, QUESTION, before).await.meaning, Meaning::Compared { vectors: 128 });
}

#[tokio::test]
async fn vectors_go_with_their_exchanges_and_with_their_model() {
    let chat = chat(300).await;
    let embedder = Subjects::new("subjects");
    let index = index(&chat.store, &embedder);
    let compared = async |index: &StoredIndex| match chat.search(index, QUESTION, Seq::new(290), 2000).await {
        Searched::Found(found) => found.meaning,
        other => panic!("{other:?}"),
    };
    chat.index_all(&index, Seq::new(290)).await;
    assert_eq!(compared(&index).await, Meaning::Compared { vectors: 256 });
    chat.store.store.truncate(&chat.id, chat.revision().await.unwrap(), Seq::new(200)).await.unwrap();
    assert_eq!(compared(&index).await, Meaning::Compared { vectors: 192 });
    let incarnation = chat.revision().await.unwrap().incarnation();
    let keep = PruneTo::From(Seq::new(70));
    chat.store.store.prune(&chat.id, incarnation, keep, Derived::Erase).await.unwrap();
    assert_eq!(compared(&index).await, Meaning::Compared { vectors: 64 });
    chat.index_all(&index, Seq::new(290)).await;
    assert_eq!(compared(&index).await, Meaning::Compared { vectors: 64 + 58 });

    let other = Subjects::new("others");
    let other = self::index(&chat.store, &other).former_models(["subjects"]);
    assert_eq!(compared(&other).await, Meaning::Missing);
    chat.index_all(&other, Seq::new(290)).await;
    assert_eq!(compared(&other).await, Meaning::Compared { vectors: 122 });
    assert_eq!(compared(&index).await, Meaning::Missing, "the vectors of the former model are removed");
}

#[tokio::test]
async fn damaged_vectors_are_made_again() {
    let chat = chat(200).await;
    let embedder = Subjects::new("subjects");
    let index = index(&chat.store, &embedder);
    let before = Seq::new(190);
    chat.index_all(&index, before).await;
    let name = format!("vectors/{:012x}/1", tower_chat_history_recall::Term::of("subjects").get());
    let mut stored = chat.stored(&name).await;
    assert_eq!(stored.len(), 1);
    let incarnation = chat.revision().await.unwrap().incarnation();
    stored[0].body = [1, 2, 3].as_slice().into();
    chat.store.store.attach(&chat.id, incarnation, &[stored[0].key()], &stored).await.unwrap();
    let found = chat.found(&index, QUESTION, before).await;
    assert_eq!((found.damaged, found.meaning), (1, Meaning::Compared { vectors: 64 }));
    chat.index_all(&index, before).await;
    let found = chat.found(&index, QUESTION, before).await;
    assert_eq!((found.damaged, found.meaning), (0, Meaning::Compared { vectors: 128 }));
}

#[tokio::test]
async fn interrupted_steps_make_vectors_once_they_are_repeated() {
    let chat = chat(200).await;
    let embedder = Subjects::new("subjects");
    let index = index(&chat.store, &embedder);
    let (before, mut calls) = (Seq::new(190), 0);
    loop {
        chat.store.halt_after(calls);
        let done = index.index(&chat.id, chat.revision().await.unwrap(), before).await;
        chat.store.halt_after(usize::MAX);
        let _ = chat.found(&index, QUESTION, before).await;
        match done {
            Ok(done) if !done.more => break,
            Ok(_) => calls = 0,
            Err(_) => calls += 1,
        }
    }
    assert_eq!(chat.found(&index, QUESTION, before).await.meaning, Meaning::Compared { vectors: 128 });
}
