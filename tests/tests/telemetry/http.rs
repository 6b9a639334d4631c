//! Calls over real HTTP, which have an API key.

use std::collections::BTreeSet;

use async_openai::{
    Client, config::OpenAIConfig, traits::RequestOptionsBuilder as _, types::chat::CreateChatCompletionRequest,
};
use futures_util::StreamExt as _;
use serde_json::json;
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{ChatHistoryLayer, HistoryOptions, MemoryStore};
use tower_chat_history_openai::{
    ChatService, ChatStreamService, OpenAi,
    client::{CONVERSATION_ID, EXCHANGE_ID, OpenAiHistory},
};
use tower_chat_history_test::{ApiFailure, MockServer, Reply};

use crate::{
    content::{conversation, exchange, found, marked_call, question},
    trace::traced,
};

/// A provider's answer to a wrong key, which quotes the key.
fn refused() -> Reply {
    Reply::error(ApiFailure::new(401, "Incorrect API key provided: mark-key, for mark-user"))
}

fn replies() -> [Reply; 8] {
    let reply = || Reply::text("mark-reply").chunk_chars(3);
    [
        refused(),
        reply(),
        refused(),
        reply(),
        reply().abort_after(2),
        reply().end_after(2),
        reply().error_after(2, ApiFailure::new(500, "mark-key")),
        reply(),
    ]
}

fn config(server: &MockServer) -> OpenAIConfig {
    OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("mark-key").with_org_id("mark-field")
}

/// Checks that the server received the marks.
fn check_sent(server: &MockServer) {
    let sent = server.requests();
    assert!(sent.len() > 1);
    for request in sent {
        assert_eq!(request.header("authorization"), Some("Bearer mark-key"));
        assert!(request.body().contains("mark-user"));
    }
}

#[tokio::test]
async fn no_key_is_exported_by_a_service_of_a_client() {
    let server = MockServer::start(replies()).await.unwrap();
    let client = Client::with_config(config(&server));
    let layer = ChatHistoryLayer::with_options(MemoryStore::new(), OpenAi::new(), HistoryOptions::new());
    let (errors, trace) = traced(async {
        let (unary, streaming) =
            (layer.layer(ChatService::new(client.clone())), layer.layer(ChatStreamService::new(client)));
        let mut errors = String::new();
        for number in 0..2 {
            let call = marked_call(&conversation(), &question(1)).exchange(exchange(&number.to_string()));
            errors.extend(unary.clone().oneshot(call).await.err().map(|error| format!("{error:?}")));
        }
        for number in 2..8 {
            let call = marked_call(&conversation(), &question(1)).exchange(exchange(&number.to_string()));
            match streaming.clone().oneshot(call).await {
                Ok(stream) => drop(stream.collect::<Vec<_>>().await),
                Err(error) => errors.push_str(&format!("{error:?}")),
            }
        }
        server.replies().push(Reply::text("unused"));
        errors
    })
    .await;
    assert!(errors.contains("mark-key"), "the caller gets the provider's error");
    check_sent(&server);
    let red = trace.all("chat mock").into_iter().filter(|call| call.is_error).map(|call| call["error.type"].clone());
    assert_eq!(red.collect::<Vec<_>>()[..2], [json!("401"), json!("401")]);
    assert_eq!(found(&trace), BTreeSet::new());
}

#[tokio::test]
async fn no_key_is_exported_by_the_client_with_history() {
    let server = MockServer::start(replies()).await.unwrap();
    let client = OpenAiHistory::new(MemoryStore::new()).client(config(&server));
    let ((), trace) = traced(async {
        for number in 0..8 {
            let request: CreateChatCompletionRequest = marked_call(&conversation(), &question(1)).into_parts().1;
            let chat = client.chat().header(CONVERSATION_ID, conversation().to_string()).unwrap();
            let chat = chat.header(EXCHANGE_ID, exchange(&number.to_string()).to_string()).unwrap();
            if number < 2 {
                drop(chat.create(request).await);
            } else if let Ok(stream) = chat.create_stream(request).await {
                drop(stream.collect::<Vec<_>>().await);
            }
        }
    })
    .await;
    check_sent(&server);
    assert_eq!(trace.all("chat_history").len(), 8);
    assert!(trace.all("chat mock").iter().any(|call| call["error.type"] == "401"));
    assert_eq!(found(&trace), BTreeSet::new());
}

#[tokio::test]
async fn no_key_is_exported_if_the_server_is_down() {
    let server = MockServer::start([]).await.unwrap();
    let client = Client::with_config(config(&server));
    server.shutdown().await;
    let chat = ChatHistoryLayer::new(MemoryStore::new(), OpenAi::new()).layer(ChatService::new(client));
    let (answered, trace) = traced(chat.oneshot(marked_call(&conversation(), &question(1)))).await;
    assert!(answered.is_err());
    assert!(trace.one("chat mock").is_error);
    assert_eq!(found(&trace), BTreeSet::new());
}
