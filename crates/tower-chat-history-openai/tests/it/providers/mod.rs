//! The table of `docs/provider-fields.md`: conversations with tools through each integration, with mock servers that
//! refuse what the providers refuse.

mod carried;
mod cuts;
mod random;
mod typed;

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use futures_util::{StreamExt as _, stream::BoxStream};
use reqwest::{Method, Request, header::CONTENT_TYPE};
use serde_json::{Value, json};
use tower::{ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, HistoryOptions, HistoryStoreExt as _, InConversation,
    MemoryStore, adapt::Json, engine::InputMode,
};
use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory};
use tower_chat_history_test::{ChatProvider, MockServer, Replies, Reply};
use tower_layer::Layer as _;

/// The providers with rules of their own, and the names that programs give them.
const PROVIDERS: [(ChatProvider, &str); 4] = [
    (ChatProvider::DeepSeek, "deepseek"),
    (ChatProvider::Gemini, "gcp.gemini"),
    (ChatProvider::OpenRouter, "openrouter"),
    (ChatProvider::LiteLlm, "litellm"),
];

/// An integration that carries all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Integration {
    Client,
    Json,
}

/// Each integration, with whole responses and with streams.
const CARRYING: [(Integration, bool); 4] =
    [(Integration::Client, false), (Integration::Client, true), (Integration::Json, false), (Integration::Json, true)];

/// A conversation with a provider.
struct Chat {
    server: MockServer,
    store: MemoryStore,
    engine: Engine,
    /// The name of the provider, if the program sets it.
    name: Option<&'static str>,
    system: String,
}

fn id() -> ConversationId {
    ConversationId::new(["providers"]).unwrap()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn result(call: &str) -> Value {
    json!({"role": "tool", "tool_call_id": call, "content": "r"})
}

impl Chat {
    async fn start(
        provider: ChatProvider,
        name: Option<&'static str>,
        replies: Replies,
        options: HistoryOptions,
    ) -> Self {
        let server = MockServer::start(replies.provider(provider)).await.unwrap();
        let store = MemoryStore::new();
        let engine = Engine::with_options(store.clone(), options);
        Self { server, store, engine, name, system: "S".into() }
    }

    /// Sends these messages after the system message. Returns the status of a refusal.
    async fn say(&self, (integration, stream): (Integration, bool), input: &[Value]) -> Result<(), String> {
        let messages: Vec<Value> =
            [json!({"role": "system", "content": self.system})].iter().chain(input).cloned().collect();
        let tool = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
        let body = json!({"model": "m", "stream": stream, "tools": [tool], "messages": messages});
        match (integration, stream) {
            (Integration::Client, _) => self.say_by_client(body).await,
            (Integration::Json, false) => self.say_by_value(body).await.map_err(|error| error.to_string()),
            (Integration::Json, true) => self.say_by_stream_of_values(body).await.map_err(|error| error.to_string()),
        }
    }

    async fn say_by_client(&self, body: Value) -> Result<(), String> {
        let url = format!("{}/chat/completions", self.server.base_url());
        let factory = HttpRequestFactory::new(move || {
            let (url, body) = (url.clone(), body.to_string());
            async move {
                let mut request = Request::new(Method::POST, url.parse().unwrap());
                request.headers_mut().insert(CONVERSATION_ID, id().as_str().parse().unwrap());
                request.headers_mut().insert(CONTENT_TYPE, "application/json".parse().unwrap());
                *request.body_mut() = Some(body.into());
                Ok(request)
            }
        });
        let http = reqwest::Client::new();
        let transport = service_fn(move |factory: HttpRequestFactory| {
            let http = http.clone();
            async move { Ok::<_, OpenAIError>(http.execute(factory.build().await?).await?) }
        });
        let mut history = OpenAiHistory::from_engine(self.engine.clone()).input_mode(InputMode::New);
        if let Some(name) = self.name {
            history = history.provider(name);
        }
        let response = history.layer().layer(transport).oneshot(factory).await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        if status.is_success() { Ok(()) } else { Err(text) }
    }

    fn json(&self) -> Json {
        self.name.map_or_else(Json::new, |name| Json::new().provider(name))
    }

    async fn say_by_value(&self, body: Value) -> Result<(), BoxError> {
        let url = self.server.base_url();
        let model = service_fn(move |body: Value| {
            let url = url.clone();
            async move { Ok::<Value, BoxError>(serde_json::from_str(&post(&url, &body).await?)?) }
        });
        let layer = ChatHistoryLayer::from_engine(self.engine.clone(), self.json());
        layer.layer(model).oneshot(InConversation::new(id(), body)).await?;
        Ok(())
    }

    async fn say_by_stream_of_values(&self, body: Value) -> Result<(), BoxError> {
        let url = self.server.base_url();
        let model = service_fn(move |body: Value| {
            let url = url.clone();
            async move {
                let events = post(&url, &body).await?;
                let data =
                    events.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
                let chunks: Vec<Result<Value, BoxError>> = data.map(|data| Ok(serde_json::from_str(data)?)).collect();
                Ok::<BoxStream<'static, _>, BoxError>(futures_util::stream::iter(chunks).boxed())
            }
        });
        let layer = ChatHistoryLayer::from_engine(self.engine.clone(), self.json());
        let stream = layer.layer(model).oneshot(InConversation::new(id(), body)).await?;
        stream.for_each(|chunk| async { drop(chunk.unwrap()) }).await;
        Ok(())
    }

    async fn log(&self) -> Vec<Value> {
        let messages = self.store.conversation(&id()).messages().await.unwrap();
        messages.iter().map(|message| serde_json::from_str(message.json()).unwrap()).collect()
    }
}

async fn post(url: &str, body: &Value) -> Result<String, BoxError> {
    let request = reqwest::Client::new().post(format!("{url}/chat/completions"));
    let response = request.header(CONTENT_TYPE, "application/json").body(body.to_string()).send().await?;
    let status = response.status();
    let text = response.text().await?;
    if status.is_success() { Ok(text) } else { Err(text.into()) }
}

/// Returns the number of messages in a prompt that have one of the providers' fields.
fn with_reasoning(prompt: &[Value]) -> usize {
    let has = |message: &&Value| {
        ["reasoning_content", "reasoning_details", "thinking_blocks"]
            .iter()
            .any(|name| message[name].is_string() || message[name].is_array())
            || message["tool_calls"][0]["extra_content"].is_object()
    };
    prompt.iter().filter(has).count()
}
