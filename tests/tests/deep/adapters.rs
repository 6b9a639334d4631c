//! Adapters: requests and responses as `serde_json::Value`, with closures, and in the types of async-openai.

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    types::chat::{
        ChatCompletionRequestUserMessage, ChatCompletionTool, ChatCompletionTools, CreateChatCompletionRequest,
        FunctionObject, ResponseFormat, ResponseFormatJsonSchema,
    },
};
use futures_util::{StreamExt as _, stream, stream::BoxStream};
use serde_json::{Value, json};
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, HistoryStoreExt as _, InConversation, MemoryStore, Message,
    adapt::{Custom, Json, JsonRequestError, nested},
    engine::InputMode,
    summary::{Summarizer as _, SummaryRequest, json_summarizer},
};
use tower_chat_history_openai::{ChatService, ChatStreamService, OpenAi, RequestTooDeep};
use tower_chat_history_test::{MockLlm, Reply};

use super::{
    Case, block_on,
    texts::{LEVELS, deep_store, id, lists, value},
};

pub(crate) const CASES: &[Case] = cases![
    a_json_request_is_refused,
    a_json_request_with_the_most_levels_is_sent,
    a_log_is_sent_as_json,
    a_json_response_is_passed_on,
    json_chunks_are_passed_on,
    a_summarizer_s_json_answer_is_read,
    closures_take_a_log,
    closures_refuse_a_request,
    a_typed_request_is_refused,
    a_log_is_sent_in_async_openai_s_types,
    a_client_s_service_refuses_a_request,
];

fn request_with(content: Value) -> Value {
    let message = [("role".to_owned(), Value::from("user")), ("content".to_owned(), content)];
    let messages = Value::Array(vec![Value::Object(message.into_iter().collect())]);
    Value::Object([("model".to_owned(), Value::from("m")), ("messages".to_owned(), messages)].into_iter().collect())
}

fn response_with(content: Value) -> Value {
    let message = [("role".to_owned(), Value::from("assistant")), ("content".to_owned(), content)];
    let choice = [("message".to_owned(), Value::Object(message.into_iter().collect()))];
    let choices = Value::Array(vec![Value::Object(choice.into_iter().collect())]);
    Value::Object([("choices".to_owned(), choices)].into_iter().collect())
}

fn a_json_request_is_refused() {
    block_on(async {
        let llm = service_fn(|_: Value| async { Ok::<_, BoxError>(response_with("a".into())) });
        let tools = |deep| {
            let mut request = request_with("a".into());
            request.as_object_mut().unwrap().insert("tools".to_owned(), deep);
            request
        };
        for request in [request_with(value(nested::MAX_LEVELS)), request_with(value(LEVELS)), tools(value(LEVELS))] {
            let service =
                ServiceBuilder::new().layer(ChatHistoryLayer::new(MemoryStore::new(), Json::new())).service(llm);
            let error = service.oneshot(InConversation::new(id(), request)).await.unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(JsonRequestError::TooDeep)), "{error}");
        }
    });
}

fn a_json_request_with_the_most_levels_is_sent() {
    block_on(async {
        let llm = service_fn(|request: Value| async move {
            Ok::<_, BoxError>(response_with(request["messages"][0]["content"].clone()))
        });
        let store = MemoryStore::new();
        let service = ServiceBuilder::new().layer(ChatHistoryLayer::new(store.clone(), Json::new())).service(llm);
        // The request, its list of messages and the message also count as levels.
        let most = value(nested::MAX_LEVELS - 4);
        let answer = service.oneshot(InConversation::new(id(), request_with(most.clone()))).await.unwrap();
        assert_eq!(answer["choices"][0]["message"]["content"], most);
        assert_eq!(store.conversation(&id()).messages().await.unwrap().len(), 2);
    });
}

fn a_log_is_sent_as_json() {
    block_on(async {
        let llm = service_fn(|_: Value| async { Ok::<_, BoxError>(response_with("a".into())) });
        let layer = ChatHistoryLayer::new(deep_store().await, Json::new());
        ServiceBuilder::new()
            .layer(layer)
            .service(llm)
            .oneshot(InConversation::new(id(), request_with("a".into())))
            .await
            .unwrap();
    });
}

fn a_json_response_is_passed_on() {
    block_on(async {
        let llm = service_fn(|_: Value| async { Ok::<_, BoxError>(response_with(value(LEVELS))) });
        let store = MemoryStore::new();
        let service = ServiceBuilder::new().layer(ChatHistoryLayer::new(store.clone(), Json::new())).service(llm);
        let answer = service.oneshot(InConversation::new(id(), request_with("a".into()))).await.unwrap();
        assert!(nested::is_too_deep(&answer));
        nested::dismantle(answer);
        assert!(store.conversation(&id()).messages().await.unwrap().is_empty());
    });
}

fn json_chunks_are_passed_on() {
    block_on(async {
        let llm = service_fn(|_: Value| async {
            let delta = |delta| Value::Array(vec![Value::Object([("delta".to_owned(), delta)].into_iter().collect())]);
            let chunk = |delta_| Value::Object([("choices".to_owned(), delta(delta_))].into_iter().collect());
            let end = json!({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]});
            let chunks = [chunk(value(LEVELS)), chunk(value(100)), chunk(value(100)), end];
            Ok::<BoxStream<'static, Result<Value, BoxError>>, BoxError>(stream::iter(chunks.map(Ok)).boxed())
        });
        let store = MemoryStore::new();
        let service = ServiceBuilder::new().layer(ChatHistoryLayer::new(store.clone(), Json::new())).service(llm);
        let mut answer = service.oneshot(InConversation::new(id(), request_with("a".into()))).await.unwrap();
        while let Some(chunk) = answer.next().await {
            nested::dismantle(chunk.unwrap());
        }
        assert!(store.conversation(&id()).messages().await.unwrap().is_empty());
    });
}

fn a_summarizer_s_json_answer_is_read() {
    block_on(async {
        let service = service_fn(|_: Value| async { Ok::<_, BoxError>(response_with(value(nested::MAX_LEVELS))) });
        let summarizer = json_summarizer(service, "m");
        let summarized = summarizer.summarize(SummaryRequest::new(None, vec![Message::user("a")], 100)).await.unwrap();
        assert!(summarized.text.is_empty());
    });
}

fn closures_take_a_log() {
    block_on(async {
        let adapter = Custom::messages(|messages: &mut Vec<Message>| messages)
            .input_mode(InputMode::New)
            .reply(|answer: &Message| answer.clone())
            .id_from(|_| id());
        let llm = service_fn(|messages: Vec<Message>| async move { Ok::<_, BoxError>(messages[0].clone()) });
        let service = ServiceBuilder::new().layer(ChatHistoryLayer::new(deep_store().await, adapter)).service(llm);
        let message = Message::from_json(format!(r#"{{"role":"user","content":{}}}"#, lists(LEVELS))).unwrap();
        service.oneshot(vec![message]).await.unwrap();
    });
}

fn closures_refuse_a_request() {
    block_on(async {
        let llm = service_fn(|_: Value| async { Ok::<_, BoxError>(Message::assistant("a")) });
        let adapter = Custom::new(|_: &Value| Message::user("a"))
            .fill(|request: Value, _| request)
            .reply(|answer: &Message| answer.clone());
        let service = ServiceBuilder::new().layer(ChatHistoryLayer::new(MemoryStore::new(), adapter)).service(llm);
        let error = service.oneshot(InConversation::new(id(), request_with(value(LEVELS)))).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(JsonRequestError::TooDeep)), "{error}");
    });
}

fn typed() -> CreateChatCompletionRequest {
    let user = ChatCompletionRequestUserMessage { content: "a".into(), name: None };
    CreateChatCompletionRequest { model: "m".into(), messages: vec![user.into()], ..Default::default() }
}

fn a_typed_request_is_refused() {
    block_on(async {
        let with_tool = CreateChatCompletionRequest {
            tools: Some(vec![ChatCompletionTools::Function(ChatCompletionTool {
                function: FunctionObject { name: "f".into(), parameters: Some(value(LEVELS)), ..Default::default() },
            })]),
            ..typed()
        };
        let schema = ResponseFormatJsonSchema { name: "s".into(), schema: value(LEVELS), ..Default::default() };
        let with_format = CreateChatCompletionRequest {
            response_format: Some(ResponseFormat::JsonSchema { json_schema: schema }),
            ..typed()
        };
        for request in [with_tool, with_format] {
            let llm = MockLlm::script([Reply::text("a")]);
            let service = ChatHistoryLayer::new(MemoryStore::new(), OpenAi::new());
            let service = ServiceBuilder::new().layer(service).service(llm.unary());
            let error = service.oneshot(InConversation::new(id(), request)).await.unwrap_err();
            assert!(error.is::<RequestTooDeep>(), "{error}");
        }
    });
}

fn a_log_is_sent_in_async_openai_s_types() {
    block_on(async {
        let llm = MockLlm::rules(|_| Reply::text("a")).check_prompts(false);
        let service =
            ServiceBuilder::new().layer(ChatHistoryLayer::new(deep_store().await, OpenAi::new())).service(llm.unary());
        service.oneshot(InConversation::new(id(), typed())).await.unwrap();
        let _ = (llm.prompts(), llm.prompts_json());
    });
}

fn a_client_s_service_refuses_a_request() {
    block_on(async {
        let request = || {
            let schema = ResponseFormatJsonSchema { name: "s".into(), schema: value(LEVELS), ..Default::default() };
            let response_format = Some(ResponseFormat::JsonSchema { json_schema: schema });
            CreateChatCompletionRequest { model: "m".into(), response_format, ..Default::default() }
        };
        // No server listens at this address, and nothing is sent.
        let client = Client::with_config(OpenAIConfig::new().with_api_base("http://127.0.0.1:9"));
        let error = ChatService::new(client.clone()).oneshot(request()).await.unwrap_err();
        assert!(matches!(error, OpenAIError::InvalidArgument(_)), "{error}");
        let Err(error) = ChatStreamService::new(client).oneshot(request()).await else { panic!("it was sent") };
        assert!(matches!(error, OpenAIError::InvalidArgument(_)), "{error}");
    });
}
