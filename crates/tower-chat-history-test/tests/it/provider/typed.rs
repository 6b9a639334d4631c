//! `MockLlm`, whose types drop the providers' fields.

use async_openai::{
    error::OpenAIError,
    types::chat::{
        ChatCompletionRequestAssistantMessageArgs, ChatCompletionRequestMessage, ChatCompletionRequestToolMessage,
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest,
    },
};
use futures_util::StreamExt;
use tower::ServiceExt;
use tower_chat_history_test::{ChatProvider, ChatProvider::*, MockLlm, Reply};

fn llm(provider: ChatProvider) -> MockLlm {
    let calls = Reply::calls([("a", "look", "{}")]).thinking("t");
    MockLlm::script([calls, Reply::text("There.").thinking("u")]).provider(provider)
}

fn request(messages: Vec<ChatCompletionRequestMessage>) -> CreateChatCompletionRequest {
    CreateChatCompletionRequest { model: "m".into(), messages, ..Default::default() }
}

/// Asks a question, answers the call of the reply, and returns the outcome.
async fn round(llm: &MockLlm) -> Result<(), OpenAIError> {
    let mut messages: Vec<ChatCompletionRequestMessage> = vec![ChatCompletionRequestUserMessage::from("Where?").into()];
    let mut response = llm.unary().oneshot(request(messages.clone())).await?;
    let calls = response.choices.remove(0).message.tool_calls.unwrap();
    let reply = ChatCompletionRequestAssistantMessageArgs::default().tool_calls(calls).build()?;
    let result = ChatCompletionRequestToolMessage { content: "r".into(), tool_call_id: "a".into() };
    messages.extend([reply.into(), result.into()]);
    llm.unary().oneshot(request(messages)).await.map(drop)
}

#[tokio::test]
async fn the_types_lose_the_fields_so_the_next_round_is_refused() {
    for provider in [DeepSeek, LiteLlm] {
        let error = round(&llm(provider)).await.unwrap_err();
        let OpenAIError::ApiError(response) = error else { panic!("{provider:?}: {error}") };
        assert_eq!(response.status_code.as_u16(), 400);
        let wording = if provider == DeepSeek { "must be passed back to the API" } else { "Expected `thinking`" };
        assert!(response.api_error.message.contains(wording), "{}", response.api_error.message);
    }
    round(&llm(OpenAi)).await.unwrap();
}

#[tokio::test]
async fn errors_that_the_types_cannot_read_have_the_body() {
    for (provider, wording) in [(Gemini, "missing a thought_signature"), (OpenRouter, "Provider returned error")] {
        let error = round(&llm(provider)).await.unwrap_err();
        let OpenAIError::JSONDeserialize(_, body) = &error else { panic!("{provider:?}: {error}") };
        assert!(body.contains(wording), "{body}");
    }
}

#[tokio::test]
async fn streams_of_gemini_have_calls_that_the_types_cannot_read() {
    let messages = vec![ChatCompletionRequestUserMessage::from("Where?").into()];
    let chunks: Vec<_> = llm(Gemini).stream().oneshot(request(messages)).await.unwrap().collect().await;
    let unreadable = chunks.iter().filter(|chunk| matches!(chunk, Err(OpenAIError::JSONDeserialize(..)))).count();
    assert_eq!(unreadable, 1, "the call has no index");
}
