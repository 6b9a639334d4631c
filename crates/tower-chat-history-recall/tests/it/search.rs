//! A search finds the same whatever is indexed already.

use std::sync::Arc;
use tower_chat_history_conformance::shorthand::cases;

use proptest::prelude::*;
use tower_chat_history_core::{Message, Recorded, Seq};
use tower_chat_history_recall::{Analyzer, Gate, IndexPart, Language, LogIndex, Query, Ranking, Search};

use crate::logs::{log, repeated, words};

fn search(index: &LogIndex, log: &[Recorded], query: &str, within: (u64, u64)) -> Ranking {
    let query = Query::new(index.analyzer(), query);
    let within = Seq::new(within.0)..Seq::new(within.1);
    Search::new(within, Gate::new(index.analyzer())).run(index, log, &query).unwrap()
}

fn indexed(log: &[Recorded]) -> LogIndex {
    let mut index = LogIndex::new(Analyzer::new([Language::English, Language::German]));
    index.cover(Seq::FIRST, log).unwrap();
    index
}

/// Returns the index as it is read from its records.
fn stored(index: &LogIndex, query: &str) -> LogIndex {
    let buckets = Query::new(index.analyzer(), query).buckets();
    let parts = index.parts().iter().map(|part| {
        let mut records = part.records(index.analyzer());
        let (_, last) = records.pop().unwrap();
        if !part.is_segment() {
            return IndexPart::block(index.analyzer(), &last).unwrap().unwrap();
        }
        let needed = (0..).zip(records).filter(|(bucket, _)| buckets.contains(bucket));
        let needed = needed.map(|(bucket, (_, table))| (bucket, table));
        IndexPart::segment(index.analyzer(), &last, needed).unwrap().unwrap()
    });
    LogIndex::from_parts(index.analyzer().clone(), parts.collect::<Vec<_>>().into_iter().rev())
}

#[test]
fn a_fact_is_found_by_another_form_of_its_words() {
    let mut messages: Vec<Message> = (0..400).map(|n| Message::user(format!("Chapter {n} of the novel"))).collect();
    messages[100] = Message::user("My sister is running a bakery in Lisbon.");
    let log = Recorded::log(messages.into_iter().flat_map(|m| [m, Message::assistant("Noted.")]).collect());
    let ranking = search(&indexed(&log), &log, "Where does my sister run her bakery?", (0, 390));
    assert!(ranking.gate.open);
    assert_eq!((ranking.hits[0].seq, ranking.hits[0].message), (Seq::new(100), 0));
    assert!(!search(&indexed(&log), &log, "Where is my bicycle?", (0, 390)).gate.open);
    assert_eq!(search(&indexed(&log), &log, "Where is my sister's bakery?", (0, 0)).hits, []);
}

#[test]
fn facts_are_found_in_scripts_without_spaces() {
    for (filler, fact, question) in [
        ("今天天气很好，我们去散步吧。", "我的狗叫小黑，它喜欢吃鱼。", "我的狗叫什么名字？"),
        ("今日は天気がいいですね。", "妹はリスボンでパン屋を開きました。", "パン屋はどこにありますか？"),
        ("오늘은 날씨가 좋아요.", "여동생이 부산에서 빵집을 열었어요.", "빵집은 어디에 있나요?"),
        ("วันนี้อากาศดีมาก", "น้องสาวเปิดร้านขนมปังที่เชียงใหม่", "ร้านขนมปังอยู่ที่ไหน?"),
    ] {
        let mut messages = vec![Message::user(filler); 100];
        messages[40] = Message::user(fact);
        let log = Recorded::log(messages.into_iter().flat_map(|m| [m, Message::assistant(filler)]).collect());
        let ranking = search(&indexed(&log), &log, question, (0, 95));
        assert!(ranking.gate.open, "{question}");
        assert_eq!((ranking.hits[0].seq, ranking.hits[0].message), (Seq::new(40), 0), "{question}");
    }
}

#[test]
fn of_equal_messages_the_newer_comes_first() {
    let log = Recorded::log((0..9).flat_map(|_| [Message::user("a dog"), Message::assistant("so")]).collect());
    let ranking = search(&indexed(&log), &log, "dog", (0, 9));
    let seqs: Vec<u64> = ranking.hits.iter().filter(|hit| hit.message == 0).map(|hit| hit.seq.get()).collect();
    assert_eq!(seqs, (0..9).rev().collect::<Vec<u64>>());
}

#[test]
fn segments_and_the_blocks_they_are_merged_from_are_one() {
    let short =
        Recorded::log((0..70).flat_map(|n| [Message::user(format!("dog {n}")), Message::assistant("walks")]).collect());
    let log = repeated(&short, IndexPart::SEGMENT + 200);
    let index = indexed(&log);
    let segments: Vec<bool> = index.parts().iter().map(IndexPart::is_segment).collect();
    assert_eq!(segments, [true, false, false, false]);
    let fresh = LogIndex::new(index.analyzer().clone());
    for query in ["dog 7", "walks", "Which dog walks in 33?"] {
        let expected = search(&fresh, &log, query, (5, IndexPart::SEGMENT + 130));
        assert!(!expected.hits.is_empty());
        assert_eq!(search(&index, &log, query, (5, IndexPart::SEGMENT + 130)), expected);
        assert_eq!(search(&stored(&index, query), &log, query, (5, IndexPart::SEGMENT + 130)), expected);
    }
    // Blocks that were not removed yet count once.
    let mut early = LogIndex::new(index.analyzer().clone());
    early.cover(Seq::FIRST, &log[..4000]).unwrap();
    let both = index.parts().iter().chain(early.parts()).cloned();
    assert_eq!(LogIndex::from_parts(index.analyzer().clone(), both).parts(), index.parts());
}

#[test]
fn a_truncation_at_any_position_leaves_the_index_of_the_shorter_log() {
    let turns = (0..192).flat_map(|n| [Message::user(format!("dog {}", n % 7)), Message::assistant("walks")]);
    let log = Recorded::log(turns.collect());
    let whole = indexed(&log);
    let fresh = LogIndex::new(whole.analyzer().clone());
    for len in 0..=192 {
        let mut index = whole.clone();
        index.truncate(Seq::new(len));
        let log = &log[..usize::try_from(len).unwrap()];
        assert_eq!(index.parts().len() as u64, len / IndexPart::BLOCK);
        assert_eq!(search(&index, log, "dog 3", (0, len)), search(&fresh, log, "dog 3", (0, len)));
        index.cover(Seq::FIRST, log).unwrap();
        assert_eq!(index.due(Seq::FIRST..Seq::new(len)).next(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(48)))]

    #[test]
    fn the_result_does_not_depend_on_the_index(
        short in log(2..60),
        len in 1..200_u64,
        covered in 0..200_usize,
        query in words(1..6),
        (from, to) in (0..220_u64, 0..220_u64),
    ) {
        let log = repeated(&short, len);
        let all = indexed(&log);
        let some = indexed(&log[..covered.min(log.len())]);
        let none = LogIndex::new(all.analyzer().clone());
        let expected = search(&none, &log, &query, (from, to));
        prop_assert!(expected.hits.is_sorted_by(|a, b| a.score > b.score || a.score == b.score && (a.seq, a.message) > (b.seq, b.message)));
        prop_assert!(expected.hits.iter().all(|hit| (from..to).contains(&hit.seq.get()) && hit.score > 0.0));
        for index in [&all, &some, &stored(&all, &query)] {
            prop_assert_eq!(&search(index, &log, &query, (from, to)), &expected);
        }
    }

    #[test]
    fn truncations_and_prunes_leave_the_index_of_a_fresh_log(
        short in log(2..60),
        len in 130..300_u64,
        (kept, first) in (0..300_u64, 0..200_u64),
        query in words(1..6),
        more in log(0..40),
        covers in any::<bool>(),
    ) {
        let mut log = repeated(&short, len);
        let mut index = indexed(&log);
        let kept = kept.min(len);
        log.truncate(usize::try_from(kept).unwrap());
        index.truncate(Seq::new(kept));
        log.extend((kept..).zip(&more).map(|(seq, recorded)| Recorded::new(Seq::new(seq), Arc::clone(&recorded.exchange))));
        log.retain(|recorded| recorded.seq.get() >= first);
        index.prune(Seq::new(first));
        if covers {
            index.cover(Seq::new(first), &log).unwrap();
        }
        prop_assert!(index.parts().iter().all(|part| part.range().end.get() <= len + 40));
        let fresh = LogIndex::new(index.analyzer().clone());
        let end = kept + more.len() as u64;
        let expected = search(&fresh, &log, &query, (first, end));
        prop_assert_eq!(&search(&index, &log, &query, (first, end)), &expected);
        prop_assert_eq!(&search(&stored(&index, &query), &log, &query, (first, end)), &expected);
    }
}
