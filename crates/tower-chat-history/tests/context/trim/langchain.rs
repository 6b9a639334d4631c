//! LangChain's tests of `trim_messages`, in their order and with their numbers.
//!
//! Two of them cannot be written here. An invalid counter (14) and an unknown name of a counter (20) are errors
//! at run time in LangChain, and do not compile here. The same holds for options that a strategy does not have,
//! and for unknown speakers: see the examples at `Trim` that must not compile.

use std::sync::Arc;

use serde_json::json;
use tower_chat_history::{
    Message,
    store::Content,
    tokens::{LangChainEstimate, TokenCounter, per_message},
    trim::{Speaker, Trim, trim_messages},
};

use super::{as_langchain, assert_unchanged, both_ways, by_dummy_count, dummy_count, message};

const TEXT: &str = "This is a 4 token text.";

/// Returns a system message, a first one, a second one with two parts, a third and a fourth one.
fn fixture() -> [Message; 5] {
    [
        Message::system(TEXT),
        message(json!({"role": "user", "content": TEXT, "id": "first"})),
        second(&["This is the FIRST 4 token block.", "This is the SECOND 4 token block."]),
        message(json!({"role": "user", "content": TEXT, "id": "third"})),
        message(json!({"role": "assistant", "content": TEXT, "id": "fourth"})),
    ]
}

fn second(parts: &[&str]) -> Message {
    let parts: Vec<_> = parts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    message(json!({"role": "assistant", "content": parts, "id": "second"}))
}

fn first_part() -> Message {
    second(&["This is the FIRST 4 token block."])
}

fn second_part() -> Message {
    second(&["This is the SECOND 4 token block."])
}

fn chars(message: &Message) -> u32 {
    u32::try_from(message.text().chars().count()).unwrap()
}

fn by_char(text: &str) -> Vec<String> {
    text.chars().map(String::from).collect()
}

#[test]
fn t01_first_30() {
    assert_eq!(by_dummy_count(&fixture(), &Trim::first(30)), fixture()[..2]);
}

#[test]
fn t02_first_30_allow_partial() {
    let [system, first, ..] = fixture();
    assert_eq!(by_dummy_count(&fixture(), &Trim::first(30).allow_partial()), [system, first, first_part()]);
}

#[test]
fn t03_first_30_allow_partial_end_on_user() {
    let trim = Trim::first(30).allow_partial().end_on([Speaker::User]);
    assert_eq!(by_dummy_count(&fixture(), &trim), fixture()[..2]);
}

#[test]
fn t04_last_30_include_system() {
    let [system, _, _, third, fourth] = fixture();
    assert_eq!(by_dummy_count(&fixture(), &Trim::last(30).include_system()), [system, third, fourth]);
}

#[test]
fn t05_last_40_include_system_allow_partial() {
    let [system, _, _, third, fourth] = fixture();
    let kept = by_dummy_count(&fixture(), &Trim::last(40).include_system().allow_partial());
    assert_eq!(kept, [system, second_part(), third, fourth]);
}

#[test]
fn t06_last_30_include_system_allow_partial_end_on_user() {
    let [system, _, _, third, _] = fixture();
    let trim = Trim::last(30).include_system().allow_partial().end_on([Speaker::User]);
    assert_eq!(by_dummy_count(&fixture(), &trim), [system, second_part(), third]);
}

#[test]
fn t07_last_30_include_system_allow_partial_start_on_user() {
    let [system, _, _, third, fourth] = fixture();
    let trim = Trim::last(30).include_system().allow_partial().start_on([Speaker::User]);
    assert_eq!(by_dummy_count(&fixture(), &trim), [system, third, fourth]);
    // The same with the budget in the name of LangChain's test: the part is counted and then left out.
    let trim = Trim::last(40).include_system().allow_partial().start_on([Speaker::User]);
    assert_eq!(by_dummy_count(&fixture(), &trim), [fixture()[0].clone(), fixture()[3].clone(), fixture()[4].clone()]);
}

#[test]
fn t08_first_allow_partial_one_message() {
    let messages = [message(json!({"role": "user", "content": "This is a funky text.", "id": "third"}))];
    let kept = both_ways(&messages, &Trim::first(2).allow_partial_by(by_char), &per_message(chars));
    assert_eq!(kept, [message(json!({"role": "user", "content": "Th", "id": "third"}))]);
}

#[test]
fn t09_last_allow_partial_one_message() {
    let messages = [message(json!({"role": "user", "content": "This is a funky text.", "id": "third"}))];
    let kept = both_ways(&messages, &Trim::last(2).allow_partial_by(by_char), &per_message(chars));
    assert_eq!(kept, [message(json!({"role": "user", "content": "t.", "id": "third"}))]);
}

#[test]
fn t10_last_allow_partial_text_splitter() {
    let words = |message: &Message| u32::try_from(message.text().split(' ').count()).unwrap();
    let by_space = |text: &str| text.split_inclusive(' ').map(str::to_owned).collect();
    let kept = both_ways(&fixture(), &Trim::last(10).allow_partial_by(by_space), &per_message(words));
    let third = message(json!({"role": "user", "content": "a 4 token text.", "id": "third"}));
    assert_eq!(kept, [third, fixture()[4].clone()]);
}

#[test]
fn t11_include_system_strategy_last_empty_messages() {
    assert_eq!(by_dummy_count(&[], &Trim::last(10).include_system()), []);
    assert_eq!(by_dummy_count(&[], &Trim::first(10)), []);
}

#[test]
fn t12_apply_is_the_free_function() {
    let (messages, counter) = (fixture(), per_message(dummy_count));
    let trim = Trim::last(10);
    assert_eq!(trim.apply(&messages, &counter), trim_messages(&messages, &trim, &counter));
    assert_eq!(assert_unchanged(&messages, |messages| trim.apply(messages, &counter)), messages[4..]);
}

#[test]
fn t13_bound_model_token_counter() {
    let messages = [Message::user("foobar")];
    let shared: Arc<dyn TokenCounter> = Arc::new(per_message(dummy_count));
    assert_eq!(both_ways(&messages, &Trim::last(10), &shared), messages);
    assert_eq!(assert_unchanged(&messages, |messages| Trim::last(9).apply(messages, &shared)), []);
    let boxed: Box<dyn TokenCounter> = Box::new(per_message(dummy_count));
    assert_eq!(assert_unchanged(&messages, |messages| Trim::last(10).apply(messages, &*boxed)), messages);
}

#[test]
fn t15_partial_text_splitting() {
    let messages = [Message::user("This is a long message that needs trimming")];
    let kept = both_ways(&messages, &Trim::first(10).allow_partial_by(by_char), &per_message(chars));
    assert_eq!(kept, [Message::user("This is a ")]);
}

#[test]
fn t16_mixed_content_with_partial() {
    let texts = ["First part of text.", "Second part that should be trimmed."];
    let kept = both_ways(&[second(&texts)], &Trim::first(20).allow_partial(), &per_message(chars));
    assert_eq!(kept, [second(&texts[..1])]);
    assert!(matches!(kept[0].content(), Content::Parts(parts) if parts.len() == 1));
}

#[test]
fn t17_exact_token_boundary() {
    let messages = [Message::system("10 tokens exactly."), Message::user("Another 10 tokens.")];
    assert_eq!(by_dummy_count(&messages, &Trim::first(10)), messages[..1]);
    assert_eq!(by_dummy_count(&messages, &Trim::first(19)), messages[..1]);
    assert_eq!(by_dummy_count(&messages, &Trim::first(20)), messages);
    assert_eq!(by_dummy_count(&messages, &Trim::last(19)), messages[1..]);
    assert_eq!(by_dummy_count(&messages, &Trim::last(20)), messages);
}

#[test]
fn t18_start_on_with_allow_partial() {
    let messages = ["First human message", "Second human message"].map(Message::user);
    let messages = [messages[0].clone(), Message::assistant("AI response"), messages[1].clone()];
    let trim = Trim::last(20).allow_partial().start_on([Speaker::User]);
    assert_eq!(by_dummy_count(&messages, &trim), messages[2..]);
}

#[test]
fn t19_token_counter_shortcut_approximate() {
    // 10, 9 and 10 tokens. Here the shortcut is a type, not a name.
    let messages = [
        Message::system("This is a test message"),
        Message::user("Another test message"),
        Message::assistant("AI response here"),
    ];
    for (max_tokens, kept) in [(50, 0), (29, 0), (28, 1), (19, 1), (18, 2), (9, 3)] {
        let estimate = LangChainEstimate::new();
        assert_eq!(both_ways(&messages, &Trim::last(max_tokens), &estimate), messages[kept..], "{max_tokens}");
    }
}

#[test]
fn t21_token_counter_shortcut_with_options() {
    let messages = [
        Message::system("System instructions"),
        message(json!({"role": "user", "content": "First human message", "id": "first"})),
        message(json!({"role": "assistant", "content": "First AI response", "id": "ai1"})),
        message(json!({"role": "user", "content": "Second human message", "id": "second"})),
        message(json!({"role": "assistant", "content": "Second AI response", "id": "ai2"})),
    ];
    let trim = |max_tokens| Trim::last(max_tokens).include_system().start_on([Speaker::User]);
    assert_eq!(as_langchain(&messages, &trim(100), &LangChainEstimate::new()), messages);
    let kept = both_ways(&messages, &trim(40), &LangChainEstimate::new());
    assert_eq!(kept, [&messages[..1], &messages[3..]].concat());
}
