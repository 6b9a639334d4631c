//! Values that are dropped within the library: items of detached streams, responses whose caller has left,
//! requests without a conversation. The drop must not recurse.

use std::{
    pin::pin,
    task::{Context, Waker},
};

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    types::chat::{CreateChatCompletionRequest, ResponseFormat, ResponseFormatJsonSchema},
};
use futures_util::{StreamExt as _, stream, stream::BoxStream};
use serde_json::{Value, json};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, HistoryOptions, InConversation, MemoryStore, Message,
    MissingConversation, Policies, Reply,
    adapt::{Custom, Flow, FoldReply, Json, JsonRequestError},
    policy::OnInterruption,
    summary::{Summarizer as _, SummaryRequest, json_summarizer},
};
use tower_chat_history_openai::{ChatService, ChatStreamService};
use tower_chat_history_test::{FaultStore, Op};

use super::{
    Case, block_on,
    texts::{LEVELS, id, value},
};

pub(crate) const CASES: &[Case] = cases![
    a_detached_stream_is_read_to_its_end,
    the_last_item_of_a_stream_whose_caller_leaves_is_dropped,
    a_response_whose_caller_leaves_is_dropped,
    a_call_that_is_never_polled_is_dropped,
    a_request_without_a_conversation_is_dropped,
    closures_refuse_a_request_that_is_too_deep,
    a_summarizer_s_deep_answer_is_dropped,
    a_client_s_service_refuses_a_stateless_request,
];

type Chunks = BoxStream<'static, Result<Value, BoxError>>;

fn request() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "a"}]})
}

fn deep_request() -> Value {
    let Value::Object(mut request) = request() else { unreachable!() };
    request.insert("more".to_owned(), value(LEVELS));
    Value::Object(request)
}

/// Returns a response with a reply, and a deep value next to it.
fn deep_response() -> Value {
    let choices = json!([{"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}]);
    Value::Object([("choices".to_owned(), choices), ("more".to_owned(), value(LEVELS))].into_iter().collect())
}

fn deep_chunk() -> Value {
    let choices = json!([{"index": 0, "delta": {"content": "a"}}]);
    Value::Object([("choices".to_owned(), choices), ("more".to_owned(), value(LEVELS))].into_iter().collect())
}

fn a_detached_stream_is_read_to_its_end() {
    block_on(async {
        let llm = service_fn(|_: Value| async {
            let begin = json!({"choices": [{"index": 0, "delta": {"content": "a"}}]});
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
            let chunks = [begin, deep_chunk(), deep_chunk(), end, deep_chunk()];
            Ok::<Chunks, BoxError>(stream::iter(chunks.map(Ok)).boxed())
        });
        let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::Detach));
        let engine = Engine::with_options(MemoryStore::new(), options);
        let layer = ChatHistoryLayer::from_engine(engine.clone(), Json::new());
        let mut answer = layer.layer(llm).oneshot(InConversation::new(id(), request())).await.unwrap();
        answer.next().await.unwrap().unwrap();
        drop(answer);
        engine.drain(std::time::Duration::from_secs(60)).await.unwrap();
    });
}

/// A fold whose first item is the last one, and the whole reply.
struct One;

impl FoldReply<Value> for One {
    fn push(&mut self, _: &Value) -> Flow {
        Flow::Hold
    }
    fn is_complete(&self) -> bool {
        true
    }
    fn is_whole(&self) -> bool {
        true
    }
    fn reply(&self) -> Reply {
        Reply::new(Message::assistant("a"))
    }
    fn partial(&self) -> Option<Reply> {
        None
    }
}

fn poll_once(future: impl Future) {
    assert!(pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

fn the_last_item_of_a_stream_whose_caller_leaves_is_dropped() {
    block_on(async {
        let store = FaultStore::new(MemoryStore::new());
        let appends = store.hold(Op::Append);
        let llm =
            service_fn(|_: Vec<Message>| async { Ok::<Chunks, BoxError>(stream::iter([Ok(deep_chunk())]).boxed()) });
        let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).fold(|_| One).id_from(|_| id());
        let service = ChatHistoryLayer::new(store, adapter).layer(llm);
        let mut answer = service.oneshot(vec![Message::user("a")]).await.unwrap();
        poll_once(answer.next());
        drop(answer);
        appends.release();
    });
}

fn a_response_whose_caller_leaves_is_dropped() {
    block_on(async {
        let store = FaultStore::new(MemoryStore::new());
        let appends = store.hold(Op::Append);
        let llm = service_fn(|_: Vec<Message>| async { Ok::<_, BoxError>(deep_response()) });
        let adapter = Custom::messages(|messages: &mut Vec<Message>| messages)
            .reply(|_: &Value| Message::assistant("a"))
            .id_from(|_| id());
        let service = ChatHistoryLayer::new(store, adapter).layer(llm);
        tokio::select! {
            _ = service.oneshot(vec![Message::user("a")]) => panic!("the save is held"),
            // The response has arrived.
            () = appends.reached(1) => {}
        }
        appends.release();
    });
}

fn a_call_that_is_never_polled_is_dropped() {
    block_on(async {
        let llm = service_fn(|_: Value| async { Ok::<_, BoxError>(deep_response()) });
        let mut service = ChatHistoryLayer::new(MemoryStore::new(), Json::new()).layer(llm);
        drop(service.ready().await.unwrap().call(InConversation::new(id(), deep_request())));
        let mut service = ChatHistoryLayer::new(MemoryStore::new(), Json::new().id_from(|_| id())).layer(llm);
        drop(service.ready().await.unwrap().call(deep_request()));
    });
}

fn a_request_without_a_conversation_is_dropped() {
    block_on(async {
        let llm = service_fn(|_: Value| async { Ok::<_, BoxError>(request()) });
        let by_closure = Json::new().id_from(|_| None::<ConversationId>);
        let service = ChatHistoryLayer::new(MemoryStore::new(), by_closure).layer(llm);
        let error = service.oneshot(deep_request()).await.unwrap_err();
        assert!(error.is::<MissingConversation>());
        let service = ChatHistoryLayer::new(MemoryStore::new(), Json::new().id_from_task()).layer(llm);
        let error = service.oneshot(deep_request()).await.unwrap_err();
        assert!(error.is::<MissingConversation>());
    });
}

fn closures_refuse_a_request_that_is_too_deep() {
    block_on(async {
        let llm = service_fn(|_: Value| async { Ok::<_, BoxError>(Message::assistant("a")) });
        let adapter = Custom::new(|_: &Value| Message::user("a"))
            .fill(|request: Value, _| request)
            .reply(|answer: &Message| answer.clone());
        let service = ChatHistoryLayer::new(MemoryStore::new(), adapter).layer(llm);
        let error = service.oneshot(InConversation::new(id(), deep_request())).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(JsonRequestError::TooDeep)), "{error}");
    });
}

fn a_summarizer_s_deep_answer_is_dropped() {
    block_on(async {
        let service = service_fn(|_: Value| async { Ok::<_, BoxError>(deep_response()) });
        let summarizer = json_summarizer(service, "m");
        let summarized = summarizer.summarize(SummaryRequest::new(None, vec![Message::user("a")], 100)).await.unwrap();
        assert!(summarized.text.is_empty());
    });
}

fn a_client_s_service_refuses_a_stateless_request() {
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
