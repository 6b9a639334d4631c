//! The examples of LangChain's reference page for `trim_messages`.

use serde_json::json;
use tower_chat_history::{
    Message,
    tokens::{LangChainEstimate, MessageCount, per_message},
    trim::{Speaker, Trim},
};

use super::{both_ways, by_dummy_count, message};

/// Returns six messages, with the tokens of their texts for gpt-4o.
fn parrot() -> [(Message, u32); 6] {
    [
        (Message::system("you're a good assistant, you always respond with a joke."), 12),
        (Message::user("i wonder why it's called langchain"), 7),
        (
            Message::assistant(
                "Well, I guess they thought \"WordRope\" and \"SentenceString\" just didn't have the same ring to it!",
            ),
            25,
        ),
        (Message::user("and who is harrison chasing anyways"), 7),
        (
            Message::assistant(
                "Hmmm let me think.\n\nWhy, he's probably chasing after the last cup of coffee in the office!",
            ),
            21,
        ),
        (Message::user("what do you call a speechless parrot"), 9),
    ]
}

fn messages() -> [Message; 6] {
    parrot().map(|(message, _)| message)
}

/// Counts as chat models do: 3 tokens of framing, the role and the text.
fn exact(message: &Message) -> u32 {
    let text = parrot().iter().find(|(known, _)| known == message).map(|(_, tokens)| *tokens);
    3 + 1 + text.unwrap()
}

fn for_chat(max_tokens: u64) -> Trim<tower_chat_history::trim::Last> {
    Trim::last(max_tokens).start_on([Speaker::User]).include_system()
}

#[test]
fn with_45_exact_tokens_the_system_message_and_the_last_question_are_kept() {
    let expected = [messages()[0].clone(), messages()[5].clone()];
    assert_eq!(both_ways(&messages(), &for_chat(45), &per_message(exact)), expected);
}

#[test]
fn with_45_approximate_tokens_the_same_messages_are_kept() {
    let expected = [messages()[0].clone(), messages()[5].clone()];
    assert_eq!(both_ways(&messages(), &for_chat(45), &LangChainEstimate::new()), expected);
}

#[test]
fn with_4_messages_the_system_message_and_the_last_three_are_kept() {
    let expected = [&messages()[..1], &messages()[3..]].concat();
    assert_eq!(both_ways(&messages(), &for_chat(4), &MessageCount::new()), expected);
}

#[test]
fn with_the_first_30_tokens_the_first_block_is_the_last_one_kept() {
    let text = "This is a 4 token text. The full message is 10 tokens.";
    let blocks = ["This is the FIRST 4 token block.", "This is the SECOND 4 token block."]
        .map(|text| json!({"type": "text", "text": text}));
    let messages = [
        Message::system(text),
        message(json!({"role": "user", "content": text, "id": "first"})),
        message(json!({"role": "assistant", "content": blocks, "id": "second"})),
        message(json!({"role": "user", "content": text, "id": "third"})),
        message(json!({"role": "assistant", "content": text, "id": "fourth"})),
    ];
    let part = message(json!({"role": "assistant", "content": [blocks[0]], "id": "second"}));
    let kept = by_dummy_count(&messages, &Trim::first(30).allow_partial());
    assert_eq!(kept, [messages[0].clone(), messages[1].clone(), part]);
}
