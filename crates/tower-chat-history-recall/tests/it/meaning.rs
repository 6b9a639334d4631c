//! Search by meaning, with an embedder that is a table of synonyms.

use proptest::prelude::*;
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{Message, Recorded, Seq};
use tower_chat_history_recall::{
    Analyzer, Gate, LogIndex, Passage, Query, Ranking, Search, Selector, Vector, VectorBlock,
};

use crate::logs::{log, words};

/// Words of one meaning, a dimension each.
const MEANINGS: [&[&str]; 5] =
    [&["dog", "hound", "puppy"], &["eats", "devours"], &["fish", "salmon"], &["blue", "azure"], &["Tokyo", "Japan"]];

/// Returns the number of words of each meaning. The last dimension is the same for all texts.
fn embed(text: &str) -> Vector {
    let count = |words: &&[&str]| text.split(' ').filter(|word| words.contains(word)).count();
    let numbers: Vec<f32> =
        MEANINGS.iter().map(|words| f32::from(u8::try_from(count(words)).unwrap_or(u8::MAX))).collect();
    Vector::new(&[&numbers[..], &[0.1]].concat()).unwrap()
}

fn vectors(log: &[Recorded]) -> VectorBlock {
    let mut block = VectorBlock::new(MEANINGS.len() + 1);
    for recorded in log {
        for passage in Passage::of(&recorded.exchange) {
            assert!(block.push(recorded.seq, passage.message, embed(&passage.text)));
        }
    }
    block
}

fn rank(log: &[Recorded], text: &str) -> (Ranking, Ranking) {
    let analyzer = Analyzer::default();
    let within = Seq::FIRST..Seq::new(log.len() as u64);
    let search = Search::new(within.clone(), Gate::always_open());
    let by_words = search.run(&LogIndex::new(analyzer.clone()), log, &Query::new(&analyzer, text)).unwrap();
    let by_meaning = VectorBlock::nearest([&vectors(log)], &embed(text), &within, Search::LIMIT);
    (by_words.clone(), by_words.fused_with(&by_meaning))
}

#[test]
fn a_synonym_is_found_by_meaning_only() {
    let mut texts = vec!["nothing of note"; 60];
    (texts[20], texts[40]) = ("my puppy devours salmon", "a blue car");
    let log =
        Recorded::log(texts.into_iter().flat_map(|text| [Message::user(text), Message::assistant("so")]).collect());
    let (by_words, fused) = rank(&log, "dog eats fish");
    assert_eq!(by_words.hits, []);
    assert_eq!((fused.hits[0].seq, fused.hits[0].message), (Seq::new(20), 0));
    let cites = Selector::new(Seq::FIRST..Seq::new(60), 100).ratio(0.0).units(1).select(&fused, &log, |_, _| 1);
    assert!(cites.iter().any(|cite| cite.seq == Seq::new(20)));
}

#[test]
fn without_vectors_the_ranking_by_words_stays() {
    let log = Recorded::log((0..30).map(|n| Message::user(format!("dog {}", n % 5))).collect());
    let (by_words, _) = rank(&log, "dog 3");
    let places = |ranking: &Ranking| ranking.hits.iter().map(|hit| (hit.seq, hit.message)).collect::<Vec<_>>();
    assert_eq!(places(&by_words.clone().fused_with(&[])), places(&by_words));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(32)))]

    #[test]
    fn a_fused_ranking_has_the_messages_of_both(log in log(1..40), query in words(1..6)) {
        let (by_words, fused) = rank(&log, &query);
        let has = |seq, message| fused.hits.iter().any(|hit| (hit.seq, hit.message) == (seq, message));
        prop_assert!(by_words.hits.iter().all(|hit| has(hit.seq, hit.message)));
        prop_assert!(fused.hits.is_sorted_by(|a, b| a.score > b.score || a.score == b.score && (a.seq, a.message) > (b.seq, b.message)));
    }
}
