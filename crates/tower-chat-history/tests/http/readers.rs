//! Conversations that another reader continues, and what it gets of the log and of the request.

use serde_json::{Value, json};
use tower_chat_history::{
    HistoryOptions, MemoryStore, Message,
    compat::{Compat, ReaderRow, Readers},
    http::HttpHistory,
};
use tower_chat_history_test::check_compat;

use super::support::{History, JSON, answer};

/// Returns a layer that calls this provider.
fn calling(store: &MemoryStore, provider: &'static str) -> History {
    History::over(store.clone(), store.clone(), HttpHistory::new().provider(provider), HistoryOptions::new())
}

fn question(text: &str) -> String {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string()
}

fn whole(message: &Value) -> String {
    json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string()
}

fn messages(body: &str) -> Vec<Message> {
    let body: Value = serde_json::from_str(body).unwrap();
    body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| Message::from_json(message.to_string()).unwrap())
        .collect()
}

#[tokio::test]
async fn a_reply_goes_to_its_maker_as_it_is_and_to_others_without_its_maker_s_fields() {
    let thinking = json!({"role": "assistant", "content": "Blue.", "reasoning_content": "The user asks for a color."});
    let empty = json!({"role": "assistant", "content": "Blue.", "refusal": null, "annotations": []});
    for (maker, reply, reader) in [("deepseek", &thinking, "groq"), ("openai", &empty, "mistral_ai")] {
        let store = MemoryStore::new();
        calling(&store, maker).ok(&question("What color?"), answer(JSON, whole(reply))).await;
        let plain = json!({"role": "assistant", "content": "Green."});

        let (sent, _) = calling(&store, reader).ok(&question("And now?"), answer(JSON, whole(&plain))).await;
        let mut origin = tower_chat_history::store::Origin::unknown();
        origin.provider = Some(reader.to_owned());
        let compat = Readers::new().compat(&origin, None);
        assert_eq!(check_compat(&messages(&sent.body), false, &compat), Ok(()), "{}", sent.body);
        assert!(sent.body.contains("Blue."));

        let (sent, _) = calling(&store, maker).ok(&question("Again?"), answer(JSON, whole(&plain))).await;
        assert!(sent.body.contains(&reply.to_string()), "{}", sent.body);
    }
}

#[tokio::test]
async fn the_head_of_a_reader_without_system_messages_is_a_message_of_the_user() {
    let compat = Compat::new().system(tower_chat_history::compat::SystemMessages::Never).alternates();
    let row = ReaderRow::new("mine", compat).provider("mine");
    let store = MemoryStore::new();
    let options = HistoryOptions::new().readers(Readers::new().with(row));
    let history = History::over(store.clone(), store, HttpHistory::new().provider("mine"), options);
    let ask = |text: &str| {
        let system = json!({"role": "system", "content": "Be brief."});
        json!({"model": "m", "messages": [system, {"role": "user", "content": text}]}).to_string()
    };
    let reply = json!({"role": "assistant", "content": "a"});

    let mut before = Vec::new();
    for text in ["one", "two", "three"] {
        let (sent, _) = history.ok(&ask(text), answer(JSON, whole(&reply))).await;
        let sent = messages(&sent.body);
        assert_eq!(check_compat(&sent, false, &compat), Ok(()));
        assert_eq!((sent[0].text().as_ref(), sent[1].text().as_ref()), ("Be brief.", "Understood."));
        assert!(sent.starts_with(&before), "{sent:?}");
        before = sent;
    }
    assert_eq!(before.len(), 7);
}

#[tokio::test]
async fn a_request_without_tools_gets_one_where_the_calls_of_the_log_need_it() {
    let store = MemoryStore::new();
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    let with_tools = json!({"model": "m", "tools": tools, "messages": [{"role": "user", "content": "u"}]}).to_string();
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let called = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let history = calling(&store, "bedrock_converse");
    let (sent, _) = history.ok(&with_tools, answer(JSON, whole(&called))).await;
    assert_eq!(sent.body, with_tools, "it has tools");

    let plain = json!({"role": "assistant", "content": "a"});
    let (sent, _) = history.ok(&question("Stop."), answer(JSON, whole(&plain))).await;
    let body: Value = serde_json::from_str(&sent.body).unwrap();
    assert_eq!(body["tools"][0]["function"]["name"], "unavailable", "{body}");

    let other = MemoryStore::new();
    let (sent, _) = calling(&other, "bedrock_converse").ok(&question("u"), answer(JSON, whole(&plain))).await;
    assert_eq!(sent.body, question("u"), "without calls, nothing is added");
}
