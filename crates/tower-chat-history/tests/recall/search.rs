//! The messages that are found by words, and their order.

use proptest::prelude::*;
use tower_chat_history::recall::{Analyzer, Gate, Language, LogTerms, Ranking, Search};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{Message, Recorded, Seq};

use crate::logs::{log, repeated, words};

fn search(log: &[Recorded], query: &str, within: (u64, u64)) -> Ranking {
    let analyzer = Analyzer::new([Language::English, Language::German]);
    let within = Seq::new(within.0)..Seq::new(within.1);
    Search::new(within, Gate::new(&analyzer)).run(&LogTerms::of(&analyzer, log), query)
}

#[test]
fn a_fact_is_found_by_another_form_of_its_words() {
    let mut messages: Vec<Message> = (0..400).map(|n| Message::user(format!("Chapter {n} of the novel"))).collect();
    messages[100] = Message::user("My sister is running a bakery in Lisbon.");
    let log = Recorded::log(messages.into_iter().flat_map(|m| [m, Message::assistant("Noted.")]).collect());
    let ranking = search(&log, "Where does my sister run her bakery?", (0, 390));
    assert!(ranking.gate.open);
    assert_eq!((ranking.hits[0].seq, ranking.hits[0].message), (Seq::new(100), 0));
    assert!(!search(&log, "Where is my bicycle?", (0, 390)).gate.open);
    assert_eq!(search(&log, "Where is my sister's bakery?", (0, 0)).hits, []);
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
        let ranking = search(&log, question, (0, 95));
        assert!(ranking.gate.open, "{question}");
        assert_eq!((ranking.hits[0].seq, ranking.hits[0].message), (Seq::new(40), 0), "{question}");
    }
}

#[test]
fn of_equal_messages_the_newer_comes_first() {
    let log = Recorded::log((0..9).flat_map(|_| [Message::user("a dog"), Message::assistant("so")]).collect());
    let ranking = search(&log, "dog", (0, 9));
    let seqs: Vec<u64> = ranking.hits.iter().filter(|hit| hit.message == 0).map(|hit| hit.seq.get()).collect();
    assert_eq!(seqs, (0..9).rev().collect::<Vec<u64>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(48)))]

    #[test]
    fn only_the_range_counts_and_the_best_come_first(
        short in log(2..60),
        len in 1..200_u64,
        query in words(1..6),
        (from, to) in (0..220_u64, 0..220_u64),
    ) {
        let log = repeated(&short, len);
        let found = search(&log, &query, (from, to));
        prop_assert!(found.hits.is_sorted_by(|a, b| a.score > b.score || a.score == b.score && (a.seq, a.message) > (b.seq, b.message)));
        prop_assert!(found.hits.iter().all(|hit| (from..to).contains(&hit.seq.get()) && hit.score > 0.0));
        let inside: Vec<Recorded> = log.into_iter().filter(|recorded| (from..to).contains(&recorded.seq.get())).collect();
        prop_assert_eq!(search(&inside, &query, (0, u64::MAX)), found);
    }
}
