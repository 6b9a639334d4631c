//! Work is linear in the size of a text: for a text 32 times as long, it is less than 320 times as much.
//! Quadratic work would be 1,024 times as much.
//!
//! Work is measured as processor time of its thread. A thread that waits on a busy machine uses none.

use std::{hint::black_box, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tower_chat_history::{
    Exchange, ExchangeId, Message,
    adapt::nested,
    store::{NewestRound, Recorded, Seq},
    summary::{SummaryFormat, SummaryPrompt, SummaryRequest},
    tokens::{ByteEstimate, LangChainEstimate, TokenCounter},
    view::{OpenCalls, View},
};

use super::{Case, texts::value};

pub(crate) const CASES: &[Case] = cases![
    langchain_s_estimate_is_linear,
    messages_and_records_are_linear,
    values_are_read_once,
    delimiters_are_searched_once,
    results_find_their_calls_in_constant_time,
];

/// The factor between the lengths of the two texts.
const LONGER: u32 = 32;

/// Returns the processor time that this thread has used.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

fn is_linear(what: &str, size: usize, mut work: impl FnMut(usize)) {
    // The minimum of several runs, because other threads displace data from the processor's caches.
    let mut least = |size| {
        let run = |_| {
            let before = processor_time();
            work(size);
            processor_time() - before
        };
        (0..3).map(run).min().unwrap()
    };
    let (short, long) = (least(size), least(LONGER as usize * size));
    // A short text fits the caches, a long one may not.
    let most = 10 * LONGER * short.max(Duration::from_micros(100));
    assert!(long < most, "{what}: {short:?}, and {long:?} for {LONGER} times as much");
}

/// Returns texts of about `bytes` bytes, in shapes that were too slow before: a level at each byte, few
/// levels around many values, many fields, many escapes.
fn texts(bytes: usize) -> Vec<String> {
    let levels = 900;
    vec![
        "[".repeat(bytes / 2) + &"]".repeat(bytes / 2),
        "[".repeat(levels) + &"1,".repeat(bytes / 2) + "1" + &"]".repeat(levels),
        "{\"a\":".repeat(levels) + "\"" + &"x".repeat(bytes) + "\"" + &"}".repeat(levels),
        format!("{{{}\"z\":1}}", (0..bytes / 12).map(|number| format!("\"k{number}\":[],")).collect::<String>()),
        format!("\"{}\"", "\\n\\\\".repeat(bytes / 4)),
        "[{\"a\":[".repeat(levels / 3) + &"{\"b\":[1]},".repeat(bytes / 10) + "2" + &"]}]".repeat(levels / 3),
    ]
}

fn langchain_s_estimate_is_linear() {
    for shape in 0..texts(100).len() {
        is_linear(&format!("as content, shape {shape}"), 10_000, |size| {
            let content = texts(size).swap_remove(shape);
            let message = Message::from_json(format!(r#"{{"role":"user","content":{{"x":{content}}}}}"#)).unwrap();
            black_box(LangChainEstimate::new().count_message(&message));
        });
        is_linear(&format!("as arguments, shape {shape}"), 10_000, |size| {
            let arguments = Value::from(texts(size).swap_remove(shape));
            let call = format!(r#"{{"id":"x","type":"function","function":{{"name":"f","arguments":{arguments}}}}}"#);
            let message = Message::from_json(format!(r#"{{"role":"assistant","tool_calls":[{call}]}}"#)).unwrap();
            black_box(LangChainEstimate::new().count_message(&message));
        });
    }
}

fn messages_and_records_are_linear() {
    for shape in 0..texts(100).len() {
        is_linear(&format!("shape {shape}"), 10_000, |size| {
            let content = texts(size).swap_remove(shape);
            let message =
                Message::from_json(format!(r#"{{"role":"user","content":{content},"x":{content}}}"#)).unwrap();
            black_box(ByteEstimate::new().count_message(&message));
            let record = Exchange::new(ExchangeId::generate(), [message]).encode().unwrap();
            black_box(Exchange::decode(&record).unwrap());
        });
    }
}

fn values_are_read_once() {
    is_linear("a deep value", 10_000, |size| {
        let deep = value(size);
        assert!(nested::is_too_deep(&deep));
        nested::dismantle(deep);
    });
    is_linear("a wide value", 5_000, |size| {
        let wide: Value = (0..size).map(|number| vec![number; 3]).collect();
        assert!(!nested::is_too_deep(&wide));
        nested::dismantle(wide);
    });
}

fn delimiters_are_searched_once() {
    for piece in ["<", "</", "< \u{200b}", "</conversation_summary", "\u{ff1c}/", "&lt;", "\u{e0001}"] {
        is_linear(piece, 5_000, |size| {
            let text = piece.repeat(size / piece.len());
            black_box(SummaryFormat::default().message(&text));
            let request = SummaryRequest::new(Some(text.clone()), vec![Message::user(text)], 100);
            black_box(SummaryPrompt::default().messages(&request));
        });
    }
}

/// Returns a message with this many calls, and their results, last call first. The calls have different ids, or all
/// the same one.
fn round(size: usize, same_id: bool) -> (Message, Vec<Message>) {
    let ids: Vec<String> = (0..size).map(|number| format!("c{}", if same_id { 0 } else { number })).collect();
    let call = |id: &String| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":""}}}}"#);
    let calls = ids.iter().map(call).collect::<Vec<_>>().join(",");
    let asks = Message::from_json(format!(r#"{{"role":"assistant","content":null,"tool_calls":[{calls}]}}"#)).unwrap();
    (asks, ids.iter().rev().map(|id| Message::tool(id, "r")).collect())
}

fn results_find_their_calls_in_constant_time() {
    for same_id in [false, true] {
        is_linear("the results of a call's input", 200, |size| {
            let (asks, results) = round(size, same_id);
            let mut open = OpenCalls::of(&asks);
            assert!(open.are_answered_by(&results));
            assert!(results.iter().all(|result| open.answer_all(result).is_ok()) && open.is_empty());
        });
        is_linear("the view of a log", 200, |size| {
            let (asks, results) = round(size, same_id);
            let mut view = View::default();
            view.push(&asks);
            view.extend(&results);
            assert_eq!((view.messages().len(), view.open().len()), (size + 1, 0));
        });
        is_linear("a log with one result for each exchange", 200, |size| {
            let (asks, results) = round(size, same_id);
            let mut log = vec![Exchange::new(ExchangeId::generate(), [Message::user("u"), asks])];
            log.extend(results.into_iter().map(|result| Exchange::new(ExchangeId::generate(), [result])));
            let log = (0..).map(Seq::new).zip(log).map(|(seq, exchange)| Recorded::new(seq, exchange));
            let mut view = View::default();
            log.for_each(|recorded| view.push_exchange(&recorded));
            assert!(view.awaits_reply());
        });
        is_linear("an imported log", 200, |size| {
            let (asks, results) = round(size, same_id);
            let log = Recorded::log([vec![asks], results].concat());
            assert!(NewestRound::of(&log).open().is_empty());
        });
    }
}
