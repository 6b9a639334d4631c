//! Recorded replies of providers, through every adapter. A reply is stored as the same message, streamed or not.
//!
//! For each stream (`recorded/NAME.sse`), there is the provider's response to the same request without streaming
//! (`recorded/NAME.json`).

use std::sync::{Arc, Mutex};

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    middleware::HttpRequestFactory,
    types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequest},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream::BoxStream};
use reqwest::{Method, Request, Response};
use serde_json::{Value, json};
use tower::{ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, HistoryOptions, HistoryStoreExt as _, InConversation,
    MemoryStore, adapt::Json,
};
use tower_chat_history_openai::{
    ChatService, ChatStreamService, OpenAi,
    client::{CONVERSATION_ID, OpenAiHistory},
};
use tower_layer::Layer as _;

/// A reply of a provider.
struct Recorded {
    name: &'static str,
    stream: &'static str,
    answer: &'static str,
    /// The fields of the message that the provider sends only in a whole response, as JSON pointers.
    only_in_answer: &'static [&'static str],
    /// The outcome of the typed integration.
    typed: Typed,
}

/// The outcome of the typed integration.
enum Typed {
    /// The reply is stored without these fields, which the types do not know. They are JSON pointers.
    Without(&'static [&'static str]),
    /// async-openai refuses the stream, which is an interruption. The whole response is stored without these fields.
    StreamRefused(&'static [&'static str]),
    /// async-openai refuses the stream and the whole response.
    Refused,
}

macro_rules! recorded {
    ($($name:ident: only in answer $only:expr, $typed:expr;)*) => {
        const RECORDED: &[Recorded] = &[$(Recorded {
            name: stringify!($name),
            stream: include_str!(concat!(stringify!($name), ".sse")),
            answer: include_str!(concat!(stringify!($name), ".json")),
            only_in_answer: &$only,
            typed: $typed,
        }),*];
    };
}

recorded! {
    openai_text: only in answer ["/annotations"], Typed::Without(&[]);
    openai_tool: only in answer ["/annotations"], Typed::Without(&[]);
    openai_parallel_tools: only in answer ["/annotations"], Typed::Without(&[]);
    // The types know no custom tool in a chunk. In a whole response they require another name for it than the wire's.
    openai_custom_tool: only in answer ["/annotations"], Typed::Refused;
    openai_refusal: only in answer ["/annotations"], Typed::Without(&[]);
    openai_function_call: only in answer [], Typed::Without(&[]);
    openai_audio: only in answer ["/annotations"], Typed::Without(&[]);
    azure_text: only in answer ["/annotations"], Typed::Without(&[]);
    openrouter_reasoning_details: only in answer [], Typed::Without(&["/reasoning", "/reasoning_details"]);
    deepseek_reasoning: only in answer [], Typed::Without(&["/reasoning_content"]);
    gemini_signature: only in answer [], Typed::Without(&["/tool_calls/0/extra_content"]);
    // The types require an index.
    gemini_calls_without_index: only in answer [], Typed::StreamRefused(&["/tool_calls/0/extra_content"]);
    ollama_whole_calls: only in answer [], Typed::Without(&[]);
    vllm_reasoning_tool: only in answer [], Typed::Without(&["/reasoning_content"]);
    groq_text: only in answer [], Typed::Without(&["/reasoning", "/channel"]);
    // The types know no content in parts.
    mistral_thinking: only in answer [], Typed::Refused;
    // The types require an index and an id.
    calls_without_index_and_id: only in answer [], Typed::Refused;
    choice_numbered_1: only in answer [], Typed::Without(&[]);
    role_of_a_user: only in answer [], Typed::Without(&[]);
    deepseek_tool_with_reasoning: only in answer [], Typed::Without(&["/reasoning_content"]);
    deepseek_tool_with_empty_reasoning: only in answer [], Typed::Without(&["/reasoning_content"]);
    openrouter_signed_fragments: only in answer [], Typed::Without(&["/reasoning", "/reasoning_details"]);
    openrouter_gemini_signature: only in answer [], Typed::Without(&["/reasoning", "/reasoning_details"]);
    // LiteLLM up to June 2026, and since then.
    litellm_thinking_in_pieces: only in answer [],
        Typed::Without(&["/reasoning_content", "/thinking_blocks", "/provider_specific_fields"]);
    litellm_whole_thinking: only in answer [],
        Typed::Without(&["/reasoning_content", "/thinking_blocks", "/provider_specific_fields"]);
    litellm_gemini_signature: only in answer [], Typed::Without(&["/tool_calls/0/provider_specific_fields"]);
    gemini_calls_in_one_chunk: only in answer [], Typed::StreamRefused(&["/tool_calls/0/extra_content"]);
    gemini_signed_text: only in answer [], Typed::Without(&["/extra_content"]);
}

impl Recorded {
    /// Returns the message of the whole response, with the role assistant and without null fields.
    fn message(&self) -> Value {
        let answer: Value = serde_json::from_str(self.answer).unwrap();
        let mut message = answer["choices"][0]["message"].clone();
        message["role"] = "assistant".into();
        without_nulls(message)
    }

    /// Returns the message as the stream contains it.
    fn streamed(&self) -> Value {
        without(self.message(), self.only_in_answer)
    }

    fn chunks(&self) -> Vec<Value> {
        let data = self.stream.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

fn without(mut message: Value, pointers: &[&str]) -> Value {
    for pointer in pointers {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = message.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        assert!(parent.remove(name).is_some(), "the message has no {pointer}: remove it from the list");
    }
    message
}

fn without_nulls(mut message: Value) -> Value {
    message.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    message
}

/// The reply that a turn stored, or the outcome of a turn that stored none.
type Stored = Result<Value, &'static str>;

struct Turn {
    store: MemoryStore,
    engine: Engine,
    outcomes: Arc<Mutex<Vec<&'static str>>>,
}

fn id() -> ConversationId {
    ConversationId::new(["recorded"]).unwrap()
}

impl Turn {
    fn new() -> Self {
        let (store, outcomes) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
        let options = HistoryOptions::new().on_turn({
            let outcomes = Arc::clone(&outcomes);
            move |report| outcomes.lock().unwrap().push(report.outcome.kind())
        });
        Self { engine: Engine::with_options(store.clone(), options), store, outcomes }
    }

    async fn stored(self) -> Stored {
        let log = self.store.conversation(&id()).messages().await.unwrap();
        let outcome = self.outcomes.lock().unwrap()[0];
        log.get(1).map(|reply| without_nulls(serde_json::from_str(reply.json()).unwrap())).ok_or(outcome)
    }
}

fn response(kind: &'static str, body: &'static str) -> Response {
    http::Response::builder().header("content-type", kind).body(body).unwrap().into()
}

/// Returns a response whose body arrives byte by byte.
fn response_in_bytes(kind: &'static str, body: &'static str) -> Response {
    let bytes = body.as_bytes().iter().map(|byte| Ok::<_, OpenAIError>(Bytes::from_static(std::slice::from_ref(byte))));
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(bytes));
    http::Response::builder().header("content-type", kind).body(body).unwrap().into()
}

async fn stored_by_the_client(kind: &'static str, body: &'static str) -> Stored {
    stored_by_the_client_from(body, move || response(kind, body)).await
}

async fn stored_by_the_client_from(
    body: &str,
    respond: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> Stored {
    let turn = Turn::new();
    let transport = service_fn(move |factory: HttpRequestFactory| {
        let respond = respond.clone();
        async move {
            factory.build().await?;
            Ok::<_, OpenAIError>(respond())
        }
    });
    let factory = HttpRequestFactory::new(|| async {
        let mut request = Request::new(Method::POST, "http://llm.test/v1/chat/completions".parse().unwrap());
        request.headers_mut().insert(CONVERSATION_ID, id().as_str().parse().unwrap());
        *request.body_mut() = Some(r#"{"messages":[{"role":"user","content":"u"}]}"#.into());
        Ok(request)
    });
    let service = OpenAiHistory::from_engine(turn.engine.clone()).layer().layer(transport);
    let answer = service.oneshot(factory).await.unwrap();
    assert_eq!(answer.text().await.unwrap(), body);
    turn.stored().await
}

fn client(kind: &'static str, body: &'static str) -> Client<OpenAIConfig> {
    let transport = service_fn(move |_: HttpRequestFactory| async move { Ok::<_, OpenAIError>(response(kind, body)) });
    Client::with_config(OpenAIConfig::new().with_api_key("test")).with_http_service(transport)
}

fn typed_call() -> InConversation<CreateChatCompletionRequest> {
    let messages = vec![ChatCompletionRequestUserMessage::from("u").into()];
    InConversation::new(id(), CreateChatCompletionRequest { model: "m".into(), messages, ..Default::default() })
}

async fn stored_by_the_types(recorded: &Recorded) -> Stored {
    let turn = Turn::new();
    let model = ChatService::new(client("application/json", recorded.answer));
    let service = ChatHistoryLayer::from_engine(turn.engine.clone(), OpenAi::new()).layer(model);
    drop(service.oneshot(typed_call()).await);
    turn.stored().await
}

async fn stored_by_streaming_types(recorded: &Recorded) -> Stored {
    let turn = Turn::new();
    let model = ChatStreamService::new(client("text/event-stream", recorded.stream));
    let service = ChatHistoryLayer::from_engine(turn.engine.clone(), OpenAi::new()).layer(model);
    let stream = service.oneshot(typed_call()).await.unwrap();
    stream.for_each(|_| async {}).await;
    turn.stored().await
}

fn json_call() -> InConversation<Value> {
    InConversation::new(id(), json!({"messages": [{"role": "user", "content": "u"}]}))
}

async fn stored_by_values(recorded: &Recorded) -> Stored {
    let turn = Turn::new();
    let answer: Value = serde_json::from_str(recorded.answer).unwrap();
    let model = service_fn(move |_: Value| {
        let answer = answer.clone();
        async move { Ok::<_, BoxError>(answer) }
    });
    let service = ChatHistoryLayer::from_engine(turn.engine.clone(), Json::new()).layer(model);
    service.oneshot(json_call()).await.unwrap();
    turn.stored().await
}

async fn stored_by_streaming_values(recorded: &Recorded) -> Stored {
    let turn = Turn::new();
    let chunks = recorded.chunks();
    let model = service_fn(move |_: Value| {
        let chunks = chunks.clone();
        let stream: BoxStream<'static, Result<Value, BoxError>> =
            futures_util::stream::iter(chunks.into_iter().map(Ok)).boxed();
        async move { Ok::<_, BoxError>(stream) }
    });
    let service = ChatHistoryLayer::from_engine(turn.engine.clone(), Json::new()).layer(model);
    let stream = service.oneshot(json_call()).await.unwrap();
    stream.for_each(|_| async {}).await;
    turn.stored().await
}

/// The differences of all recordings.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, recorded: &Recorded, path: &str, stored: &Stored, expected: &Stored) {
        if stored != expected {
            self.0.push(format!("{}, {path}:\n  stored   {stored:?}\n  expected {expected:?}", recorded.name));
        }
    }

    fn assert_none(&self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

#[tokio::test]
async fn a_stream_is_stored_as_the_same_message_as_the_whole_response() {
    let mut differences = Differences::default();
    for recorded in RECORDED {
        let mut compare = |path, stored, expected| differences.compare(recorded, path, &stored, &Ok(expected));
        let client = stored_by_the_client("application/json", recorded.answer).await;
        compare("the client's whole response", client, recorded.message());
        compare("a whole response as a value", stored_by_values(recorded).await, recorded.message());
        let client = stored_by_the_client("text/event-stream", recorded.stream).await;
        compare("the client's stream", client, recorded.streamed());
        compare("a stream of values", stored_by_streaming_values(recorded).await, recorded.streamed());
    }
    differences.assert_none();
}

#[tokio::test]
async fn a_body_that_arrives_byte_by_byte_is_stored_as_the_same_message() {
    let mut differences = Differences::default();
    for recorded in RECORDED {
        let mut compare = |path, stored, expected| differences.compare(recorded, path, &stored, &Ok(expected));
        let (kind, body) = ("text/event-stream", recorded.stream);
        let stream = stored_by_the_client_from(body, move || response_in_bytes(kind, body)).await;
        compare("the client's stream", stream, recorded.streamed());
        let (kind, body) = ("application/json", recorded.answer);
        let whole = stored_by_the_client_from(body, move || response_in_bytes(kind, body)).await;
        compare("the client's whole response", whole, recorded.message());
    }
    differences.assert_none();
}

#[tokio::test]
async fn typed_streams_and_responses_are_stored_without_the_fields_that_the_types_do_not_know() {
    let mut differences = Differences::default();
    for recorded in RECORDED {
        let (whole, streamed) = match recorded.typed {
            Typed::Without(lost) => (Ok(without(recorded.message(), lost)), Ok(without(recorded.streamed(), lost))),
            Typed::StreamRefused(lost) => (Ok(without(recorded.message(), lost)), Err("interrupted")),
            Typed::Refused => (Err("call_failed"), Err("interrupted")),
        };
        differences.compare(recorded, "typed whole response", &stored_by_the_types(recorded).await, &whole);
        differences.compare(recorded, "typed stream", &stored_by_streaming_types(recorded).await, &streamed);
    }
    differences.assert_none();
}
