//! Callers that keep their own list of messages and send all of it, with `InputMode::Transcript`.

use async_openai::types::chat::{ChatCompletionRequestMessage, CreateChatCompletionRequest};
use serde_json::{Value, json};
use tower::{Layer as _, Service as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, HistoryError, HistoryStoreExt as _, InConversation, MemoryStore,
    adapt::Json, engine::InputMode,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_test::{MockLlm, Reply};

/// A tool loop of three rounds, as code without history does it.
fn replies() -> [Reply; 4] {
    let call = |id: &str| Reply::calls([(id.to_owned(), "f".to_owned(), "{}".to_owned())]);
    [call("x"), call("y"), call("z"), Reply::text("done")]
}

fn id() -> ConversationId {
    ConversationId::new(["transcripts"]).unwrap()
}

fn typed(message: Value) -> ChatCompletionRequestMessage {
    serde_json::from_value(message).unwrap()
}

async fn stored(store: &MemoryStore) -> Vec<String> {
    let log = store.conversation(&id()).messages().await.unwrap();
    log.iter().map(|message| message.role().to_string()).collect()
}

const ROUNDS: [&str; 8] = ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant"];

#[tokio::test]
async fn a_three_round_tool_loop_is_stored_once_with_typed_requests() {
    let (store, llm) = (MemoryStore::new(), MockLlm::script(replies()));
    let adapter = OpenAi::new().input_mode(InputMode::Transcript);
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm.unary());
    let mut messages =
        vec![typed(json!({"role": "system", "content": "s"})), typed(json!({"role": "user", "content": "u"}))];
    for round in 0.. {
        let request = CreateChatCompletionRequest {
            model: "m".into(),
            messages: messages.clone(),
            ..CreateChatCompletionRequest::default()
        };
        let response = chat.call(InConversation::new(id(), request)).await.unwrap();
        assert_eq!(llm.prompts()[round].len(), messages.len(), "the prompt is the caller's list");
        let reply = serde_json::to_value(&response.choices[0].message).unwrap();
        messages.push(typed(reply.clone()));
        let Some(call) = reply["tool_calls"].get(0) else { break };
        messages.push(typed(json!({"role": "tool", "tool_call_id": call["id"], "content": "r"})));
    }
    assert_eq!(stored(&store).await, ROUNDS);

    // A list that is not the end of the log is refused.
    messages[1] = typed(json!({"role": "user", "content": "edited"}));
    messages.push(typed(json!({"role": "user", "content": "and?"})));
    let request = CreateChatCompletionRequest { model: "m".into(), messages, ..CreateChatCompletionRequest::default() };
    let error = chat.call(InConversation::new(id(), request)).await.unwrap_err();
    let Some(HistoryError::Transcript(parted)) = error.downcast_ref() else { panic!("{error}") };
    assert_eq!(parted.position, 0, "counted after the head");
    assert_eq!(stored(&store).await, ROUNDS);
}

#[tokio::test]
async fn a_three_round_tool_loop_is_stored_once_with_json_requests() {
    let store = MemoryStore::new();
    let llm = service_fn(|request: Value| async move {
        let messages = request["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "tool").count();
        let call =
            json!([{"id": format!("c{results}"), "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
        let message = if results < 3 {
            json!({"role": "assistant", "content": null, "tool_calls": call})
        } else {
            json!({"role": "assistant", "content": format!("after {} messages", messages.len())})
        };
        Ok::<_, BoxError>(json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    });
    let adapter = Json::new().input_mode(InputMode::Transcript);
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm);
    let mut messages = vec![json!({"role": "user", "content": "u"})];
    let reply = loop {
        let request = json!({"model": "m", "messages": messages.clone()});
        let response = chat.call(InConversation::new(id(), request)).await.unwrap();
        let reply = response["choices"][0]["message"].clone();
        messages.push(reply.clone());
        let Some(call) = reply["tool_calls"].get(0) else { break reply["content"].clone() };
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "r"}));
    };
    assert_eq!(reply, "after 7 messages");
    assert_eq!(stored(&store).await, ROUNDS);
}
