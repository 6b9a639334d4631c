//! Every counter counts messages of every dialect.

use test_providers::signing::SigningDialect;
use tower_chat_history::tokens::{
    ByteEstimate, CachedCounter, Estimate, LangChainEstimate, MessageCount, TokenCounter, per_text,
};
use tower_chat_history_core::Message;

/// Returns all counters except those that call a closure with whole messages.
fn counters() -> Vec<Box<dyn TokenCounter>> {
    vec![
        Box::new(ByteEstimate::new()),
        Box::new(CachedCounter::new(ByteEstimate::new())),
        Box::new(LangChainEstimate::new()),
        Box::new(per_text("quarters", |text: &str| text.len() / 4)),
        Box::new(Estimate::anthropic()),
        Box::new(Estimate::anthropic_older()),
        Box::new(Estimate::gemini()),
        Box::new(Estimate::gemini_older()),
        Box::new(Estimate::openai()),
        Box::new(Estimate::deepseek()),
        Box::new(Estimate::llama()),
        Box::new(Estimate::mistral()),
        Box::new(Estimate::qwen()),
    ]
}

#[test]
fn every_counter_counts_a_long_message_of_another_dialect() {
    let words = "word ".repeat(1_200);
    for json in [
        format!(r#"{{"from":"user","text":"{words}"}}"#),
        format!(r#"{{"from":"model","thinking":"{words}","signature":"00"}}"#),
        format!(r#"{{"from":"model","sealed":"{}","by":"one"}}"#, "00".repeat(3_600)),
        format!(r#"{{"from":"model","call":{{"id":"x","kind":"f","name":"f","input":"{words}"}}}}"#),
        format!(r#"{{"from":"user","results":[{{"to":"x","kind":"f","text":"{words}"}}]}}"#),
        format!(r#"{{"from":"critic","text":"{words}"}}"#),
    ] {
        let message = Message::in_dialect(&SigningDialect, &json).unwrap();
        for counter in counters() {
            let tokens = counter.count_message(&message);
            assert!((1_000..=4_000).contains(&tokens), "{counter:?}: {tokens} tokens of {json:.60}");
        }
    }
}

#[test]
fn a_counter_of_messages_counts_one_for_a_message_of_another_dialect() {
    let message = Message::in_dialect(&SigningDialect, r#"{"from":"user","text":"a"}"#).unwrap();
    assert_eq!(MessageCount::new().count_message(&message), 1);
}

#[test]
fn langchain_counts_the_parts_of_another_dialect_as_it_counts_those_of_chat_completions() {
    let tokens = |message: &Message| LangChainEstimate::new().count_message(message);
    let other = |json: &str| tokens(&Message::in_dialect(&SigningDialect, json).unwrap());
    let text = "a".repeat(400);
    assert_eq!(other(&format!(r#"{{"from":"user","text":"{text}"}}"#)), tokens(&Message::user(text.as_str())));
    let result = format!(r#"{{"from":"user","results":[{{"to":"x","kind":"f","text":"{text}"}}]}}"#);
    assert_eq!(other(&result), tokens(&Message::tool("x", text.as_str())));
    let calls = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let call = r#"{"from":"model","call":{"id":"x","kind":"f","name":"f","input":"{}"}}"#;
    assert_eq!(other(call), tokens(&Message::from_json(calls).unwrap()));
}
