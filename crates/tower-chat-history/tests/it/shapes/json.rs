//! The adapter for `serde_json::Value`.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use serde_json::{Value, json};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, HistoryError, HistoryOptions, HistoryStoreExt as _, InConversation, MemoryStore,
    Message,
    adapt::{Json, JsonRequestError},
    error::{InputError, StreamStalled},
};

use super::{conversation, echo_json, log, text_of, user};

type Chunks = BoxStream<'static, Result<Value, BoxError>>;

#[tokio::test]
async fn json_keeps_every_field_of_request_reply_and_log() {
    let store = MemoryStore::new();
    let llm = service_fn(|request: Value| async move {
        let message =
            json!({"role": "assistant", "content": "Hi", "reasoning_content": "greet", "x": {"y": [1, null]}});
        Ok::<_, BoxError>(json!({"id": "r", "echo": request, "choices": [{"message": message}]}))
    });
    let mut chat = ChatHistoryLayer::new(store.clone(), Json::new()).layer(llm);
    let request = json!({
        "model": "m", "seed": 7, "provider": {"order": ["a"]},
        "messages": [
            {"role": "system", "content": "S", "cache_control": {"type": "ephemeral"}},
            {"role": "developer", "content": "D"},
            {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "video_url", "video_url": {}}]},
        ],
    });
    let call = || InConversation::new(conversation(), request.clone());
    let first = chat.ready().await.unwrap().call(call()).await.unwrap();
    assert_eq!(first["echo"], request, "without history, the request is the caller's");
    let second = chat.ready().await.unwrap().call(call()).await.unwrap();

    let mut expected = request.clone();
    let own = request["messages"].as_array().unwrap();
    let reply = &first["choices"][0]["message"];
    expected["messages"] = [&own[..2], &own[2..], std::slice::from_ref(reply), &own[2..]].concat().into();
    assert_eq!(second["echo"], expected);
    let stored = store.conversation(&conversation()).messages().await.unwrap();
    assert_eq!(stored.len(), 4);
    assert_eq!(&serde_json::from_str::<Value>(stored[1].json()).unwrap(), reply);
}

#[tokio::test]
async fn json_streams_are_folded_with_unknown_fields() {
    let store = MemoryStore::new();
    let chunks = [
        json!({"model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "Let "}}]}),
        json!({"choices": [{"index": 0, "delta": {"reasoning_content": "me", "content": "Hel"}}]}),
        json!({"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
    ];
    let sent = chunks.clone();
    let llm = service_fn(move |_: Value| {
        let chunks: Chunks = stream::iter(sent.clone().map(Ok)).boxed();
        async { Ok::<_, BoxError>(chunks) }
    });
    let chat = ChatHistoryLayer::new(store.clone(), Json::new()).layer(llm);
    let stream = chat.oneshot(InConversation::new(conversation(), user("u"))).await.unwrap();
    assert_eq!(stream.try_collect::<Vec<_>>().await.unwrap(), chunks, "items are passed on unchanged");

    let exchanges = store.conversation(&conversation()).exchanges().await.unwrap();
    let exchange = &exchanges[0].exchange;
    assert_eq!(
        serde_json::from_str::<Value>(exchange.messages[1].json()).unwrap(),
        json!({"role": "assistant", "content": "Hello", "reasoning_content": "Let me"})
    );
    assert_eq!((exchange.model.as_deref(), exchange.finish_reason.as_deref()), (Some("m"), Some("stop")));
    assert_eq!(exchange.usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((5, 2)));
}

#[tokio::test]
async fn json_streams_wait_for_every_choice_that_was_asked_for() {
    let store = MemoryStore::new();
    let llm = service_fn(|_: Value| async {
        let end =
            |index: u32| json!({"choices": [{"index": index, "delta": {"content": "a"}, "finish_reason": "stop"}]});
        Ok::<Chunks, BoxError>(stream::iter([Ok(end(0)), Err("cut".into()), Ok(end(1))]).boxed())
    });
    let chat = ChatHistoryLayer::new(store.clone(), Json::new()).layer(llm);
    let request = json!({"n": 2, "messages": [{"role": "user", "content": "u"}]});
    let stream = chat.oneshot(InConversation::new(conversation(), request)).await.unwrap();
    assert_eq!(stream.collect::<Vec<_>>().await.len(), 3);
    assert!(log(&store, &conversation()).await.is_empty(), "the stream failed before the second choice ended");
}

#[tokio::test(start_paused = true)]
async fn a_json_stream_that_stalls_ends_with_an_error_of_its_own_type() {
    let llm = service_fn(|_: Value| async {
        let part = json!({"choices": [{"index": 0, "delta": {"content": "a"}}]});
        Ok::<Chunks, BoxError>(stream::iter([Ok(part)]).chain(stream::pending()).boxed())
    });
    let options = HistoryOptions::new().stream_idle_timeout(Duration::from_secs(30));
    let chat = ChatHistoryLayer::with_options(MemoryStore::new(), Json::new(), options).layer(llm);
    let items: Vec<_> = chat.oneshot(InConversation::new(conversation(), user("u"))).await.unwrap().collect().await;
    assert_eq!(items.len(), 2);
    assert!(items[1].as_ref().unwrap_err().is::<StreamStalled>());
}

#[tokio::test]
async fn json_carries_tool_rounds() {
    let store = MemoryStore::new();
    let llm = service_fn(|request: Value| async move {
        let messages = request["messages"].as_array().unwrap();
        if messages.last().unwrap()["role"] == "tool" {
            return Ok::<_, BoxError>(echo_json(&request));
        }
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}, "sig": id});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call("x"), call("y")]});
        Ok(json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
    });
    let mut chat = ChatHistoryLayer::new(store.clone(), Json::new()).layer(llm);

    chat.ready().await.unwrap().call(InConversation::new(conversation(), user("u"))).await.unwrap();
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
    let results = |ids: &[&str]| json!({"messages": ids.iter().map(|id| result(id)).collect::<Vec<_>>()});
    let wrong = InConversation::new(conversation(), results(&["x"]));
    let error = chat.ready().await.unwrap().call(wrong).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(HistoryError::Input(InputError::Unanswered { .. }))));
    let right = InConversation::new(conversation(), results(&["y", "x"]));
    assert_eq!(text_of(&chat.ready().await.unwrap().call(right).await.unwrap()), "u|-|y|x");
    let stored = store.conversation(&conversation()).messages().await.unwrap();
    assert!(stored[1].json().contains(r#""sig":"x""#));
    assert_eq!(stored.len(), 5);
}

#[tokio::test]
async fn json_requests_without_messages_are_refused_with_the_callers_field_names() {
    let llm = service_fn(|_: Value| async { Err::<Value, BoxError>("the model was called".into()) });
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), Json::new()).layer(llm);
    let mut refused = async |request: Value| {
        let error = chat.ready().await.unwrap().call(InConversation::new(conversation(), request)).await.unwrap_err();
        error.downcast::<JsonRequestError>().unwrap().to_string()
    };
    assert_eq!(refused(json!({"model": "m"})).await, r#"the request has no "messages""#);
    assert_eq!(refused(json!([])).await, r#"the request has no "messages""#);
    assert_eq!(refused(json!({"messages": "Hi"})).await, r#"the request's "messages" is a string, not an array"#);
    let messages = json!([{"role": "user", "content": "a"}, {"content": "b"}]);
    let text = "messages[1] of the request cannot be stored: invalid message: it has no role (line 1, column 1)";
    assert_eq!(refused(json!({"messages": messages})).await, text);
}

#[tokio::test]
async fn a_json_response_in_another_format_is_passed_on_and_not_stored() {
    let store = MemoryStore::new();
    let llm = service_fn(|_: Value| async { Ok::<_, BoxError>(json!({"error": {"message": "busy"}})) });
    let chat = ChatHistoryLayer::new(store.clone(), Json::new()).layer(llm);
    let response = chat.oneshot(InConversation::new(conversation(), user("u"))).await.unwrap();
    assert_eq!(response["error"]["message"], "busy");
    assert!(log(&store, &conversation()).await.is_empty());
}

#[tokio::test]
async fn json_counts_messages_that_a_value_cannot_carry() {
    let store = MemoryStore::new();
    let odd = Message::from_json(r#"{"role":"user","content":"a  b","x":1e999}"#).unwrap();
    let llm = service_fn(|request: Value| async move { Ok::<_, BoxError>(echo_json(&request)) });
    let mut chat = ChatHistoryLayer::new(store.clone(), Json::new()).layer(llm);
    let first = InConversation::new(conversation(), user("short")).store_instead([odd]);
    chat.ready().await.unwrap().call(first).await.unwrap();
    let (second, report) = InConversation::new(conversation(), user("u")).with_report();
    let response = chat.ready().await.unwrap().call(second).await.unwrap();
    assert_eq!(text_of(&response), "a  b|short|u", "the text is sent");
    assert_eq!(report.await.unwrap().downgraded, 1);
}
