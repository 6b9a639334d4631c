//! Conversion of recorded exchanges to async-openai's responses.

use async_openai::types::chat::{ChatCompletionResponseMessage, CreateChatCompletionResponse, FinishReason, Role};
use serde_json::{Value, json};
use tower_chat_history::{Message, adapt::to_json_response, store::Recorded};

use crate::to_typed::tool_call;

/// Returns the response of a recorded exchange, for a call that was answered before
/// ([`AlreadyRecorded`](tower_chat_history::HistoryError::AlreadyRecorded)). Returns `None` if the exchange has no
/// reply, because it was imported without one, or has only tool results.
///
/// The response has one choice. `id` is the exchange's id, and `created` is its time, in seconds since 1970. `model`,
/// finish reason and usage are the recorded ones. `model` is empty if it was not recorded. A finish reason that the
/// types do not know is left out. Parts of the message that the types cannot carry are left out. [`to_json_response`]
/// returns the complete response.
///
/// ```
/// use async_openai::types::chat::{
///     CreateChatCompletionRequest, CreateChatCompletionResponse,
/// };
/// use tower::{Service, ServiceExt};
/// use tower_chat_history::{BoxError, HistoryError, InConversation};
/// use tower_chat_history_openai::to_response;
///
/// /// Calls the model, or returns the recorded response if the request was answered before.
/// async fn idempotent<S>(
///     chat: &mut S,
///     call: InConversation<CreateChatCompletionRequest>,
/// ) -> Result<CreateChatCompletionResponse, BoxError>
/// where
///     S: Service<
///             InConversation<CreateChatCompletionRequest>,
///             Response = CreateChatCompletionResponse,
///             Error = BoxError,
///         >,
/// {
///     let error = match chat.ready().await?.call(call).await {
///         Ok(response) => return Ok(response),
///         Err(error) => error,
///     };
///     let recorded = match error.downcast_ref() {
///         Some(HistoryError::AlreadyRecorded(recorded)) => to_response(recorded),
///         _ => None,
///     };
///     recorded.ok_or(error)
/// }
/// ```
#[must_use]
pub fn to_response(recorded: &Recorded) -> Option<CreateChatCompletionResponse> {
    let mut response = to_json_response(recorded)?;
    let choice = response.pointer_mut("/choices/0")?;
    // The types know few finish reasons, and refuse a response with any other.
    let reason = choice["finish_reason"].take();
    let message = choice["message"].take();
    if serde_json::from_value::<FinishReason>(reason.clone()).is_ok() {
        choice["finish_reason"] = reason;
    }

    // Every version of the types can parse this placeholder.
    choice["message"] = json!({"role": "assistant", "content": null});
    bound(&mut response);
    let mut response: CreateChatCompletionResponse = serde_json::from_value(response).ok()?;
    response.choices.first_mut()?.message = typed(message, recorded.exchange.messages.last()?);
    Some(response)
}

/// Returns the reply in async-openai's type: complete if the type can parse it, otherwise its text and calls.
#[allow(deprecated)] // `function_call` is deprecated, but it is a field of the type.
fn typed(json: Value, message: &Message) -> ChatCompletionResponseMessage {
    serde_json::from_value(json).unwrap_or_else(|_| {
        let calls: Vec<_> = message.tool_calls().iter().map(tool_call).collect();
        let text = message.text().into_owned();
        ChatCompletionResponseMessage {
            content: (!text.is_empty()).then_some(text),
            refusal: None,
            tool_calls: (!calls.is_empty()).then_some(calls),
            annotations: None,
            role: Role::Assistant,
            function_call: None,
            audio: None,
        }
    })
}

/// Lowers numbers that are too large for the types to the largest possible ones.
fn bound(response: &mut Value) {
    let most = u64::from(u32::MAX);
    for field in [
        "/created",
        "/usage/prompt_tokens",
        "/usage/completion_tokens",
        "/usage/total_tokens",
        "/usage/prompt_tokens_details/cached_tokens",
    ] {
        if let Some(number) = response.pointer_mut(field).filter(|number| number.as_u64() > Some(most)) {
            *number = most.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use async_openai::types::chat::{
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest, CreateChatCompletionRequestArgs,
    };
    use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
    use tower_chat_history::{
        BoxError, ChatHistoryLayer, ConversationId, Exchange, ExchangeId, HistoryError, HistoryStoreExt as _,
        InConversation, MemoryStore,
        store::{Seq, Usage},
    };

    use super::*;
    use crate::OpenAi;

    fn recorded(reply: Value, reason: &str, usage: Usage) -> Recorded {
        let messages = [Message::user("u"), Message::try_from(reply).unwrap()];
        let mut exchange = Exchange::new(ExchangeId::new("m-1").unwrap(), messages);
        exchange.finish_reason = Some(reason.into());
        exchange.usage = Some(usage);
        Recorded::new(Seq::FIRST, exchange)
    }

    #[tokio::test]
    async fn a_repeated_call_gets_the_response_of_the_first() {
        let answer = json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-2024",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "refusal": null,
                "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 4}},
        });
        let llm = service_fn(move |_: CreateChatCompletionRequest| {
            let answer: CreateChatCompletionResponse = serde_json::from_value(answer.clone()).unwrap();
            async { Ok::<_, BoxError>(answer) }
        });
        let store = MemoryStore::new();
        let mut chat = ChatHistoryLayer::new(store.clone(), OpenAi::new()).layer(llm);
        let id = ConversationId::new(["acme"]).unwrap();
        let request = CreateChatCompletionRequestArgs::default()
            .model("gpt-4o")
            .messages(vec![ChatCompletionRequestUserMessage::from("u").into()])
            .build()
            .unwrap();
        let call = InConversation::new(id.clone(), request).exchange(ExchangeId::new("m-1").unwrap());
        let first = chat.ready().await.unwrap().call(call.clone()).await.unwrap();
        let error = chat.ready().await.unwrap().call(call).await.unwrap_err();
        let Some(HistoryError::AlreadyRecorded(recorded)) = error.downcast_ref() else { panic!("{error}") };
        let again = to_response(recorded).unwrap();
        let at = store.conversation(&id).last(1).await.unwrap()[0].exchange.at;
        assert_eq!((again.id.as_str(), u64::from(again.created)), ("m-1", at.as_unix_millis() / 1_000));
        assert_eq!((&again.choices, &again.model, &again.object), (&first.choices, &first.model, &first.object));
        let usage = again.usage.unwrap();
        let first = first.usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (9, 3, 12));
        assert_eq!(
            usage.prompt_tokens_details.unwrap().cached_tokens,
            first.prompt_tokens_details.unwrap().cached_tokens
        );
    }

    #[test]
    fn parts_that_the_types_do_not_know_are_left_out_without_an_error() {
        let parts = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hello!"}]);
        let calls = json!([{"id": "x", "function": {"name": "f", "arguments": "{}"}}]);
        let mut usage = Usage::new(u64::MAX, u64::MAX);
        usage.cached_input_tokens = Some(u64::MAX);
        let recorded = recorded(json!({"role": "assistant", "content": parts, "tool_calls": calls}), "eos", usage);
        let response = to_response(&recorded).unwrap();
        let choice = &response.choices[0];
        assert_eq!((choice.message.content.as_deref(), choice.finish_reason), (Some("Hello!"), None));
        assert_eq!(choice.message.tool_calls.as_ref().unwrap().len(), 1);
        assert_eq!(response.usage.unwrap().total_tokens, u32::MAX);
    }

    #[test]
    fn known_reasons_are_kept_and_extra_fields_are_ignored() {
        let reply = json!({"role": "assistant", "content": "Hello!", "reasoning_content": "because"});
        let response = to_response(&recorded(reply, "length", Usage::new(1, 2))).unwrap();
        assert_eq!(response.choices[0].finish_reason, Some(FinishReason::Length));
        assert_eq!(response.choices[0].message.content.as_deref(), Some("Hello!"));
    }

    #[test]
    fn without_a_reply_there_is_no_response() {
        let exchange = Exchange::new(ExchangeId::generate(), [Message::user("u")]);
        assert!(to_response(&Recorded::new(Seq::FIRST, exchange)).is_none());
    }
}
