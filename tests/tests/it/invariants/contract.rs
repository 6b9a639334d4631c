//! Invariant 11: the layer follows the service contract. Readiness is tested in the tests of the middleware,
//! which can withhold it.

use async_openai::error::OpenAIError;
use serde_json::{Value, json};
use tests::{BOTH_KINDS, CallKind, Chat, Storage, TypedRequest, over_every_store};
use tower_chat_history::{BoxError, InConversation};
use tower_chat_history_test::{ApiFailure, Op, Reply};

over_every_store! {
    #[tokio::test]
    invariant_11_only_the_messages_of_a_request_change,
    invariant_11_a_stateless_request_is_passed_on_unchanged,
    invariant_11_inner_errors_are_passed_on_unchanged,
}

/// Returns a request with fields of all kinds.
fn full(kind: CallKind) -> Value {
    let mut request = json!({
        "model": "mock-large",
        "messages": [
            {"role": "developer", "content": "D", "name": "operator"},
            {"role": "system", "content": [{"type": "text", "text": "S"}]},
            {"role": "user", "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            ], "name": "Nemo"},
        ],
        "modalities": ["text", "audio"],
        "verbosity": "low",
        "reasoning_effort": "high",
        "max_completion_tokens": 100,
        "frequency_penalty": 0.5,
        "presence_penalty": -0.5,
        "web_search_options": {"search_context_size": "low"},
        "top_logprobs": 2,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": true}},
        "audio": {"voice": "alloy", "format": "mp3"},
        "store": true,
        "stop": ["\n", "END"],
        "logit_bias": {"50256": -100},
        "logprobs": true,
        "max_tokens": 99,
        "n": 2,
        "prediction": {"type": "content", "content": "guess"},
        "seed": -7,
        "service_tier": "flex",
        "temperature": 0.25,
        "top_p": 0.75,
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": false,
        "user": "user-42",
        "safety_identifier": "safe",
        "prompt_cache_key": "key",
        "function_call": "auto",
        "functions": [{"name": "g", "description": "d", "parameters": {"type": "object"}}],
        "metadata": {"tag": "value"},
    });
    if kind == CallKind::Stream {
        request["stream"] = true.into();
        request["stream_options"] = json!({"include_usage": true});
    }
    request
}

/// Returns the messages, and the request without them.
fn split(mut request: Value) -> (Vec<Value>, Value) {
    let messages = request.as_object_mut().unwrap().remove("messages").unwrap();
    (messages.as_array().unwrap().clone(), request)
}

async fn invariant_11_only_the_messages_of_a_request_change(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, ["a0", "a1"].map(Reply::text)), storage.conversation());
        chat.ask(kind, &id, "u0").await.unwrap();
        let typed: TypedRequest = serde_json::from_value(full(kind)).unwrap();
        chat.call(kind, InConversation::new(id.clone(), typed.clone())).await.unwrap();
        let sent = chat.llm.requests().pop().unwrap();

        let (own, rest) = split(serde_json::to_value(&typed).unwrap());
        let (messages, sent_rest) = split(serde_json::to_value(&sent).unwrap());
        assert!(rest.as_object().unwrap().len() >= full(kind).as_object().unwrap().len() - 1, "all fields are set");
        assert_eq!(sent_rest, rest);
        assert_eq!(messages[..2], own[..2], "the head is unchanged");
        assert_eq!((&messages[2]["content"], &messages[3]["content"]), (&json!("u0"), &json!("a0")));
        assert_eq!(messages[4..], own[2..], "the input is unchanged");
        assert_eq!(TypedRequest { messages: typed.messages.clone(), ..sent }, typed);
    }
}

async fn invariant_11_a_stateless_request_is_passed_on_unchanged(storage: Storage) {
    for kind in BOTH_KINDS {
        let chat = Chat::new(&storage, [Reply::text("a")]);
        let typed: TypedRequest = serde_json::from_value(full(kind)).unwrap();
        chat.call(kind, InConversation::stateless(typed.clone())).await.unwrap();
        assert_eq!(chat.llm.requests(), [typed]);
        assert_eq!(storage.store.calls(Op::Load) + storage.store.calls(Op::Append), 0);
    }
}

async fn invariant_11_inner_errors_are_passed_on_unchanged(storage: Storage) {
    fn inner(error: &BoxError) -> &OpenAIError {
        error.downcast_ref().unwrap()
    }
    for kind in BOTH_KINDS {
        let replies = [
            Reply::error(ApiFailure::insufficient_quota()),
            Reply::error(ApiFailure::context_length_exceeded()),
            Reply::text("a").abort_after(0),
            Reply::text("a").finish("odd"),
        ];
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        let mut codes = Vec::new();
        for _ in 0..2 {
            let error = chat.ask(kind, &id, "u").await.unwrap_err();
            let OpenAIError::ApiError(error) = inner(&error) else { panic!("{error}") };
            codes.push((error.status_code.as_u16(), error.api_error.code.clone().unwrap()));
        }
        assert_eq!(codes, [(429, "insufficient_quota".into()), (400, "context_length_exceeded".into())]);
        let lost = chat.ask(kind, &id, "u").await.unwrap_err();
        assert!(matches!(inner(&lost), OpenAIError::StreamError(_)));
        let odd = chat.ask(kind, &id, "u").await.unwrap_err();
        assert!(matches!(inner(&odd), OpenAIError::JSONDeserialize(..)));
        let wrong = TypedRequest {
            stream: Some(kind == CallKind::Unary),
            ..tests::request([tower_chat_history::Message::user("u")])
        };
        let wrong = chat.call(kind, InConversation::new(id, wrong)).await.unwrap_err();
        assert!(matches!(inner(&wrong), OpenAIError::InvalidArgument(_)));
    }
}
