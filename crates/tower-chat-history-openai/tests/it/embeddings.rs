//! Embeddings by async-openai's client, over HTTP.

use std::{sync::Arc, time::Duration};

use async_openai::{
    Client,
    config::{AzureConfig, OpenAIConfig},
    error::OpenAIError,
    types::embeddings::{CreateEmbeddingRequestArgs, EncodingFormat},
};
use tower::{ServiceBuilder, ServiceExt as _, timeout::TimeoutLayer};
use tower_chat_history::recall::{Embedder, ServiceEmbedder};
use tower_chat_history_openai::{EmbeddingError, EmbeddingService, embedder};
use tower_chat_history_test::{ApiFailure, MockEmbeddings, MockServer, Replies};

async fn start() -> (MockServer, Client<OpenAIConfig>) {
    let server = MockServer::start(Replies::script([])).await.unwrap();
    let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test");
    (server, Client::with_config(config))
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn texts_become_vectors_in_their_order() {
    let (server, client) = start().await;
    let embedder: Arc<dyn Embedder> = Arc::new(embedder(client, "small", Some(16)));
    let found = embedder.embed(texts(&["one", "two", "one"])).await.unwrap();
    assert!(found.len() == 3 && found.iter().all(|vector| vector.len() == 16));
    assert!(found[0] == found[2] && found[0] != found[1]);
    let requests = server.embeddings().requests();
    let sent = requests[0].json();
    assert_eq!((&sent["model"], &sent["dimensions"]), (&"small".into(), &16.into()));
    assert_eq!((&sent["input"], &sent["encoding_format"]), (&texts(&["one", "two", "one"]).into(), &"float".into()));
    assert_eq!((requests.len(), requests[0].header("authorization")), (1, Some("Bearer test")));
}

#[tokio::test]
async fn the_model_decides_the_dimensions_by_default() {
    let (server, client) = start().await;
    let service = EmbeddingService::new(client, "small");
    let found = service.oneshot(texts(&["one"])).await.unwrap();
    assert_eq!(found[0].len(), MockEmbeddings::DIMENSIONS);
    assert_eq!(server.embeddings().requests()[0].json().get("dimensions"), None);
}

#[tokio::test]
async fn many_texts_are_split_into_requests() {
    let (server, client) = start().await;
    let service = EmbeddingService::new(client, "small");
    let long = "a ".repeat(10_000);
    let mut many = vec![long; 40];
    many[39] = "last".to_owned();
    let found = service.clone().oneshot(many).await.unwrap();
    assert_eq!((found.len(), server.embeddings().requests().len()), (40, 3));
    assert!(found[0] == found[38] && found[0] != found[39]);
    assert!(service.oneshot(Vec::new()).await.unwrap().is_empty());
    assert_eq!(server.embeddings().requests().len(), 3, "no request without texts");
}

#[tokio::test]
async fn errors_have_no_text_of_the_provider() {
    let (server, client) = start().await;
    let service = EmbeddingService::new(client, "small");
    server.embeddings().fail_if(|texts| Some(ApiFailure::new(403, format!("I do not like {}", texts[0]))));
    let error = service.oneshot(texts(&["my diagnosis"])).await.unwrap_err();
    assert_eq!(error.to_string(), "the request for embeddings failed: 403");
    assert!(matches!(error, EmbeddingError::Client(OpenAIError::ApiError(_))));
}

#[tokio::test]
async fn layers_wrap_the_service() {
    let (server, client) = start().await;
    server.embeddings().latency(Duration::from_secs(600));
    let service = EmbeddingService::new(client, "small");
    let timeout = TimeoutLayer::new(Duration::from_millis(20));
    let embedder = ServiceEmbedder::new(ServiceBuilder::new().layer(timeout).service(service));
    let error = embedder.embed(texts(&["one"])).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>(), "{error}");
}

#[tokio::test]
async fn azure_deployments_are_called() {
    let (server, _) = start().await;
    let azure = AzureConfig::new()
        .with_api_base(format!("http://{}", server.address()))
        .with_deployment_id("d")
        .with_api_version("v1")
        .with_api_key("test");
    let service = EmbeddingService::new(Client::with_config(azure), "small");
    assert_eq!(service.oneshot(texts(&["one"])).await.unwrap().len(), 1);
    assert_eq!(server.embeddings().requests()[0].path(), "/openai/deployments/d/embeddings");
}

#[tokio::test]
async fn the_mock_server_answers_in_base64_too() {
    let (_server, client) = start().await;
    let mut request = CreateEmbeddingRequestArgs::default();
    request.model("small").input(["one two", "three"]).dimensions(5_u32);
    let floats = client.embeddings().create(request.build().unwrap()).await.unwrap();
    let request = request.encoding_format(EncodingFormat::Base64).build().unwrap();
    let encoded = client.embeddings().create_base64(request).await.unwrap();
    assert_eq!(floats.usage, encoded.usage);
    for (float, encoded) in floats.data.into_iter().zip(encoded.data) {
        assert_eq!(Vec::<f32>::from(encoded.embedding), float.embedding);
    }
}
