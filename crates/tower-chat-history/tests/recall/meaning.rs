//! The search by meaning: vectors are made once in a process, and searched with the words.

use std::{
    error::Error,
    sync::{Arc, Mutex},
};

use tower_chat_history::recall::{EmbedError, Embedder, LogSearch, Meaning};
use tower_chat_history_conformance::shorthand::conversation;
use tower_chat_history_core::{Derived, Prefix, Prune, PruneTo, Seq, Truncate};

use crate::store::{Chat, text};

/// Counts words of two subjects, so texts on a subject are near even if they share no word.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
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
    /// Refuses texts about the weather.
    NoWeather,
}

impl Subjects {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
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
        if matches!(mode, Mode::NoWeather) && texts.iter().any(|text| text.contains("storm")) {
            return Err("the weather is a secret".into());
        }
        let mut vectors: Vec<Vec<f32>> = texts.into_iter().map(vector).collect();
        match mode {
            Mode::Right | Mode::NoWeather => {}
            Mode::Fails => return Err("the model is down".into()),
            Mode::TooFew => vectors.truncate(0),
            Mode::NotANumber => vectors.iter_mut().for_each(|vector| vector[0] = f32::NAN),
            Mode::OtherDimension => vectors.iter_mut().for_each(|vector| vector.push(1.0)),
            Mode::TooLong => vectors.iter_mut().for_each(|vector| vector.resize(8193, 1.0)),
            Mode::Zero => vectors.iter_mut().for_each(|vector| vector.fill(0.0)),
        }
        Ok(vectors)
    }
}

fn log(chat: &Chat, embedder: &Arc<Subjects>) -> LogSearch {
    chat.log().by_meaning(Arc::<Subjects>::clone(embedder))
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
async fn messages_are_found_by_meaning_alone_and_after_a_restart() {
    let chat = chat(300).await;
    let embedder = Subjects::new();
    let before = Seq::new(290);
    let words = chat.found(&chat.log(), QUESTION, before).await;
    assert!(!text(&words).contains("Rex"));
    assert_eq!(words.meaning, Meaning::Unused);
    let log = log(&chat, &embedder);
    let found = chat.found(&log, QUESTION, before).await;
    assert_eq!((found.meaning, &found.recalled, found.unprepared), (Meaning::Missing, &words.recalled, 290));

    chat.prepare(&log, before).await;
    assert_eq!(embedder.embedded(), 290 + 1, "each passage once, and the question");
    assert!(embedder.batches.lock().unwrap().iter().all(|count| *count <= LogSearch::EMBED_BATCH));
    let found = chat.found(&log, QUESTION, before).await;
    assert_eq!((&found.meaning, found.best), (&Meaning::Compared { vectors: 290 }, words.best));
    assert!(text(&found).contains("Rex") && found.unprepared == 0);
    assert!(found.cost <= 2000);

    // A clone makes nothing again, and what left the window since is added.
    chat.prepare(&log.clone(), before).await;
    assert_eq!(embedder.embedded(), 292);
    chat.prepare(&log, Seq::new(295)).await;
    assert_eq!(embedder.embedded(), 297);

    // After a restart, the vectors are made again.
    let again = self::log(&chat, &embedder);
    assert_eq!(chat.found(&again, QUESTION, before).await.meaning, Meaning::Missing);
    chat.prepare(&again, before).await;
    assert_eq!(chat.found(&again, QUESTION, before).await, found);
}

#[tokio::test]
async fn a_preparation_makes_a_bounded_number_of_vectors_the_newest_first() {
    let chat = chat(2_500).await;
    let embedder = Subjects::new();
    let log = log(&chat, &embedder);
    let before = Seq::new(2_450);
    let revision = chat.revision().await.unwrap();
    let mut made = Vec::new();
    loop {
        let prepared = log.prepare(&chat.id, revision, before).await.unwrap();
        made.push(prepared.vectors);
        if !prepared.more {
            break;
        }
        let found = chat.found(&log, QUESTION, before).await;
        assert_eq!(found.unprepared, 2_000 - made.iter().sum::<u64>());
    }
    assert_eq!(made, [1_024, 976], "those of the newest 2,000 messages");
}

#[tokio::test]
async fn near_meaning_opens_the_gate_only_if_it_may() {
    let chat = chat(300).await;
    let embedder = Subjects::new();
    let shut = log(&chat, &embedder);
    let before = Seq::new(290);
    chat.prepare(&shut, before).await;
    let question = "Do I have a pet animal?";
    assert_eq!(chat.found(&shut, question, before).await.recalled, None);
    let open = shut.clone().least_cosine(0.9);
    let found = chat.found(&open, question, before).await;
    assert!(found.gate.open && text(&found).contains("Rex"));
    let found = chat.found(&open, "A pet animal in rain and weather?", before).await;
    assert!(!found.gate.open, "no message is near");
    let count = embedder.embedded();
    assert_eq!(chat.search(&shut, "Thanks!", before, 900).await, tower_chat_history::recall::SearchAnswer::Nothing);
    assert_eq!(embedder.embedded(), count, "small talk is not embedded");
}

#[tokio::test]
async fn a_failing_model_leaves_the_search_by_words() {
    let chat = chat(200).await;
    let embedder = Subjects::new();
    let log = log(&chat, &embedder);
    let before = Seq::new(190);
    let revision = chat.revision().await.unwrap();
    let words = chat.found(&chat.log(), QUESTION, before).await;
    for (mode, kind) in [
        (Mode::Fails, "embedder"),
        (Mode::TooFew, "vector_count"),
        (Mode::NotANumber, "vector_numbers"),
        (Mode::TooLong, "vector_dimension"),
    ] {
        embedder.set(mode);
        let found = chat.found(&log, QUESTION, before).await;
        assert!(matches!(&found.meaning, Meaning::Failed(error) if error.kind() == kind), "{found:?}");
        assert_eq!(found.recalled, words.recalled);
        let calls = embedder.batches.lock().unwrap().len();
        let prepared = log.prepare(&chat.id, revision, before).await.unwrap();
        assert_eq!(prepared.embedding.map(|error| error.kind()), Some(kind));
        assert!(prepared.more && embedder.batches.lock().unwrap().len() - calls == 2, "it is down");
    }
    embedder.set(Mode::Right);
    chat.prepare(&log, before).await;
    embedder.set(Mode::OtherDimension);
    let found = chat.found(&log, QUESTION, before).await;
    assert_eq!(found.meaning, Meaning::Failed(EmbedError::Dimension { expected: 3, found: 4 }));
    assert_eq!(found.recalled, words.recalled);
    embedder.set(Mode::Zero);
    assert_eq!(chat.found(&log, QUESTION, before).await.meaning, Meaning::Failed(EmbedError::NoDirection));
    chat.prepare(&log, Seq::new(200)).await;
    embedder.set(Mode::Right);
    let found = chat.found(&log, QUESTION, Seq::new(200)).await;
    assert_eq!((found.meaning, found.unprepared), (Meaning::Compared { vectors: 190 }, 0));
}

#[tokio::test]
async fn texts_that_a_model_refuses_have_no_vectors_and_do_not_hold_up_others() {
    let chat = chat(200).await;
    let embedder = Subjects::new();
    embedder.set(Mode::NoWeather);
    let log = log(&chat, &embedder);
    chat.prepare(&log, Seq::new(190)).await;
    let found = chat.found(&log, QUESTION, Seq::new(190)).await;
    assert_eq!((&found.meaning, found.unprepared), (&Meaning::Compared { vectors: 189 }, 1), "it is tried once more");
    chat.prepare(&log, Seq::new(190)).await;
    let found = chat.found(&log, QUESTION, Seq::new(190)).await;
    assert_eq!((&found.meaning, found.unprepared), (&Meaning::Compared { vectors: 189 }, 0));
    assert!(text(&found).contains("Rex"));
    let count = embedder.embedded();
    chat.prepare(&log, Seq::new(190)).await;
    assert_eq!(embedder.embedded(), count);
}

#[tokio::test]
async fn a_text_that_a_model_refused_for_a_while_gets_its_vector_later() {
    let chat = chat(200).await;
    let embedder = Subjects::new();
    embedder.set(Mode::NoWeather);
    let log = log(&chat, &embedder);
    chat.prepare(&log, Seq::new(190)).await;

    embedder.set(Mode::Right);
    let count = embedder.embedded();
    chat.prepare(&log, Seq::new(190)).await;
    assert_eq!(embedder.embedded(), count + 1, "only the text that was refused");
    let found = chat.found(&log, QUESTION, Seq::new(190)).await;
    assert_eq!((found.meaning, found.unprepared), (Meaning::Compared { vectors: 190 }, 0));
}

#[tokio::test]
async fn a_second_preparation_reads_nothing() {
    let chat = chat(300).await;
    let log = log(&chat, &Subjects::new()).messages(100);
    chat.prepare(&log, Seq::new(290)).await;
    assert_eq!(chat.store.read(), 100);
    chat.prepare(&log, Seq::new(290)).await;
    assert_eq!(chat.store.read(), 100);
}

#[tokio::test]
async fn what_was_forgotten_is_read_and_embedded_again() {
    let chat = chat(100).await;
    let embedder = Subjects::new();
    let log = log(&chat, &embedder);
    let before = Seq::new(90);
    chat.prepare(&log, before).await;
    // The gate is shut, so nothing is read to be shown.
    let first = chat.found(&log, "Which puppy?", before).await;
    let read = chat.store.read();

    // A clone shares the memory. Other conversations stay.
    log.clone().forget(&Prefix::from(&conversation("another")));
    assert_eq!(chat.found(&log, "Which puppy?", before).await, first);
    assert_eq!(chat.store.read(), read);

    log.clone().forget(&Prefix::from(&chat.id));
    assert_eq!(chat.found(&log, "Which puppy?", before).await.unprepared, 90);
    assert_eq!(chat.store.read(), read + 90);

    let embedded = embedder.embedded();
    chat.prepare(&log, before).await;
    assert_eq!(embedder.embedded(), embedded + 90);
    assert_eq!(chat.found(&log, "Which puppy?", before).await, first);
}

#[tokio::test]
async fn vectors_go_with_their_exchanges() {
    let chat = chat(300).await;
    let embedder = Subjects::new();
    let log = log(&chat, &embedder);
    let before = Seq::new(290);
    chat.prepare(&log, before).await;
    assert_eq!(chat.found(&log, QUESTION, before).await.meaning, Meaning::Compared { vectors: 290 });
    let keep = PruneTo::From(Seq::new(70));
    let incarnation = chat.revision().await.unwrap().incarnation();
    chat.store.store.prune(&chat.id, incarnation, keep, Derived::Keep).await.unwrap();
    let found = chat.found(&log, QUESTION, before).await;
    assert_eq!((&found.meaning, text(&found).contains("Rex")), (&Meaning::Compared { vectors: 220 }, false));
    chat.store.store.truncate(&chat.id, chat.revision().await.unwrap(), Seq::new(200), None).await.unwrap();
    assert_eq!(chat.found(&log, QUESTION, before).await.meaning, Meaning::Missing);
    chat.prepare(&log, before).await;
    assert_eq!(chat.found(&log, QUESTION, before).await.meaning, Meaning::Compared { vectors: 130 });
}

#[tokio::test]
async fn settings_have_the_same_effect_in_any_order() {
    let chat = chat(100).await;
    let before = Seq::new(90);
    for log in [
        chat.log().least_cosine(0.9).by_meaning(Subjects::new()).vector_bytes(1 << 20),
        chat.log().vector_bytes(1 << 20).by_meaning(Subjects::new()).least_cosine(0.9),
    ] {
        chat.prepare(&log, before).await;
        assert!(chat.found(&log, "Do I have a pet animal?", before).await.gate.open);
    }
}

#[tokio::test]
async fn vectors_that_do_not_fit_are_dropped() {
    let chat = chat(300).await;
    let log = chat.log().by_meaning(Subjects::new()).vector_bytes(10_000);
    chat.prepare(&log, Seq::new(290)).await;
    let found = chat.found(&log, QUESTION, Seq::new(290)).await;
    assert!((200..290).contains(&found.unprepared), "{}", found.unprepared);
}
