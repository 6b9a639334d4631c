//! The forms of a reply: bytes in the HTTP client of async-openai, JSON values, the types of async-openai.

use std::sync::{Arc, Mutex};

use async_openai::{
    error::OpenAIError,
    middleware::HttpRequestFactory,
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionResponse},
};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use reqwest::{Body, Method, Request};
use serde_json::{Value, json};
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, Engine, HistoryOptions, InConversation, MemoryStore, adapt::Json,
};
use tower_chat_history_openai::{
    OpenAi,
    client::{CONVERSATION_ID, OpenAiHistory, openai_error},
};

use super::{
    id,
    reply::{Oddity, ProviderReply},
};
use crate::{TypedRequest, rng::SeededRng};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integration {
    Client,
    Json,
    Typed,
}

impl Integration {
    pub(super) const ALL: [Self; 3] = [Self::Client, Self::Json, Self::Typed];

    /// Returns true if its types can express an oddity.
    pub(super) const fn can_express(self, oddity: Oddity) -> bool {
        match self {
            Self::Client => true,
            Self::Json => !matches!(oddity, Oddity::DeepField),
            Self::Typed => matches!(oddity, Oddity::None | Oddity::ForeignChoice),
        }
    }
}

/// The response that the caller got, and the reported outcome.
pub(super) struct CallResult {
    pub(super) outcome: &'static str,
    pub(super) unchanged: bool,
}

/// Makes a call that is answered with these texts: one body, or the chunks of a stream, which may end with
/// `[DONE]`.
pub(super) async fn call(
    integration: Integration,
    store: &MemoryStore,
    provided: &ProviderReply,
    texts: &[String],
    stream_is_done: Option<bool>,
    rng: &mut SeededRng,
) -> CallResult {
    let outcome: Arc<Mutex<&'static str>> = Arc::new(Mutex::new("no report"));
    let reported = Arc::clone(&outcome);
    let options = HistoryOptions::new().on_turn(move |report| *reported.lock().unwrap() = report.outcome.kind());
    let engine = Engine::with_options(store.clone(), options);
    let request = json!({"model": "m", "n": provided.choices, "messages": [{"role": "user", "content": "u"}]});
    let unchanged = match integration {
        Integration::Client => client(engine, &request, provided, texts, stream_is_done, rng).await,
        Integration::Json => values(engine, request, texts, stream_is_done).await,
        Integration::Typed => types(engine, &request, texts, stream_is_done).await,
    };
    let outcome = *outcome.lock().unwrap();
    CallResult { outcome, unchanged }
}

async fn client(
    engine: Engine,
    request: &Value,
    provided: &ProviderReply,
    texts: &[String],
    stream_is_done: Option<bool>,
    rng: &mut SeededRng,
) -> bool {
    let mut bytes = if provided.oddity == Oddity::ByteOrderMark { "\u{feff}".to_owned() } else { String::new() };
    if let Some(is_done) = stream_is_done {
        let end = *rng.pick(&["\n\n", "\r\n\r\n"]);
        texts.iter().for_each(|text| bytes.push_str(&format!("data: {text}{end}")));
        bytes.push_str(if is_done { "data: [DONE]\n\n" } else { "" });
    } else {
        bytes.push_str(&texts[0]);
    }
    let bytes = bytes.into_bytes();
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut rest = bytes.as_slice();
    let most = *rng.pick(&[1, 7, 100, 100_000]) + bytes.len() / 2_000;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + rng.index(most)).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    let kind = if stream_is_done.is_some() { "text/event-stream" } else { "application/json" };
    let body = Body::wrap_stream(stream::iter(pieces.into_iter().map(Ok::<_, OpenAIError>)));
    let response = http::Response::builder().header("content-type", kind).body(body).unwrap();
    let response = Arc::new(Mutex::new(Some(reqwest::Response::from(response))));
    let transport = service_fn(move |factory: HttpRequestFactory| {
        let response = Arc::clone(&response);
        async move {
            factory.build().await?;
            let response = response.lock().unwrap().take();
            response.ok_or_else(|| OpenAIError::InvalidArgument("one call, one response".into()))
        }
    });
    let mut post = Request::new(Method::POST, "http://llm.test/v1/chat/completions".parse().unwrap());
    post.headers_mut().insert(CONVERSATION_ID, id().to_string().parse().unwrap());
    *post.body_mut() = Some(request.to_string().into());
    let factory = HttpRequestFactory::new(move || {
        let request = post.try_clone();
        async move { request.ok_or_else(|| OpenAIError::InvalidArgument("a request in one piece".into())) }
    });
    let history = OpenAiHistory::from_engine(engine).layer();
    let service = ServiceBuilder::new().map_err(openai_error).layer(history).service(transport);
    let Ok(response) = service.oneshot(factory).await else { return false };
    response.bytes().await.is_ok_and(|result| result == bytes)
}

async fn values(engine: Engine, request: Value, texts: &[String], stream_is_done: Option<bool>) -> bool {
    let values: Vec<Value> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let layer = ChatHistoryLayer::from_engine(engine, Json::new());
    let call = InConversation::new(id(), request);
    if stream_is_done.is_none() {
        let value = values[0].clone();
        let model = service_fn(move |_: Value| std::future::ready(Ok::<_, BoxError>(value.clone())));
        let result = ServiceBuilder::new().layer(layer).service(model).oneshot(call).await;
        return result.is_ok_and(|result| result == values[0]);
    }
    let items = values.clone();
    let model = service_fn(move |_: Value| {
        let items = stream::iter(items.clone().into_iter().map(Ok::<_, BoxError>));
        std::future::ready(Ok::<BoxStream<'static, Result<Value, BoxError>>, BoxError>(items.boxed()))
    });
    let Ok(result) = ServiceBuilder::new().layer(layer).service(model).oneshot(call).await else { return false };
    let result: Vec<Value> = result.filter_map(|item| std::future::ready(item.ok())).collect().await;
    result == values
}

async fn types(engine: Engine, request: &Value, texts: &[String], stream_is_done: Option<bool>) -> bool {
    let layer = ChatHistoryLayer::from_engine(engine, OpenAi::new());
    let request: TypedRequest = serde_json::from_str(&request.to_string()).unwrap();
    let call = InConversation::new(id(), request);
    let texts = texts.to_vec();
    if stream_is_done.is_none() {
        let model = service_fn(move |_: TypedRequest| {
            let read = serde_json::from_str::<CreateChatCompletionResponse>(&texts[0]);
            std::future::ready(read.map_err(|error| OpenAIError::JSONDeserialize(error, String::new())))
        });
        return ServiceBuilder::new().layer(layer).service(model).oneshot(call).await.is_ok();
    }
    let many = texts.len();
    let model = service_fn(move |_: TypedRequest| {
        let items = texts.clone().into_iter().map(|text| {
            serde_json::from_str(&text).map_err(|error| OpenAIError::JSONDeserialize(error, String::new()))
        });
        let items: ChatCompletionResponseStream = Box::pin(stream::iter(items));
        std::future::ready(Ok::<_, OpenAIError>(items))
    });
    let Ok(result) = ServiceBuilder::new().layer(layer).service(model).oneshot(call).await else { return false };
    result.collect::<Vec<_>>().await.len() == many
}
