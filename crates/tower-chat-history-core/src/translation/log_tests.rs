//! Translations of logs.

use super::*;
use crate::{
    exchange::{Exchange, ExchangeId},
    message::{AnthropicMessages, CallId, ChatCompletions, Message, OpenAiResponses},
    seq::Seq,
};

fn exchange(from: &'static dyn Dialect, messages: &[&str], reply_len: usize) -> Exchange {
    let messages = messages.iter().map(|json| Message::in_dialect(from, *json).unwrap());
    Exchange::new(ExchangeId::new("e").unwrap(), messages).with_reply_len(reply_len)
}

/// A reply with calls of one id at 4, and their results in exchanges of their own.
fn stored_one_by_one(from: &'static dyn Dialect, call: &str, result: &str) -> Vec<Recorded> {
    let asked = Recorded::new(Seq::new(4), exchange(from, &[call], 1));
    let answer = |(seq, text): (u64, &str)| {
        let answer = exchange(from, &[&result.replace("TEXT", text)], 0).continuing(Seq::new(4));
        Recorded::new(Seq::new(seq), answer)
    };
    [asked].into_iter().chain([(5, "one"), (7, "two")].map(answer)).collect()
}

fn ids(log: &[Recorded], to: &'static dyn Dialect) -> (Vec<CallId>, Vec<CallId>) {
    let mut translator = Translator::new(to, &Origin::UNKNOWN);
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for recorded in log {
        let found = translator.translate(recorded).unwrap().exchange;
        calls.extend(found.messages.iter().flat_map(Message::tool_calls).map(|call| call.call_id().clone()));
        answers.extend(found.messages.iter().flat_map(Message::answers).cloned());
    }
    (calls, answers)
}

const CALLS_OF_ONE_ID: &str = r#"{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}},{"id":"x","function":{"name":"f","arguments":"{}"}}]}"#;

#[test]
fn results_that_are_stored_one_by_one_answer_their_own_calls() {
    let result = r#"{"role":"tool","tool_call_id":"x","content":"TEXT"}"#;
    let log = stored_one_by_one(&ChatCompletions, CALLS_OF_ONE_ID, result);
    for to in [&AnthropicMessages as &'static dyn Dialect, &OpenAiResponses] {
        let (calls, answers) = ids(&log, to);
        assert_eq!((calls.len(), &calls), (2, &answers), "{}", to.name());
        assert_ne!(calls[0], calls[1], "{}", to.name());
        let copies = |log: &[Recorded]| -> Vec<Recorded> {
            log.iter().map(|recorded| Recorded::new(recorded.seq, Exchange::clone(&recorded.exchange))).collect()
        };
        assert_eq!(ids(&copies(&log), to), (calls.clone(), answers.clone()), "another replica");
        // An answer without its calls is not sent. Its translation is not used with them.
        ids(&log[2..], to);
        assert_eq!(ids(&log, to), (calls.clone(), answers.clone()), "after a shorter window");
        let (_, before) = ids(&copies(&log[..2]), to);
        assert_eq!(before, answers[..1], "the ids stay as the log grows");
    }
}

#[test]
fn results_that_are_repeated_answer_the_same_calls_again() {
    let result = r#"{"role":"tool","tool_call_id":"x","content":"TEXT"}"#;
    let mut log = stored_one_by_one(&ChatCompletions, CALLS_OF_ONE_ID, result);
    let again = [result, result, r#"{"role":"assistant","content":"a"}"#];
    log.push(Recorded::new(Seq::new(8), exchange(&ChatCompletions, &again, 1).continuing(Seq::new(4))));
    let (calls, answers) = ids(&log, &AnthropicMessages);
    assert_eq!(answers, [&calls[..], &calls].concat());
    let sent = crate::rounds::NewestRound::of(&log);
    assert!(sent.open().is_empty());
}

#[test]
fn equal_exchanges_have_equal_translations() {
    let made = exchange(&ChatCompletions, &[r#"{"role":"user","content":"u"}"#], 0);
    let recorded = Recorded::new(Seq::new(4), made);
    let of =
        |recorded: &Recorded| Translator::new(&OpenAiResponses, &Origin::UNKNOWN).translate(recorded).unwrap().exchange;
    let copy = Recorded::new(Seq::new(4), Exchange::clone(&recorded.exchange));
    assert_eq!(of(&copy), of(&recorded));
}
