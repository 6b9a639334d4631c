//! A mark for the cache at the end of the history.

use serde_json::{Value, json};
use tower_chat_history::{
    HistoryOptions,
    store::{PromptDigests, Recorded},
};
use tower_chat_history_test::messages::Say;

use super::Chat;

fn question(number: usize) -> Value {
    json!([{"role": "user", "content": format!("u{number}")}])
}

/// Returns a value without marks for the cache.
fn unmarked(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.remove("cache_control");
            members.values_mut().for_each(|member| *member = unmarked(member.take()));
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| *entry = unmarked(entry.take())),
        _ => {}
    }
    value
}

/// Returns the exchanges of a conversation, without what differs between two of them.
async fn stored(chat: &Chat) -> Vec<(Vec<String>, PromptDigests)> {
    let facts = |recorded: Recorded| {
        let messages = recorded.exchange.messages.iter().map(|message| message.json().to_owned()).collect();
        (messages, recorded.exchange.provenance.as_ref().unwrap().digests)
    };
    chat.exchanges().await.into_iter().map(facts).collect()
}

#[tokio::test]
async fn the_last_message_before_the_input_is_marked_and_thinking_stays_valid() {
    let (marking, plain) = (Chat::marking(HistoryOptions::new()), Chat::new());
    for turn in 0..6 {
        for chat in [&marking, &plain] {
            let says = vec![Say::Thinking(format!("hm {turn}")), Say::Text(format!("a{turn}"))];
            chat.say(&question(turn), says).await;
        }
        let (marked, sent) = (marking.sent(), plain.sent());
        let places: Vec<usize> = marked
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .filter(|(_, message)| message.to_string().contains("cache_control"))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(places, (turn > 0).then(|| 2 * turn - 1).into_iter().collect::<Vec<_>>());
        if let Some(at) = places.first() {
            assert_eq!(marked[at]["content"][1]["cache_control"], json!({"type": "ephemeral"}));
        }
        assert_eq!(unmarked(marked), sent, "nothing else differs");
    }
    assert_eq!(marking.mock.provider.counts().missing, 0, "all thinking is kept");
    assert_eq!(stored(&marking).await, stored(&plain).await, "neither the messages nor the digests have the mark");
}

#[tokio::test]
async fn calls_and_results_are_marked_in_a_loop_of_tools() {
    let chat = Chat::marking(HistoryOptions::new());
    chat.say(&question(0), vec![Say::Thinking("hm".into()), Say::call("x", "look", json!({}))]).await;
    let result = json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "r"}]}]);
    chat.say(&result, vec![Say::Text("a0".into())]).await;
    let sent = chat.sent();
    assert_eq!(sent[1]["content"][1]["type"], "tool_use");
    assert_eq!(sent[1]["content"][1]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(sent.to_string().matches("cache_control").count(), 1);
}

#[tokio::test]
async fn the_same_call_has_the_same_bytes() {
    let chats = [Chat::marking(HistoryOptions::new()), Chat::marking(HistoryOptions::new())];
    for chat in &chats {
        for turn in 0..3 {
            chat.say(&question(turn), vec![Say::Text(format!("a{turn}"))]).await;
        }
    }
    assert_eq!(chats[0].mock.requests(), chats[1].mock.requests());
}
