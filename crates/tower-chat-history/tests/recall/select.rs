//! Selections are within the allowance and outside of what is shown.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use tower_chat_history::recall::{Analyzer, Gate, LogTerms, Ranking, Search, Selector, cited, is_recallable};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{Citation, Message, Recorded, Role, Seq};

use crate::logs::{log, of, words};

fn rank(log: &[Recorded], query: &str, before: u64) -> Ranking {
    let analyzer = Analyzer::default();
    let search = Search::new(Seq::FIRST..Seq::new(before), Gate::always_open());
    search.run(&LogTerms::of(&analyzer, log), query)
}

fn cost(recorded: &Recorded, message: u32) -> u64 {
    recorded.exchange.messages[message as usize].text().len() as u64 + 4
}

fn texts(log: &[Recorded], cites: &[Citation]) -> Vec<String> {
    let found = cites.iter().flat_map(|citation| log.iter().flat_map(|recorded| cited(citation, recorded)));
    found.map(|message| message.text().into_owned()).collect()
}

fn call(id: &str) -> Message {
    let call = json!({"id": id, "type": "function", "function": {"name": "lookup", "arguments": "{}"}});
    of(&json!({"role": "assistant", "content": "", "tool_calls": [call]}))
}

#[test]
fn a_hit_is_selected_with_its_neighbors() {
    let log = Recorded::log(["one", "two", "a dog", "four", "five", "six"].map(Message::user).to_vec());
    let one_each: Vec<Recorded> = log[0]
        .exchange
        .messages
        .iter()
        .flat_map(|message| Recorded::log(vec![message.clone()]))
        .zip(0..)
        .map(|(recorded, seq)| Recorded::new(Seq::new(seq), recorded.exchange))
        .collect();
    for log in [log, one_each] {
        let ranking = rank(&log, "dog", 6);
        let select = |allowance| {
            texts(&log, &Selector::new(Seq::FIRST..Seq::new(6), allowance).units(1).select(&ranking, &log, cost))
        };
        assert_eq!(select(100), ["two", "a dog", "four"]);
        assert_eq!(select(10), ["a dog"], "the neighbors do not fit");
        assert_eq!(select(8), [""; 0]);
    }
}

#[test]
fn a_call_is_selected_with_its_results() {
    let log = Recorded::log(vec![
        Message::user("Where is my parcel?"),
        call("a"),
        Message::tool("a", "It is in Bremen."),
        Message::assistant("It will come."),
        Message::user("Thanks"),
        Message::assistant("Sure"),
    ]);
    let select = |query: &str| {
        texts(&log, &Selector::new(Seq::FIRST..Seq::new(9), 100).units(1).select(&rank(&log, query, 9), &log, cost))
    };
    assert_eq!(select("Bremen"), ["", "It is in Bremen."]);
    assert_eq!(select("lookup"), ["", "It is in Bremen."]);
    assert_eq!(select("parcel"), ["Where is my parcel?", "", "It is in Bremen."]);
}

#[test]
fn what_is_shown_is_not_selected_again_and_nothing_worse_instead() {
    let mut texts = vec!["filler"; 40];
    (texts[5], texts[30]) = ("my dog Rex barks", "a dog");
    let log =
        Recorded::log(texts.into_iter().flat_map(|text| [Message::user(text), Message::assistant("ok")]).collect());
    let within = Seq::FIRST..Seq::new(40);
    let ranking = rank(&log, "Does my dog Rex bark?", 40);
    let first = Selector::new(within.clone(), 1000).ratio(0.6).select(&ranking, &log, cost);
    assert_eq!(first.iter().map(|cite| cite.seq.get()).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(Selector::new(within, 1000).ratio(0.6).already(&first).select(&ranking, &log, cost), []);
}

#[test]
fn a_shut_gate_selects_nothing() {
    let analyzer = Analyzer::default();
    let log = Recorded::log((0..60).map(|n| Message::user(format!("dog {n}"))).collect());
    let within = Seq::FIRST..Seq::new(1);
    let search = Search::new(within.clone(), Gate::new(&analyzer));
    let ranking = search.run(&LogTerms::of(&analyzer, &log), "nice dog");
    assert!(!ranking.hits.is_empty() && !ranking.gate.open);
    let selector = Selector::new(within, 1000);
    assert_eq!((selector.select(&ranking, &log, cost), selector.needed(&ranking)), (vec![], vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(128)))]

    #[test]
    fn selections_fit_and_are_new(
        log in log(1..60),
        query in words(1..5),
        before in 0..40_u64,
        allowance in 0..400_u64,
        (seen, of_seen) in (0..40_u64, 0..3_u32),
        exchange_cost in 0..20_u64,
    ) {
        let within = Seq::FIRST..Seq::new(before);
        let ranking = rank(&log, &query, before);
        let already = [Citation::new(Seq::new(seen), 0..of_seen)];
        let selector = Selector::new(within, allowance).already(&already).exchange_cost(exchange_cost);
        let cites = selector.select(&ranking, &log, cost);
        prop_assert!(cites.is_sorted_by_key(|cite| (cite.seq, cite.messages.start)));
        let exchanges: BTreeSet<Seq> = cites.iter().map(|cite| cite.seq).collect();
        let mut spent = exchange_cost * exchanges.len() as u64;
        for cite in &cites {
            prop_assert!(cite.seq.get() < before);
            let recorded = &log[usize::try_from(cite.seq.get()).unwrap()];
            prop_assert!(cite.messages.end as usize <= recorded.exchange.messages.len());
            for message in cite.messages.clone() {
                prop_assert!(cite.seq.get() != seen || message >= of_seen);
                prop_assert!(is_recallable(&recorded.exchange.messages[message as usize]));
                spent += cost(recorded, message);
            }
        }
        prop_assert!(spent <= allowance);

        // The exchanges that are needed are enough.
        let needed = selector.needed(&ranking);
        let picked: Vec<Recorded> = log.iter().filter(|recorded| needed.contains(&recorded.seq)).cloned().collect();
        prop_assert_eq!(selector.select(&ranking, &picked, cost), cites);
    }

    #[test]
    fn results_are_selected_with_their_calls(
        turns in prop::collection::vec((words(1..4), 0..3_usize), 1..20),
        query in words(1..5),
        allowance in 0..200_u64,
    ) {
        let mut messages = Vec::new();
        for (text, rounds) in &turns {
            messages.push(Message::user(text));
            for _ in 0..*rounds {
                messages.extend([call("a"), Message::tool("a", text)]);
            }
            messages.push(Message::assistant(text));
        }
        let log = Recorded::log(messages);
        let end = log.len() as u64;
        let cites = Selector::new(Seq::FIRST..Seq::new(end), allowance).select(&rank(&log, &query, end), &log, cost);
        let cited: Vec<(Seq, u32)> = cites.iter().flat_map(|cite| cite.messages.clone().map(|message| (cite.seq, message))).collect();
        for pair in log.windows(2) {
            let last = u32::try_from(pair[0].exchange.messages.len()).unwrap() - 1;
            if *pair[1].exchange.messages[0].role() == Role::Tool {
                prop_assert_eq!(cited.contains(&(pair[0].seq, last)), cited.contains(&(pair[1].seq, 0)));
            }
        }
    }
}
