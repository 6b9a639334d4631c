//! Streams as providers send them, through every adapter: one reply is stored as one message, streamed or not.
//!
//! Beside each stream (`recorded/NAME.sse`) lies the answer that the provider gives to the same request without
//! streaming (`recorded/NAME.json`).

// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    middleware::HttpRequestFactory,
    types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequest},
};
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
    /// What the provider says of the message only in a whole answer, as JSON pointers.
    only_in_answer: &'static [&'static str],
    /// What becomes of it where async-openai's types are in between.
    typed: Typed,
}

enum Typed {
    /// All of it is stored, but for these JSON pointers, which the types do not know.
    Without(&'static [&'static str]),
    /// async-openai refuses the stream: an interruption. The whole answer is stored without these.
    StreamRefused(&'static [&'static str]),
    /// async-openai refuses both.
    Refused,
}

macro_rules! recorded {
    ($($name:ident: only in answer $only:expr, $typed:expr;)*) => {
        const RECORDED: &[Recorded] = &[$(Recorded {
            name: stringify!($name),
            stream: include_str!(concat!("recorded/", stringify!($name), ".sse")),
            answer: include_str!(concat!("recorded/", stringify!($name), ".json")),
            only_in_answer: &$only,
            typed: $typed,
        }),*];
    };
}

recorded! {
    openai_text: only in answer ["/annotations"], Typed::Without(&[]);
    openai_tool: only in answer ["/annotations"], Typed::Without(&[]);
    openai_parallel_tools: only in answer ["/annotations"], Typed::Without(&[]);
    // The types know no custom tool in a chunk, and another name for it than the wire's in an answer.
    openai_custom_tool: only in answer ["/annotations"], Typed::Refused;
    openai_refusal: only in answer ["/annotations"], Typed::Without(&[]);
    openai_function_call: only in answer [], Typed::Without(&[]);
    openai_audio: only in answer ["/annotations"], Typed::Without(&[]);
    azure_text: only in answer ["/annotations"], Typed::Without(&[]);
    openrouter_reasoning_details: only in answer [], Typed::Without(&["/reasoning", "/reasoning_details"]);
    deepseek_reasoning: only in answer [], Typed::Without(&["/reasoning_content"]);
    gemini_signature: only in answer [], Typed::Without(&["/tool_calls/0/extra_content"]);
    // The types want an index.
    gemini_calls_without_index: only in answer [], Typed::StreamRefused(&["/tool_calls/0/extra_content"]);
    ollama_whole_calls: only in answer [], Typed::Without(&[]);
    vllm_reasoning_tool: only in answer [], Typed::Without(&["/reasoning_content"]);
    groq_text: only in answer [], Typed::Without(&["/reasoning", "/channel"]);
    // The types know no content in parts.
    mistral_thinking: only in answer [], Typed::Refused;
    // The types want index and id.
    calls_without_index_and_id: only in answer [], Typed::Refused;
    choice_numbered_1: only in answer [], Typed::Without(&[]);
    role_of_a_user: only in answer [], Typed::Without(&[]);
}

impl Recorded {
    /// The message of the whole answer, as the assistant's, without what says nothing.
    fn message(&self) -> Value {
        let answer: Value = serde_json::from_str(self.answer).unwrap();
        let mut message = answer["choices"][0]["message"].clone();
        message["role"] = "assistant".into();
        without_nulls(message)
    }

    /// The message as a stream tells it.
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
        assert!(parent.remove(name).is_some(), "{pointer} is not there: the list is longer than needed");
    }
    message
}

fn without_nulls(mut message: Value) -> Value {
    message.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    message
}

/// The reply that a turn stored, or why it stored none.
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

async fn through_the_client(kind: &'static str, body: &'static str) -> Stored {
    let turn = Turn::new();
    let transport = service_fn(move |factory: HttpRequestFactory| async move {
        factory.build().await?;
        Ok::<_, OpenAIError>(response(kind, body))
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

async fn through_the_types(recorded: &Recorded) -> Stored {
    let turn = Turn::new();
    let model = ChatService::new(client("application/json", recorded.answer));
    let service = ChatHistoryLayer::from_engine(turn.engine.clone(), OpenAi::new()).layer(model);
    drop(service.oneshot(typed_call()).await);
    turn.stored().await
}

async fn streamed_through_the_types(recorded: &Recorded) -> Stored {
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

async fn through_values(recorded: &Recorded) -> Stored {
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

async fn streamed_through_values(recorded: &Recorded) -> Stored {
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

/// All that differs, of all recordings.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, recorded: &Recorded, way: &str, stored: &Stored, expected: &Stored) {
        if stored != expected {
            self.0.push(format!("{}, {way}:\n  stored   {stored:?}\n  expected {expected:?}", recorded.name));
        }
    }

    fn none(&self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

#[tokio::test]
async fn a_stream_is_stored_as_the_answer_without_streaming_is() {
    let mut differences = Differences::default();
    for recorded in RECORDED {
        let mut compare = |way, stored, expected| differences.compare(recorded, way, &stored, &Ok(expected));
        let client = through_the_client("application/json", recorded.answer).await;
        compare("the client's answer", client, recorded.message());
        compare("an answer as a value", through_values(recorded).await, recorded.message());
        let client = through_the_client("text/event-stream", recorded.stream).await;
        compare("the client's stream", client, recorded.streamed());
        compare("a stream of values", streamed_through_values(recorded).await, recorded.streamed());
    }
    differences.none();
}

#[tokio::test]
async fn what_the_types_carry_of_a_stream_is_stored_as_of_the_answer() {
    let mut differences = Differences::default();
    for recorded in RECORDED {
        let (whole, streamed) = match recorded.typed {
            Typed::Without(lost) => (Ok(without(recorded.message(), lost)), Ok(without(recorded.streamed(), lost))),
            Typed::StreamRefused(lost) => (Ok(without(recorded.message(), lost)), Err("interrupted")),
            Typed::Refused => (Err("call_failed"), Err("interrupted")),
        };
        differences.compare(recorded, "typed answer", &through_the_types(recorded).await, &whole);
        differences.compare(recorded, "typed stream", &streamed_through_the_types(recorded).await, &streamed);
    }
    differences.none();
}
