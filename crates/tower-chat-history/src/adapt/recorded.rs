//! Responses made from recorded exchanges, for calls that are repeated.

use serde::Serialize;
use serde_json::Value;
use tower_chat_history_core::{Message, Recorded, Usage};

use crate::call::Reply;

/// Makes a response in the chat-completions format from a recorded exchange, for a call that was answered
/// before ([`AlreadyRecorded`](crate::HistoryError::AlreadyRecorded)). Returns `None` if the exchange has no
/// reply (it was imported without one, or contains only tool results), or is in another dialect.
///
/// The response has one choice, whose message is the stored one with all its fields. `id` is the id of the exchange,
/// and `created` is the time of the exchange, in seconds since 1970. `model` (empty if unknown), `finish_reason` and
/// `usage` have the stored values. Other fields of the provider's response are missing, because they were not stored.
///
/// For async-openai's types, use `to_response` of the crate `tower-chat-history-openai`.
///
/// ```
/// use serde_json::{Value, json};
/// use tower::{Service, ServiceBuilder, ServiceExt};
/// use tower_chat_history::{
///     BoxError, ChatHistoryLayer, ConversationId, ExchangeId, HistoryError, InConversation, MemoryStore,
///     adapt::{Json, to_json_response},
/// };
///
/// /// Returns the answer, also if the request is repeated.
/// async fn idempotent<S>(chat: &mut S, call: InConversation<Value>) -> Result<Value, BoxError>
/// where
///     S: Service<InConversation<Value>, Response = Value, Error = BoxError>,
/// {
///     let error = match chat.ready().await?.call(call).await {
///         Ok(response) => return Ok(response),
///         Err(error) => error,
///     };
///     let recorded = match error.downcast_ref() {
///         Some(HistoryError::AlreadyRecorded(recorded)) => to_json_response(recorded),
///         _ => None,
///     };
///     recorded.ok_or(error)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let llm = tower::service_fn(|_: Value| async {
/// #     Ok::<_, BoxError>(json!({"choices": [{"message": {"role": "assistant", "content": "Hello!"}}]}))
/// # });
/// let mut chat = ServiceBuilder::new().layer(ChatHistoryLayer::new(MemoryStore::new(), Json::new())).service(llm);
/// let request = json!({"model": "any", "messages": [{"role": "user", "content": "Hi"}]});
/// let call = InConversation::new(ConversationId::new(["acme"])?, request).exchange(ExchangeId::new("m-1")?);
/// for _ in 0..2 {
///     let response = idempotent(&mut chat, call.clone()).await?;
///     assert_eq!(response["choices"][0]["message"]["content"], "Hello!");
/// }
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn to_json_response(recorded: &Recorded) -> Option<Value> {
    serde_json::to_value(Response::of(recorded)?).ok()
}

/// Makes the same response as [`to_json_response`], as the text of an HTTP body. Its message equals the stored one
/// byte for byte.
#[must_use]
pub fn to_json_body(recorded: &Recorded) -> Option<String> {
    serde_json::to_string(&Response::of(recorded)?).ok()
}

impl Reply {
    /// Returns the reply of a recorded exchange, with all its messages, as an adapter found it in the response.
    /// Programs can make a response of their own type from it. Returns `None` if the exchange has no reply.
    #[must_use]
    pub fn recorded(recorded: &Recorded) -> Option<Self> {
        let exchange = &recorded.exchange;
        if exchange.reply().is_empty() {
            return None;
        }
        let mut reply = Self::of(exchange.reply().iter().cloned());
        reply.model.clone_from(&exchange.model);
        reply.finish_reason.clone_from(&exchange.finish_reason);
        reply.usage = exchange.usage;
        reply.incomplete = exchange.incomplete;
        Some(reply)
    }
}

/// The recorded parts of a response.
#[derive(Serialize)]
struct Response<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<ReportedUsage>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: &'a Message,
    finish_reason: Option<&'a str>,
}

#[derive(Serialize)]
struct ReportedUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<Details>,
}

#[derive(Serialize)]
struct Details {
    cached_tokens: u64,
}

impl<'a> Response<'a> {
    fn of(recorded: &'a Recorded) -> Option<Self> {
        let exchange = &recorded.exchange;
        let message = exchange.messages.last()?;
        if !exchange.dialect.is_chat_completions() || !message.is_reply() {
            return None;
        }
        Some(Self {
            id: exchange.id.as_str(),
            object: "chat.completion",
            created: exchange.at.as_unix_millis() / 1_000,
            model: exchange.model.as_deref().unwrap_or_default(),
            choices: [Choice { index: 0, message, finish_reason: exchange.finish_reason.as_deref() }],
            usage: exchange.usage.map(ReportedUsage::of),
        })
    }
}

impl ReportedUsage {
    fn of(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
            total_tokens: usage.input_tokens.saturating_add(usage.output_tokens),
            prompt_tokens_details: usage.cached_input_tokens.map(|cached_tokens| Details { cached_tokens }),
        }
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Exchange, ExchangeId, Seq, Timestamp};

    use super::*;

    fn exchange(messages: impl IntoIterator<Item = Message>) -> Exchange {
        let mut exchange = Exchange::new(ExchangeId::new("m-1").unwrap(), messages);
        exchange.at = Timestamp::from_unix_millis(1_700_000_000_999);
        exchange
    }

    #[test]
    fn a_response_is_made_from_a_recorded_exchange() {
        let message = r#"{"role":"assistant", "content":"Hello!", "logits": [1.50, 1e400]}"#;
        let mut exchange = exchange([Message::user("Hi"), Message::from_json(message).unwrap()]);
        exchange.model = Some("gpt-4o".into());
        exchange.finish_reason = Some("stop".into());
        let mut usage = Usage::new(9, 3);
        usage.cached_input_tokens = Some(4);
        exchange.usage = Some(usage);
        let recorded = Recorded::new(Seq::new(2), exchange);
        let expected = format!(
            r#"{{"id":"m-1","object":"chat.completion","created":1700000000,"model":"gpt-4o","choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{{"cached_tokens":4}}}}}}"#
        );
        assert_eq!(to_json_body(&recorded).unwrap(), expected);
    }

    #[test]
    fn without_a_reply_there_is_no_response() {
        for messages in [vec![], vec![Message::user("Hi")], vec![Message::tool("x", "r")]] {
            let recorded = Recorded::new(Seq::FIRST, exchange(messages));
            let none = (to_json_response(&recorded), to_json_body(&recorded), Reply::recorded(&recorded));
            assert_eq!(none, (None, None, None));
        }
    }
}
