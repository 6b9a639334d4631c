//! `MockServer` with async-openai's own client.

use std::time::{Duration, Instant};

use async_openai::{
    Client,
    config::{AzureConfig, OpenAIConfig},
    error::OpenAIError,
    types::chat::{
        ChatCompletionMessageToolCalls, ChatCompletionRequestUserMessage, ChatCompletionStreamOptions,
        CreateChatCompletionRequest, CreateChatCompletionStreamResponse, FinishReason,
    },
};
use futures_util::StreamExt;
use tower_chat_history_test::{ApiFailure, MockServer, Replies, Reply, rules};

type Chunks = Vec<Result<CreateChatCompletionStreamResponse, OpenAIError>>;

async fn start(replies: impl Into<Replies>) -> (MockServer, Client<OpenAIConfig>) {
    let server = MockServer::start(replies).await.unwrap();
    let client = Client::with_config(OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test"));
    (server, client)
}

fn request(text: &str) -> CreateChatCompletionRequest {
    let message = ChatCompletionRequestUserMessage::from(text).into();
    CreateChatCompletionRequest { model: "gpt-mock".into(), messages: vec![message], ..Default::default() }
}

async fn streamed(client: &Client<OpenAIConfig>, request: CreateChatCompletionRequest) -> Chunks {
    client.chat().create_stream(request).await.unwrap().collect().await
}

fn text(chunks: &Chunks) -> String {
    let choices = chunks.iter().flatten().flat_map(|chunk| &chunk.choices);
    choices.filter_map(|choice| choice.delta.content.as_deref()).collect()
}

fn finish(chunks: &Chunks) -> Vec<FinishReason> {
    chunks.iter().flatten().flat_map(|chunk| &chunk.choices).filter_map(|choice| choice.finish_reason).collect()
}

#[tokio::test]
async fn a_request_is_answered_and_recorded() {
    let (server, client) = start([Reply::text("Hello!")]).await;
    let response = client.chat().create(request("Hi!")).await.unwrap();
    assert_eq!(response.choices[0].message.content.as_deref(), Some("Hello!"));
    assert_eq!(response.usage.unwrap().completion_tokens, 2);

    let recorded = &server.requests()[0];
    assert_eq!(recorded.header("authorization"), Some("Bearer test"));
    assert_eq!(recorded.json()["model"], "gpt-mock");
    assert_eq!(recorded.messages()[0].json(), r#"{"role":"user","content":"Hi!"}"#);
    assert!(!format!("{recorded:?} {server:?}").contains("Hi!"));
    server.shutdown().await;
}

#[tokio::test]
async fn azure_deployments_are_served() {
    let (server, client) = start(["a0", "a1"].map(Reply::text)).await;
    client.chat().create(request("Hi!")).await.unwrap();
    let azure = AzureConfig::new()
        .with_api_base(format!("http://{}", server.address()))
        .with_deployment_id("d 1")
        .with_api_version("v1")
        .with_api_key("test");
    let answer = Client::with_config(azure).chat().create(request("Hi!")).await.unwrap();
    assert_eq!(answer.choices[0].message.content.as_deref(), Some("a1"));
    let requests = server.requests();
    assert_eq!((requests[0].path(), requests[0].query()), ("/v1/chat/completions", None));
    assert_eq!(requests[1].path(), "/openai/deployments/d%201/chat/completions");
    assert_eq!((requests[1].query(), requests[1].body()), (Some("api-version=v1"), requests[0].body()));
}

#[tokio::test]
async fn streams_arrive_with_any_size_of_writes() {
    let replies = [None, Some(1), Some(5), Some(100_000)].map(|bytes| {
        let reply = Reply::text("Hellö, wörld \u{1F600}!").chunk_chars(3);
        bytes.map_or(reply.clone(), |bytes| reply.wire_bytes(bytes))
    });
    let (_server, client) = start(replies).await;
    let options = ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None };
    for _ in 0..4 {
        let request = CreateChatCompletionRequest { stream_options: Some(options), ..request("Hi!") };
        let chunks = streamed(&client, request).await;
        assert_eq!(text(&chunks), "Hellö, wörld \u{1F600}!");
        assert_eq!(finish(&chunks), [FinishReason::Stop]);
        let last = chunks.last().unwrap().as_ref().unwrap();
        assert!(last.choices.is_empty() && last.usage.is_some());
    }
}

#[tokio::test]
async fn tool_calls_are_sent_whole_or_in_deltas() {
    let calls = || Reply::text("Let me see.").with_calls([("a", "f", "{\"x\":1}"), ("b", "g", "no JSON {")]);
    let (_server, client) = start([calls(), calls().chunk_chars(2)]).await;
    let choice = client.chat().create(request("Hi!")).await.unwrap().choices.remove(0);
    assert_eq!(choice.finish_reason, Some(FinishReason::ToolCalls));
    let calls = choice.message.tool_calls.unwrap();
    assert!(
        matches!(&calls[1], ChatCompletionMessageToolCalls::Function(call) if call.function.arguments == "no JSON {")
    );

    let chunks = streamed(&client, request("Hi!")).await;
    let mut arguments = [String::new(), String::new()];
    for call in chunks.iter().flatten().flat_map(|c| &c.choices).filter_map(|c| c.delta.tool_calls.as_ref()).flatten() {
        arguments[call.index as usize].extend(call.function.clone().and_then(|function| function.arguments));
    }
    assert_eq!(arguments, ["{\"x\":1}", "no JSON {"]);
    assert_eq!((text(&chunks).as_str(), finish(&chunks).len()), ("Let me see.", 1));
}

#[tokio::test]
async fn the_client_waits_and_retries_after_429() {
    let busy = Reply::error(ApiFailure::rate_limited(Duration::from_secs(1)));
    let (server, client) = start([busy, Reply::text("Hello!")]).await;
    let start = Instant::now();
    let response = client.chat().create(request("Hi!")).await.unwrap();
    assert_eq!(response.choices[0].message.content.as_deref(), Some("Hello!"));
    assert!(start.elapsed() >= Duration::from_secs(1), "the client waited as Retry-After says");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn the_client_retries_500_three_times_and_other_errors_never() {
    let failures = vec![Reply::error(ApiFailure::server_error()); 4];
    let (server, client) = start(failures).await;
    let error = client.chat().create(request("Hi!")).await.unwrap_err();
    assert!(matches!(&error, OpenAIError::ApiError(e) if e.status_code.as_u16() == 500), "{error}");
    assert_eq!(server.requests().len(), 4, "three retries");

    server.replies().push(Reply::error(ApiFailure::insufficient_quota()));
    assert!(client.chat().create(request("Hi!")).await.is_err());
    // The script is used up, and neither error is retried.
    let error = client.chat().create_stream(request("Hi!")).await.err().unwrap();
    assert!(matches!(&error, OpenAIError::ApiError(e) if e.api_error.code.as_deref() == Some("script_used_up")));
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn an_error_event_is_an_item_and_the_stream_may_continue() {
    let failure = || ApiFailure::new(500, "overloaded");
    let reply = || Reply::text("abcdef").chunk_chars(1);
    let (_server, client) = start([reply().error_after(3, failure()), reply().passing_error_after(3, failure())]).await;
    let failed = streamed(&client, request("Hi!")).await;
    assert!(matches!(&failed[3], Err(OpenAIError::JSONDeserialize(_, event)) if event.contains("overloaded")));
    assert!(failed.len() == 4 && finish(&failed).is_empty());

    let passing = streamed(&client, request("Hi!")).await;
    assert!(passing[3].is_err() && text(&passing) == "abcdef" && finish(&passing).len() == 1);
}

#[tokio::test]
async fn cut_streams_end_cleanly_or_with_an_error() {
    let reply = || Reply::text("abcdef").chunk_chars(1);
    let (_server, client) =
        start([reply().end_after(3), reply().abort_after(3), reply().wire_bytes(50).abort_after(3)]).await;
    let ended = streamed(&client, request("Hi!")).await;
    assert!(ended.iter().all(Result::is_ok) && finish(&ended).is_empty() && text(&ended) == "ab");
    for _ in 0..2 {
        let aborted = streamed(&client, request("Hi!")).await;
        assert!(matches!(aborted.last(), Some(Err(OpenAIError::StreamError(_)))), "{aborted:?}");
        assert_eq!(text(&aborted), "ab", "the chunks before the break arrive");
    }
}

#[tokio::test]
async fn an_aborted_connection_is_not_retried_and_the_server_continues() {
    let (server, client) = start([Reply::text("a").abort_after(0), Reply::panic("oops"), Reply::text("b")]).await;
    for _ in 0..2 {
        let error = client.chat().create(request("Hi!")).await.unwrap_err();
        assert!(matches!(error, OpenAIError::Reqwest(_)), "{error}");
    }
    assert!(client.chat().create(request("Hi!")).await.is_ok());
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn invalid_prompts_are_refused() {
    let (server, client) = start(Replies::rules(rules::remembering())).await;
    let empty = CreateChatCompletionRequest { messages: Vec::new(), ..request("") };
    let error = client.chat().create(empty).await.unwrap_err();
    assert!(
        matches!(&error, OpenAIError::ApiError(e) if e.api_error.code.as_deref() == Some("empty_array")),
        "{error}"
    );
    let answer = client.chat().create(request("I'm Nemo")).await.unwrap();
    assert_eq!(answer.choices[0].message.content.as_deref(), Some("Nice to meet you, Nemo!"));
    assert_eq!(server.prompts().iter().map(Vec::len).collect::<Vec<_>>(), [0, 1]);
}

#[tokio::test]
async fn shutdown_completes_replies_and_drop_aborts_them() {
    let slow = || Reply::text("abcdef").chunk_chars(1).chunk_delay(Duration::from_millis(20));
    let (server, client) = start([slow()]).await;
    let mut stream = client.chat().create_stream(request("Hi!")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let (rest, ()) = tokio::join!(stream.collect::<Chunks>(), server.shutdown());
    assert_eq!((text(&rest).as_str(), finish(&rest).len()), ("abcdef", 1));
    assert!(
        matches!(client.chat().create(request("Hi!")).await, Err(OpenAIError::Reqwest(_))),
        "the server has stopped"
    );

    let (server, client) = start([slow().chunk_delay(Duration::from_secs(3_600))]).await;
    let mut stream = client.chat().create_stream(request("Hi!")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(server);
    let next = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
    assert!(next.expect("open connections end with the server").unwrap().is_err());
}
