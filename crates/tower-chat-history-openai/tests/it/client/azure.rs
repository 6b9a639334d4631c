//! Azure's configuration: deployments in the path, the version in the query, the key in the header `api-key`.

use async_openai::{Client, config::AzureConfig, traits::RequestOptionsBuilder as _};
use futures_util::StreamExt as _;
use tower_chat_history::MemoryStore;
use tower_chat_history_openai::client::{CONVERSATION_ID, EXCHANGE_ID, OpenAiHistory};
use tower_chat_history_test::{MockServer, Reply};

use super::{HEADERS, exchanges, id, log, prompt, request, user};

#[tokio::test]
async fn a_client_of_an_azure_deployment_has_history() {
    for streamed in [false, true] {
        let store = MemoryStore::new();
        let server = MockServer::start(["a0", "a1"].map(Reply::text)).await.unwrap();
        let config = AzureConfig::new()
            .with_api_base(format!("http://{}", server.address()))
            .with_deployment_id("d")
            .with_api_version("2024-10-21")
            .with_api_key("k");
        let client: Client<AzureConfig> = OpenAiHistory::new(store.clone()).client(config);
        for text in ["u0", "u1"] {
            let chat =
                client.chat().header(CONVERSATION_ID, id().to_string()).unwrap().header(EXCHANGE_ID, text).unwrap();
            if streamed {
                let chunks: Vec<_> = chat.create_stream(request([user(text)])).await.unwrap().collect().await;
                assert!(chunks.iter().all(Result::is_ok));
            } else {
                chat.create(request([user(text)])).await.unwrap();
            }
        }
        assert_eq!(log(&store).await, ["user: u0", "assistant: a0", "user: u1", "assistant: a1"]);
        let stored: Vec<String> = exchanges(&store).await.iter().map(|stored| stored.exchange.id.to_string()).collect();
        assert_eq!(stored, ["u0", "u1"]);
        assert_eq!(prompt(&server, 1), ["user: u0", "assistant: a0", "user: u1"]);
        for request in server.requests() {
            assert_eq!(request.path(), "/openai/deployments/d/chat/completions");
            assert_eq!(request.query(), Some("api-version=2024-10-21"));
            assert_eq!(request.header("api-key"), Some("k"));
            assert!(HEADERS.iter().all(|name| request.header(name).is_none()));
        }
    }
}
