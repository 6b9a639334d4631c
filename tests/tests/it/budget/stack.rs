//! The integrations over one log, each with the model as its inner service.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_openai::{
    error::OpenAIError,
    middleware::HttpRequestFactory,
    types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, ExchangeId, HistoryError, HistoryOptions, HistoryStore as _,
    HistoryStoreExt as _, MemoryStore, Message, TurnReport,
    adapt::Json,
    budget::DoesNotFit,
    store::{Compaction, Load, Loaded, Profile},
};
use tower_chat_history_openai::{OpenAi, client::OpenAiHistory};

use super::{
    call_spec::{CallSpec, Integration},
    model::Model,
};

/// A log with an engine for each profile.
pub(crate) struct Stack {
    pub(crate) model: Model,
    pub(crate) store: MemoryStore,
    engines: Vec<Engine>,
    reports: Arc<Mutex<HashMap<ExchangeId, TurnReport>>>,
}

impl Stack {
    /// Creates a stack with one profile.
    pub(crate) fn new(options: HistoryOptions) -> Self {
        Self::of([options])
    }

    /// Creates a stack with a profile for each of these options.
    pub(crate) fn of(options: impl IntoIterator<Item = HistoryOptions>) -> Self {
        let (store, reports) = (MemoryStore::new(), Arc::new(Mutex::new(HashMap::new())));
        let engine = |options: HistoryOptions| {
            let reports = Arc::clone(&reports);
            let tokens_of_turn = move |report: &TurnReport| {
                reports.lock().unwrap().insert(report.exchange.clone(), report.clone());
            };
            Engine::with_options(store.clone(), options.on_turn(tokens_of_turn))
        };
        let engines = options.into_iter().map(engine).collect();
        Self { model: Model::default(), store, engines, reports }
    }

    /// Makes a call through an integration, with the options of this profile.
    pub(crate) fn call(
        &self,
        profile: usize,
        integration: Integration,
        spec: &CallSpec,
    ) -> BoxFuture<'static, Result<(), BoxError>> {
        let (engine, model, body) = (self.engines[profile].clone(), self.model.clone(), spec.body());
        match integration {
            Integration::Typed(_) => {
                let adapter = OpenAi::new().input_mode(integration.input_mode());
                let llm = service_fn(move |request: CreateChatCompletionRequest| {
                    let answer = model.receive(serde_json::to_string(&request).unwrap());
                    async { Ok::<CreateChatCompletionResponse, BoxError>(serde_json::from_value(answer.await)?) }
                });
                let request: CreateChatCompletionRequest = serde_json::from_str(&body).unwrap();
                let chat = ChatHistoryLayer::from_engine(engine, adapter).layer(llm);
                chat.oneshot(spec.envelope(request)).map(|answer| answer.map(drop)).boxed()
            }
            Integration::Json(_) => {
                let adapter = Json::new().input_mode(integration.input_mode());
                let llm = service_fn(move |request: Value| {
                    let answer = model.receive(request.to_string());
                    async { Ok::<Value, BoxError>(answer.await) }
                });
                let request: Value = serde_json::from_str(&body).unwrap();
                let chat = ChatHistoryLayer::from_engine(engine, adapter).layer(llm);
                chat.oneshot(spec.envelope(request)).map(|answer| answer.map(drop)).boxed()
            }
            Integration::Client(_) => {
                let llm = service_fn(move |factory: HttpRequestFactory| {
                    let model = model.clone();
                    async move {
                        let request = factory.build().await?;
                        let body = request.body().unwrap().as_bytes().unwrap().to_vec();
                        let answer = model.receive(String::from_utf8(body).unwrap()).await;
                        let response = http::Response::builder().header("content-type", "application/json");
                        Ok::<reqwest::Response, OpenAIError>(response.body(answer.to_string()).unwrap().into())
                    }
                });
                let layer = OpenAiHistory::from_engine(engine).input_mode(integration.input_mode()).layer();
                layer.layer(llm).oneshot(spec.http()).map(|answer| answer.map(drop)).boxed()
            }
        }
    }

    /// Returns the report of an exchange, or `None` if its call has not ended or failed before the model.
    pub(crate) fn report(&self, exchange: &ExchangeId) -> Option<TurnReport> {
        self.reports.lock().unwrap().get(exchange).cloned()
    }

    /// Returns the messages of the log.
    pub(crate) async fn log(&self, id: &ConversationId) -> Vec<Message> {
        self.store.conversation(id).messages().await.unwrap()
    }

    /// Returns the stored compaction of a profile.
    pub(crate) async fn compaction(&self, id: &ConversationId, profile: &Profile) -> Option<Compaction> {
        match self.store.load(id, Load::new().profile(profile.clone())).await.unwrap() {
            Loaded::Window(window) => window.compaction,
            _ => None,
        }
    }
}

/// Returns the error of a prompt that does not fit.
pub(crate) fn does_not_fit(error: &BoxError) -> DoesNotFit {
    match error.downcast_ref() {
        Some(HistoryError::DoesNotFit(error)) => *error,
        _ => panic!("{error}"),
    }
}
