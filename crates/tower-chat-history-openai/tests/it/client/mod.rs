//! History inside an async-openai client. The code that calls the client is the same as without history.

mod azure;
mod builders;
mod encodings;
mod errors;
mod per_call;
mod raw;
mod repair;
mod server_state;
mod sizes;
mod stalled;
mod streams;
mod wire;

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    traits::RequestOptionsBuilder as _,
    types::chat::{
        ChatCompletionMessageToolCalls, ChatCompletionRequestAssistantMessageArgs, ChatCompletionRequestMessage,
        ChatCompletionRequestSystemMessage, ChatCompletionRequestToolMessage, ChatCompletionRequestUserMessage,
        CreateChatCompletionRequest,
    },
};
use futures_util::StreamExt as _;
use tower_chat_history::{
    ConversationId, HistoryError, HistoryStore, HistoryStoreExt as _, MemoryStore, engine::InputMode,
    error::InputError, store::Recorded,
};
use tower_chat_history_openai::client::{
    CONVERSATION_ID, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, OpenAiHistory, STATELESS,
};
use tower_chat_history_test::{MockServer, Replies, Reply};

const HEADERS: [&str; 5] = [CONVERSATION_ID, EXCHANGE_ID, STATELESS, DONT_STORE, FEW_SHOT_MESSAGES];

async fn start(replies: impl Into<Replies>, store: impl HistoryStore) -> (MockServer, Client<OpenAIConfig>) {
    let server = MockServer::start(replies).await.unwrap();
    let client = OpenAiHistory::new(store).client(config(&server));
    (server, client)
}

fn config(server: &MockServer) -> OpenAIConfig {
    OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test")
}

fn id() -> ConversationId {
    ConversationId::new(["acme", "user 42"]).unwrap()
}

fn user(text: &str) -> ChatCompletionRequestMessage {
    ChatCompletionRequestUserMessage::from(text).into()
}

fn request(messages: impl IntoIterator<Item = ChatCompletionRequestMessage>) -> CreateChatCompletionRequest {
    let messages = messages.into_iter().collect();
    CreateChatCompletionRequest { model: "m".into(), messages, ..Default::default() }
}

/// One round of an agent that was written without history: it keeps all messages itself, and adds the reply to them.
/// Returns the ids of the reply's calls.
async fn round(
    client: &Client<OpenAIConfig>,
    streamed: bool,
    messages: &mut Vec<ChatCompletionRequestMessage>,
) -> Result<Vec<String>, OpenAIError> {
    let chat = client.chat().header(CONVERSATION_ID, id().to_string())?;
    let request = request(messages.clone());
    let mut reply = ChatCompletionRequestAssistantMessageArgs::default();
    let mut ids = Vec::new();
    if streamed {
        let mut stream = chat.create_stream(request).await?;
        let mut text = String::new();
        let mut calls = Vec::<(String, String, String)>::new();
        while let Some(chunk) = stream.next().await {
            for choice in &chunk?.choices {
                text.push_str(choice.delta.content.as_deref().unwrap_or_default());
                for call in choice.delta.tool_calls.iter().flatten() {
                    let at = call.index as usize;
                    calls.resize(calls.len().max(at + 1), Default::default());
                    let function = call.function.as_ref();
                    calls[at].0.push_str(call.id.as_deref().unwrap_or_default());
                    calls[at].1.push_str(function.and_then(|f| f.name.as_deref()).unwrap_or_default());
                    calls[at].2.push_str(function.and_then(|f| f.arguments.as_deref()).unwrap_or_default());
                }
            }
        }
        ids.extend(calls.iter().map(|call| call.0.clone()));
        if calls.is_empty() {
            reply.content(text);
        } else {
            let calls = calls.into_iter().map(|(id, name, arguments)| {
                serde_json::from_value::<ChatCompletionMessageToolCalls>(serde_json::json!({
                    "id": id, "type": "function", "function": { "name": name, "arguments": arguments },
                }))
            });
            reply.tool_calls(calls.collect::<Result<Vec<_>, _>>().unwrap());
        }
    } else {
        let message = chat.create(request).await?.choices.remove(0).message;
        match message.tool_calls {
            Some(calls) => {
                ids.extend(calls.iter().map(|call| match call {
                    ChatCompletionMessageToolCalls::Function(call) => call.id.clone(),
                    ChatCompletionMessageToolCalls::Custom(call) => call.id.clone(),
                }));
                reply.tool_calls(calls);
            }
            None => drop(reply.content(message.content.unwrap_or_default())),
        }
    }
    messages.push(reply.build().unwrap().into());
    Ok(ids)
}

async fn ask(client: &Client<OpenAIConfig>, streamed: bool, text: &str) -> Result<(), OpenAIError> {
    round(client, streamed, &mut vec![user(text)]).await.map(drop)
}

async fn log(store: &impl HistoryStore) -> Vec<String> {
    let messages = store.conversation(&id()).messages().await.unwrap();
    messages.iter().map(|message| format!("{}: {}", message.role(), message.text())).collect()
}

async fn exchanges(store: &impl HistoryStore) -> Vec<Recorded> {
    store.conversation(&id()).exchanges().await.unwrap()
}

fn prompt(server: &MockServer, at: usize) -> Vec<String> {
    server.prompts()[at].iter().map(|message| format!("{}: {}", message.role(), message.text())).collect()
}

fn history_error(error: &OpenAIError) -> Option<&HistoryError> {
    let OpenAIError::Boxed(error) = error else { return None };
    error.downcast_ref()
}

#[tokio::test]
async fn a_client_sends_the_history_and_stores_each_exchange() {
    for streamed in [false, true] {
        let store = MemoryStore::new();
        let (server, client) = start(["a0", "a1", "a2"].map(Reply::text), store.clone()).await;
        for text in ["u0", "u1", "u2"] {
            ask(&client, streamed, text).await.unwrap();
        }
        assert_eq!(prompt(&server, 2), ["user: u0", "assistant: a0", "user: u1", "assistant: a1", "user: u2"]);
        assert_eq!(log(&store).await.len(), 6);
        // Between compactions, each prompt begins with the previous one, so that providers can cache it.
        let bodies: Vec<String> = server.requests().iter().map(|request| request.body().to_owned()).collect();
        for pair in bodies.windows(2) {
            let (messages, _) = pair[0].split_once("],\"model\"").unwrap();
            assert!(pair[1].starts_with(messages), "{pair:?}");
        }
        for request in server.requests() {
            assert!(HEADERS.iter().all(|name| request.header(name).is_none()));
            assert_eq!(request.header("authorization"), Some("Bearer test"));
        }
    }
}

#[tokio::test]
async fn a_tool_loop_that_resends_everything_stores_each_message_once() {
    for streamed in [false, true] {
        let store = MemoryStore::new();
        let replies = [
            Reply::calls([("x", "f", "{}"), ("y", "g", "{\"a\":1}")]).field("reasoning_content", "r0"),
            Reply::calls([("z", "f", "{}")]),
            Reply::text("done"),
            Reply::text("again"),
        ];
        let (server, client) = start(replies, store.clone()).await;
        let mut messages: Vec<ChatCompletionRequestMessage> =
            vec![ChatCompletionRequestSystemMessage::from("S").into(), user("u0")];
        loop {
            let calls = round(&client, streamed, &mut messages).await.unwrap();
            if calls.is_empty() {
                break;
            }
            for id in calls {
                let content = format!("r {id}").into();
                messages.push(ChatCompletionRequestToolMessage { content, tool_call_id: id }.into());
            }
        }
        messages.push(user("u1"));
        round(&client, streamed, &mut messages).await.unwrap();
        let expected = [
            "user: u0",
            "assistant: ",
            "tool: r x",
            "tool: r y",
            "assistant: ",
            "tool: r z",
            "assistant: done",
            "user: u1",
            "assistant: again",
        ];
        assert_eq!(log(&store).await, expected, "streamed: {streamed}");
        assert_eq!(prompt(&server, 3), [&["system: S"][..], &expected[..8]].concat());
        // The client's types drop this field. It comes from the log.
        assert!(server.requests()[3].body().contains(r#""reasoning_content":"r0""#));
    }
}

#[tokio::test]
async fn a_transcript_that_is_not_the_end_of_the_log_is_refused() {
    let store = MemoryStore::new();
    let (server, client) = start([Reply::text("a0")], store.clone()).await;
    let mut messages = vec![user("u0")];
    round(&client, false, &mut messages).await.unwrap();
    messages[0] = user("edited");
    messages.push(user("u1"));
    let error = round(&client, false, &mut messages).await.unwrap_err();
    assert!(matches!(history_error(&error), Some(HistoryError::Transcript(_))), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn with_input_mode_new_a_resent_reply_is_refused() {
    let store = MemoryStore::new();
    let server = MockServer::start(["a0"].map(Reply::text)).await.unwrap();
    let client = OpenAiHistory::new(store.clone()).input_mode(InputMode::New).client(config(&server));
    let mut messages = vec![user("u0"), user("and?")];
    round(&client, false, &mut messages).await.unwrap();
    messages.push(user("u1"));
    let error = round(&client, false, &mut messages).await.unwrap_err();
    let Some(HistoryError::Input(InputError::Resent { position: 2 })) = history_error(&error) else {
        panic!("{error:?}")
    };
    assert_eq!(log(&store).await, ["user: u0", "user: and?", "assistant: a0"]);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn unknown_fields_of_a_reply_are_stored_and_sent_again() {
    for streamed in [false, true] {
        let store = MemoryStore::new();
        let reply = Reply::text("a0").field("reasoning_content", "think").field("x", serde_json::json!({"z": 1.5}));
        let (server, client) = start([reply, Reply::text("a1")], store.clone()).await;
        ask(&client, streamed, "u0").await.unwrap();
        let stored = exchanges(&store).await.remove(0).exchange;
        assert_eq!((stored.finish_reason.as_deref(), stored.model.as_deref()), (Some("stop"), Some("m")));
        assert_eq!(stored.usage.is_some(), !streamed, "a stream reports usage only on request");
        let json = stored.messages[1].json();
        assert!(json.contains(r#""reasoning_content":"think""#) && json.contains(r#""x":{"z":1.5}"#), "{json}");
        ask(&client, streamed, "u1").await.unwrap();
        assert!(server.requests()[1].body().contains(json));
    }
}
