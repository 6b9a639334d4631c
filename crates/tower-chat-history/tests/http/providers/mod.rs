//! The rows of `docs/providers.md` of `tower-chat-history`: whole conversations with tools and reasoning, and a server
//! that refuses what the provider refuses.

mod chat;
mod page;

use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower_chat_history::{
    ContextOptions, HistoryOptions,
    http::{CONVERSATION_ID, CallError, HttpHistory, MessagesWire, Routes},
    report::{NotStored, ResponseShape, TurnOutcome},
    store::Origin,
};
use tower_chat_history_test::{
    ChatProvider, RefusalReason,
    messages::{self, MessagesProvider},
    responses::{self, ResponsesProvider},
};

use self::chat::{Api, Chat};
use super::support::{History, JSON, answer, id};

/// Checks that all messages are sent again as they were stored, and that nothing is refused.
async fn replayed(api: Api) -> Chat {
    let mut chats = Vec::new();
    for streams in [false, true] {
        let chat = Chat::start(api, Routes::new()).await;
        chat.talk(streams).await;
        chat.check_replayed().await;
        chats.push(chat);
    }
    chats.remove(0)
}

/// Removes a field of all replies, also of their calls.
fn without(messages: &mut [Value], field: &str) {
    for message in messages {
        message.as_object_mut().unwrap().remove(field);
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            call.as_object_mut().unwrap().remove(field);
        }
        if message["tool_calls"].is_null() {
            message.as_object_mut().unwrap().remove("tool_calls");
        }
    }
}

/// Returns the reason why a provider refuses the second request without this field.
async fn refused_without(provider: ChatProvider, field: &str) -> RefusalReason {
    let chat = replayed(Api::Chat(provider)).await;
    let body = chat.changed(1, |messages| without(messages, field));
    provider.check(&body).unwrap_err().reason().clone()
}

#[tokio::test]
async fn chat_completions_without_further_fields() {
    let chat = replayed(Api::Chat(ChatProvider::OpenAi)).await;
    let body = chat.changed(1, |messages| drop(messages.pop()));
    let refusal = ChatProvider::OpenAi.check(&body).unwrap_err();
    assert!(matches!(refusal.reason(), RefusalReason::ChatRules(_)), "{refusal}");
}

#[tokio::test]
async fn deepseek_with_thinking_and_tools() {
    let reason = refused_without(ChatProvider::DeepSeek, "reasoning_content").await;
    assert_eq!(reason, RefusalReason::MissingReasoning { position: 1 });
}

/// DeepSeek requires the reasoning of calls, also of those in turns that have ended.
#[tokio::test]
async fn deepseek_without_the_reasoning_of_turns_that_have_ended() {
    let api = Api::Chat(ChatProvider::DeepSeek);
    for streams in [false, true] {
        let options = HistoryOptions::new()
            .context(ContextOptions::new().old_reasoning(0))
            .origin(Origin::unknown().provider("deepseek"));
        let chat = Chat::start_with(api, Routes::new(), options).await;
        chat.talk(streams).await;
        let requests = chat.server.requests();
        let reasoning = |request: usize| {
            let body = requests[request].json();
            let messages = body["messages"].as_array().unwrap();
            let replies = messages.iter().filter(|message| message["role"] == "assistant");
            replies.map(|reply| reply["reasoning_content"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(reasoning(2), ["first", "then"]);
        assert_eq!(reasoning(3), [json!("first"), json!("then"), Value::Null], "the answer's has left");
        assert_eq!(reasoning(4)[..3], [json!("first"), json!("then"), Value::Null]);
    }
}

#[tokio::test]
async fn gemini_s_chat_completions_with_tools() {
    let reason = refused_without(ChatProvider::Gemini, "extra_content").await;
    assert_eq!(reason, RefusalReason::MissingSignature { position: 1 });
}

#[tokio::test]
async fn claude_behind_openrouter() {
    let reason = refused_without(ChatProvider::OpenRouter, "reasoning_details").await;
    assert_eq!(reason, RefusalReason::MissingThinking { position: 1 });
}

#[tokio::test]
async fn claude_behind_litellm() {
    let reason = refused_without(ChatProvider::LiteLlm, "thinking_blocks").await;
    assert_eq!(reason, RefusalReason::MissingThinking { position: 1 });
}

#[tokio::test]
async fn anthropic_messages_with_thinking_and_tools() {
    let chat = replayed(Api::Messages).await;
    let provider = MessagesProvider::new("mock");
    let moved = chat.changed(1, |messages| messages[0]["content"] = "another question".into());
    let refusal = provider.check(&moved).unwrap_err();
    assert_eq!(refusal.reason(), &messages::Reason::OtherConversation { message: 1, block: 0 });
    let unanswered = chat.changed(1, |messages| messages[2]["content"] = "no result".into());
    let refusal = provider.check(&unanswered).unwrap_err();
    assert!(matches!(refusal.reason(), messages::Reason::UnansweredCalls { message: 1, .. }), "{refusal}");
}

#[tokio::test]
async fn claude_on_vertex_ai_and_bedrock() {
    static MESSAGES: MessagesWire = MessagesWire::new();
    let claude = |method: &Method, uri: &Uri| {
        let path = uri.path();
        *method == Method::POST && (path.contains("/publishers/anthropic/models/") || path.starts_with("/model/"))
    };
    for path in
        ["/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", "/model/us.anthropic.claude/invoke"]
    {
        let chat = Chat::start(Api::Messages, Routes::none().route(claude, &MESSAGES)).await;
        for input in chat.inputs() {
            let version = "bedrock-2023-05-31";
            chat.call(path, &json!({"anthropic_version": version, "max_tokens": 99, "messages": input})).await;
        }
        chat.check_replayed().await;
    }
}

#[tokio::test]
async fn openai_responses_with_reasoning_and_tools() {
    let chat = replayed(Api::Responses).await;
    let provider = ResponsesProvider::new("mock");
    let is_reasoning = |item: &Value| item["type"] == "reasoning";
    let lost = chat.changed(1, |items| items.retain(|item| !is_reasoning(item)));
    let refusal = provider.check(&lost).unwrap_err();
    assert_eq!(refusal.reason(), &responses::Reason::MissingReasoning { position: 1 });
    let refusal = ResponsesProvider::new("other").check(&chat.changed(1, |_| ())).unwrap_err();
    assert_eq!(refusal.code(), Some("invalid_encrypted_content"));
}

#[tokio::test]
async fn bedrock_s_binary_streams_pass_and_are_not_stored() {
    static MESSAGES: MessagesWire = MessagesWire::new();
    let stream = |_: &Method, uri: &Uri| uri.path().ends_with("/invoke-with-response-stream");
    let adapter = HttpHistory::new().routes(Routes::new().route(stream, &MESSAGES));
    let history = History::of(adapter, HistoryOptions::new());
    let request = request(
        "/model/us.anthropic.claude/invoke-with-response-stream",
        &json!({"max_tokens": 9, "messages": [{"role": "user", "content": "Hi!"}]}),
    );
    let frames = Bytes::from_static(b"\0\0\0\x10binary\xff\0");
    let (sent, response) = history.call(request, answer("application/vnd.amazon.eventstream", frames.clone())).await;
    assert!(sent.is_some());
    assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), frames);
    assert!(history.log().await.is_empty());
    let unread = NotStored::UnreadableReply(ResponseShape::ContentType);
    assert!(matches!(history.outcome(), TurnOutcome::NotStored(why) if why == unread), "{:?}", history.outcome());
}

fn request(path: &str, body: &Value) -> Request<Full<Bytes>> {
    Request::post(path).header(CONVERSATION_ID, id().as_str()).body(Full::from(body.to_string())).unwrap()
}

/// Sends a request, and expects that it arrives as it is, and that nothing is stored.
async fn passes(path: &str, body: &Value) {
    let history = History::new();
    let (sent, response) = history.call(request(path, body), answer(JSON, r#"{"choices":[]}"#)).await;
    assert_eq!(sent.unwrap().body, body.to_string());
    assert!(response.unwrap().status().is_success());
    assert!(history.log().await.is_empty());
}

#[tokio::test]
async fn gemini_s_own_api_has_no_history() {
    let contents = json!([{"role": "user", "parts": [{"text": "Hi!"}]}]);
    passes("/v1beta/models/gemini-3-pro:generateContent", &json!({"contents": contents})).await;
    passes("/v1beta/interactions", &json!({"model": "gemini-3-pro", "input": "Hi!"})).await;
}

#[tokio::test]
async fn ollama_s_own_api_and_bedrock_s_converse_have_no_history() {
    let messages = json!([{"role": "user", "content": "Hi!"}]);
    passes("/api/chat", &json!({"model": "m", "messages": messages})).await;
    passes("/model/us.anthropic.claude/converse", &json!({"messages": messages})).await;
}

#[tokio::test]
async fn a_conversation_that_the_provider_keeps_is_refused() {
    let history = History::new();
    for body in [
        json!({"model": "m", "input": "Hi!", "previous_response_id": "resp_1"}),
        json!({"model": "m", "input": "Hi!", "conversation": "conv_1"}),
    ] {
        let error = history.refused(request("/v1/responses", &body)).await;
        assert!(matches!(error.downcast_ref(), Some(CallError::ServerState { .. })), "{error:?}");
    }
}
