//! Transcripts that agree with the log, and those that do not.

use proptest::prelude::*;
use test_providers::signing::SigningDialect;
use tower_chat_history_core::{AnthropicMessages, Exchange, ExchangeId, Message, OpenAiResponses, Recorded, Seq};

use super::{
    same::is_same,
    transcript::{TranscriptError, check},
};
use crate::context::view::tests::calls;

fn log(first: u64, exchanges: &[&[Message]]) -> Vec<Recorded> {
    let recorded = (first..)
        .zip(exchanges)
        .map(|(seq, messages)| Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::generate(), messages.to_vec())));
    recorded.collect()
}

fn turn(number: u64) -> [Message; 2] {
    [Message::user(format!("u{number}")), Message::assistant(format!("a{number}"))]
}

#[test]
fn a_transcript_is_the_end_of_the_log() {
    let log = log(0, &[&turn(0), &turn(1)]);
    assert_eq!(check(&[turn(0), turn(1)].concat(), Some(&log)), Ok(()));
    assert_eq!(check(&turn(1), Some(&log)), Ok(()), "earlier messages may be left out");
    assert_eq!(check(&[], Some(&log)), Ok(()));
    assert_eq!(check(&[], None), Ok(()));
}

#[test]
fn the_error_has_the_position_that_differs() {
    let log = log(0, &[&turn(0), &turn(1)]);
    let mut edited = [turn(0), turn(1)].concat();
    edited[1] = Message::assistant("other");
    assert_eq!(check(&edited, Some(&log)), Err(TranscriptError { position: 1, seq: Some(Seq::FIRST) }));
    let longer = [turn(9), turn(0), turn(1)].concat();
    assert_eq!(check(&longer, Some(&log)), Err(TranscriptError { position: 1, seq: None }));
    assert_eq!(check(&turn(0), None), Err(TranscriptError { position: 1, seq: None }), "there is no log yet");
}

#[test]
fn only_loaded_exchanges_are_compared() {
    let log = log(5, &[&turn(5)]);
    assert_eq!(check(&[turn(4), turn(5)].concat(), Some(&log)), Ok(()));
}

#[test]
fn unknown_fields_are_ignored_and_calls_are_compared() {
    let full = Message::from_json(r#"{"content":"a0","role":"assistant","reasoning_content":"r"}"#).unwrap();
    let logged = log(0, &[&[Message::user("u0"), full], &[Message::user("u1"), calls(&["x"])]]);
    assert_eq!(check(&[turn(0).to_vec(), vec![Message::user("u1"), calls(&["x"])]].concat(), Some(&logged)), Ok(()));
    assert_eq!(
        check(&[Message::user("u1"), calls(&["y"])], Some(&logged)),
        Err(TranscriptError { position: 1, seq: Some(Seq::new(1)) })
    );
}

#[test]
fn white_space_around_texts_and_parts_is_ignored() {
    let parts = |parts: &[&str]| {
        let parts: Vec<String> = parts.iter().map(|text| format!(r#"{{"type":"text","text":"{text}"}}"#)).collect();
        Message::from_json(format!(r#"{{"role":"user","content":[{}]}}"#, parts.join(","))).unwrap()
    };
    let same = |one: &Message, other: &Message| is_same(one, other) && is_same(other, one);
    assert!(same(&Message::assistant(" a b\n\n"), &Message::assistant("a b")));
    assert!(same(&Message::tool("x", "r\n"), &Message::tool("x", "r")));
    assert!(same(&parts(&[" a ", "b "]), &parts(&["a", "b"])));
    assert!(same(&parts(&[" a ", "b "]), &Message::user("a b")));
    assert!(same(&Message::user("\u{feff}a\u{a0}"), &Message::user("a")));
    assert!(!same(&Message::assistant("a  b"), &Message::assistant("a b")), "white space within a text counts");
    assert!(!same(&parts(&["a", "b"]), &parts(&["a", "c"])));
}

#[test]
fn arguments_in_another_spelling_are_the_same() {
    let message = |json: &str| Message::in_dialect(&AnthropicMessages, json).unwrap();
    let call = |input: &str| {
        let call = format!(r#"{{"type":"tool_use","id":"x","name":"f","input":{input}}}"#);
        message(&format!(r#"{{"role":"assistant","content":[{call}]}}"#))
    };
    let user = || message(r#"{"role":"user","content":"u"}"#);
    let log = log(0, &[&[user(), call(r#"{"location": "SF"}"#)]]);
    assert_eq!(check(&[user(), call(r#"{"location":"SF"}"#)], Some(&log)), Ok(()));
    let error = TranscriptError { position: 1, seq: Some(Seq::FIRST) };
    assert_eq!(check(&[user(), call(r#"{"location":"LA"}"#)], Some(&log)), Err(error));
}

fn element(json: &str) -> Message {
    Message::in_dialect(&SigningDialect, json).unwrap()
}

/// A turn with reasoning, calls of one id in two spaces, and a reply of two elements.
fn signed_turn() -> [Vec<Message>; 2] {
    let asked = [
        r#"{"from":"user","text":"Which is warmer?"}"#,
        r#"{"from":"model","thinking":"hm","signature":"00"}"#,
        r#"{"from":"model","call":{"id":"x","kind":"f","name":"weather","input":"Oslo"}}"#,
        r#"{"from":"model","call":{"id":"x","kind":"g","name":"weather","input":"Rome"}}"#,
    ];
    let answered = [
        r#"{"from":"user","results":[{"to":"x","kind":"f","text":"-3"},{"to":"x","kind":"g","text":"20"}]}"#,
        r#"{"from":"model","sealed":"00","by":"one"}"#,
        r#"{"from":"model","thinking":"hm","signature":"00","text":"Rome."}"#,
        r#"{"from":"model","text":"By far."}"#,
    ];
    [asked.map(element).to_vec(), answered.map(element).to_vec()]
}

#[test]
fn other_dialects_are_compared_by_their_parts_without_reasoning() {
    let [asked, answered] = signed_turn();
    let log = log(0, &[&asked, &answered]);
    let all = [asked, answered].concat();
    assert_eq!(check(&all, Some(&log)), Ok(()));
    let unbound: Vec<Message> = all.iter().filter_map(|message| message.unbound().cloned()).collect();
    assert_eq!(unbound.len(), 6);
    assert_eq!(check(&unbound, Some(&log)), Ok(()));
    let marked = |at: usize, json: &str| {
        let mut marked = unbound.clone();
        marked[at] = element(json);
        check(&marked, Some(&log))
    };
    assert_eq!(marked(5, r#"{"from":"model","mark":1,"text":" By far.\n"}"#), Ok(()));
    for (at, seq, json) in [
        (5, 1, r#"{"from":"model","text":"Not by far."}"#),
        (5, 1, r#"{"from":"user","text":"By far."}"#),
        (3, 1, r#"{"from":"user","results":[{"to":"x","kind":"f","text":"20"},{"to":"x","kind":"g","text":"-3"}]}"#),
        (3, 1, r#"{"from":"user","results":[{"to":"x","kind":"f","text":"-32"},{"to":"x","kind":"g","text":"0"}]}"#),
        (3, 1, r#"{"from":"user","results":[{"to":"x","kind":"g","text":"-3"},{"to":"x","kind":"f","text":"20"}]}"#),
        (2, 0, r#"{"from":"model","call":{"id":"x","kind":"f","name":"weather","input":"Rome"}}"#),
        (0, 0, r#"{"from":"user","text":"Which is colder?"}"#),
    ] {
        let error = TranscriptError { position: at, seq: Some(Seq::new(seq)) };
        assert_eq!(marked(at, json), Err(error), "{json}");
    }
}

#[test]
fn a_transcript_may_lack_silent_elements_and_have_blank_ones() {
    let silent = |data: &str| element(&format!(r#"{{"from":"model","sealed":"{data}","by":"one"}}"#));
    let said = |text: &str| element(&format!(r#"{{"from":"model","text":"{text}"}}"#));
    let asked = |text: &str| element(&format!(r#"{{"from":"user","text":"{text}"}}"#));
    let first = [asked("1"), silent("00"), said("a"), silent("11")];
    let second = [asked("2"), silent("22"), silent("00"), said("b")];
    let log = log(0, &[&first, &second]);
    for transcript in [
        vec![said(" "), asked("1"), said("a"), said(""), asked("2"), said("b"), said(" ")],
        vec![asked("1"), silent("11"), said("a"), asked("2"), silent("00"), said("b")],
        vec![silent("11"), asked("2"), silent("22"), said("b")],
        vec![said(" ")],
    ] {
        assert_eq!(check(&transcript, Some(&log)), Ok(()), "{transcript:?}");
    }
    for (at, seq, transcript) in [
        (2, 0, vec![asked("1"), said("c"), silent("11"), silent("00"), asked("2"), said("b")]),
        (3, 1, vec![asked("1"), said("a"), said("b"), silent("33")]),
        (0, 1, vec![silent("33"), silent("22"), silent("00"), said("b")]),
    ] {
        let error = TranscriptError { position: at, seq: Some(Seq::new(seq)) };
        assert_eq!(check(&transcript, Some(&log)), Err(error), "{transcript:?}");
    }
    let absent = TranscriptError { position: 0, seq: None };
    assert_eq!(check(&[silent("33")], None), Err(absent), "the model would not get it");
}

#[test]
fn a_compaction_that_the_log_lacks_is_an_error() {
    let item = |json: &str| Message::in_dialect(&OpenAiResponses, json).unwrap();
    let compaction = || item(r#"{"type":"compaction","encrypted_content":"c"}"#);
    let reasoning = || item(r#"{"type":"reasoning","id":"r","summary":[],"encrypted_content":"e"}"#);
    let [user, said] = [r#"{"role":"user","content":"u"}"#, r#"{"role":"assistant","content":"a"}"#].map(item);
    let log = log(0, &[&[user.clone(), reasoning(), said.clone()]]);
    let error = |position, seq| Err(TranscriptError { position, seq });
    assert_eq!(check(&[compaction()], None), error(0, None));
    assert_eq!(check(&[compaction()], Some(&log)), error(0, Some(Seq::FIRST)));
    assert_eq!(check(&[user.clone(), compaction(), said.clone()], Some(&log)), error(1, Some(Seq::FIRST)));
    assert_eq!(check(&[user, said], Some(&log)), Ok(()));
}

#[test]
fn positions_of_errors_count_the_elements_that_are_skipped() {
    let [asked, answered] = signed_turn();
    let log = log(0, &[&asked, &answered]);
    let mut edited = [asked, answered].concat();
    edited[7] = element(r#"{"from":"model","text":"Other."}"#);
    assert_eq!(check(&edited, Some(&log)), Err(TranscriptError { position: 7, seq: Some(Seq::new(1)) }));
    let longer = [element(r#"{"from":"user","text":"Hi"}"#), element(r#"{"from":"model","sealed":"00","by":"one"}"#)];
    let [asked, answered] = signed_turn();
    let longer = [longer.to_vec(), asked, answered].concat();
    assert_eq!(check(&longer, Some(&log)), Err(TranscriptError { position: 1, seq: None }));
}

proptest! {
    /// In these conversations, replies break off and results are stored one by one. A caller's list agrees with or
    /// without such exchanges. It does not agree if one text differs.
    #[test]
    fn a_list_agrees_with_or_without_the_exchanges_that_the_caller_may_not_know(
        exchanges in prop::collection::vec((0usize..3, any::<bool>()), 1..8),
        other in prop::option::of(any::<prop::sample::Index>()),
        from in any::<prop::sample::Index>(),
    ) {
        let mut logged = vec![];
        let mut list = vec![];
        for (at, (kind, has)) in exchanges.into_iter().enumerate() {
            // All attempts have the same texts, as repeated calls do.
            let mut exchange = match kind {
                0 => Exchange::new(ExchangeId::generate(), [Message::tool("x", "r")]),
                1 => Exchange::new(ExchangeId::generate(), turn(0)),
                _ => Exchange::new(ExchangeId::generate(), turn(at as u64)),
            };
            exchange.incomplete = kind == 1;
            if has || kind == 2 {
                list.extend(exchange.messages.clone());
            }
            logged.push(Recorded::new(Seq::new(at as u64), exchange));
        }
        list.drain(..from.index(list.len() + 1));
        prop_assert_eq!(check(&list, Some(&logged)), Ok(()));
        if let Some(other) = other.filter(|_| !list.is_empty()) {
            let at = other.index(list.len());
            list[at] = Message::assistant("another");
            prop_assert!(check(&list, Some(&logged)).is_err());
        }
    }
}
