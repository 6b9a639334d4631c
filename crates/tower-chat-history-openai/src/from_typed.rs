//! Conversion from async-openai's types to messages of the log, and to replies.
//!
//! Messages of requests that have nothing but a text are composed, because serde would take several times as long. They
//! have the JSON that the client writes. Replies are serialized.

use async_openai::types::chat::{
    ChatCompletionRequestDeveloperMessage, ChatCompletionRequestDeveloperMessageContent, ChatCompletionRequestMessage,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestSystemMessageContent, ChatCompletionRequestUserMessage,
    ChatCompletionRequestUserMessageContent, ChatCompletionResponseMessage, CompletionUsage,
    CreateChatCompletionResponse, FinishReason,
};
use tower_chat_history::{BoxError, Message, Reply, dialect::MessageError, store::Usage};

/// Converts messages in async-openai's types to messages of a log, for example to
/// [import](tower_chat_history::Conversation::import) them.
///
/// The conversion never fails and loses nothing.
///
/// ```
/// use async_openai::types::chat::ChatCompletionRequestUserMessage;
/// use tower_chat_history_openai::from_request_messages;
///
/// let user = ChatCompletionRequestUserMessage { content: "Hi".into(), name: None };
/// assert_eq!(from_request_messages(&[user.into()])[0].text(), "Hi");
/// ```
pub fn from_request_messages<'a>(messages: impl IntoIterator<Item = &'a ChatCompletionRequestMessage>) -> Vec<Message> {
    // The types always serialize to an object with a role.
    messages.into_iter().filter_map(|message| request_message(message).ok()).collect()
}

/// Converts a reply in async-openai's type to a message of a log. It returns `None` if the reply cannot be serialized,
/// which does not happen with this version of async-openai.
#[must_use]
pub fn from_response_message(reply: &ChatCompletionResponseMessage) -> Option<Message> {
    Message::from_serialize(reply).ok()
}

/// Returns a message of a request.
pub(crate) fn request_message(message: &ChatCompletionRequestMessage) -> Result<Message, MessageError> {
    match message {
        ChatCompletionRequestMessage::User(ChatCompletionRequestUserMessage {
            content: ChatCompletionRequestUserMessageContent::Text(text),
            name: None,
        }) => Ok(Message::user(text)),
        ChatCompletionRequestMessage::System(ChatCompletionRequestSystemMessage {
            content: ChatCompletionRequestSystemMessageContent::Text(text),
            name: None,
        }) => Ok(Message::system(text)),
        ChatCompletionRequestMessage::Developer(ChatCompletionRequestDeveloperMessage {
            content: ChatCompletionRequestDeveloperMessageContent::Text(text),
            name: None,
        }) => Ok(Message::developer(text)),
        message => Message::from_serialize(message),
    }
}

/// Returns the reply of a response: the choice with the smallest index.
pub(crate) fn reply(response: &CreateChatCompletionResponse) -> Result<Reply, BoxError> {
    let mut reply = Reply::default();
    if let Some(choice) = response.choices.iter().min_by_key(|choice| choice.index) {
        reply.messages = vec![Message::from_serialize(&choice.message)?];
        reply.finish_reason = choice.finish_reason.as_ref().and_then(finish_reason);
    }
    reply.model = Some(response.model.clone());
    reply.usage = response.usage.as_ref().map(usage);
    Ok(reply)
}

/// Returns the name that the reason has in JSON. The reason is serialized, so that a new variant needs no change here.
fn finish_reason(reason: &FinishReason) -> Option<String> {
    serde_json::to_value(reason).ok()?.as_str().map(str::to_owned)
}

fn usage(usage: &CompletionUsage) -> Usage {
    let mut reported = Usage::new(usage.prompt_tokens.into(), usage.completion_tokens.into());
    let details = usage.prompt_tokens_details.as_ref();
    reported.cached_input_tokens = details.and_then(|details| details.cached_tokens).map(u64::from);
    reported
}

#[cfg(test)]
mod tests {
    use async_openai::types::chat::{ChatChoice, Role};
    use serde_json::json;

    use super::*;

    fn choice(index: u32, text: &str) -> ChatChoice {
        let message = ChatCompletionResponseMessage {
            content: Some(text.into()),
            role: Role::Assistant,
            ..ChatCompletionResponseMessage::default()
        };
        ChatChoice { index, message, finish_reason: Some(FinishReason::ContentFilter), logprobs: None }
    }

    #[test]
    fn the_choice_with_the_smallest_index_is_the_reply() {
        let response = CreateChatCompletionResponse {
            choices: vec![choice(1, "other"), choice(0, "first")],
            model: "m".into(),
            usage: Some(CompletionUsage { prompt_tokens: 7, completion_tokens: 2, ..CompletionUsage::default() }),
            ..CreateChatCompletionResponse::default()
        };
        let reply = reply(&response).unwrap();
        assert_eq!(reply.message().unwrap().text(), "first");
        assert_eq!(reply.finish_reason.as_deref(), Some("content_filter"));
        assert_eq!((reply.model.as_deref(), reply.usage), (Some("m"), Some(Usage::new(7, 2))));
    }

    #[test]
    fn a_response_without_choices_has_no_reply() {
        assert_eq!(reply(&CreateChatCompletionResponse::default()).unwrap().messages, []);
    }

    #[test]
    fn messages_of_requests_have_the_json_that_the_client_writes() {
        let text = "a \"b\"\\ \n\u{1}\u{7f}ä😀";
        for message in [
            json!({"role": "user", "content": text}),
            json!({"role": "user", "content": ""}),
            json!({"role": "user", "content": text, "name": "n"}),
            json!({"role": "user", "content": [{"type": "text", "text": text}]}),
            json!({"role": "system", "content": text}),
            json!({"role": "system", "content": text, "name": "n"}),
            json!({"role": "developer", "content": text}),
            json!({"role": "developer", "content": [{"type": "text", "text": text}]}),
            json!({"role": "assistant", "content": text}),
            json!({"role": "tool", "tool_call_id": "c", "content": text}),
        ] {
            let typed: ChatCompletionRequestMessage = serde_json::from_value(message).unwrap();
            let read = request_message(&typed).unwrap();
            let written = Message::from_serialize(&typed).unwrap();
            assert_eq!(read.json(), written.json());
            assert_eq!(read.index(), written.index());
        }
    }
}
