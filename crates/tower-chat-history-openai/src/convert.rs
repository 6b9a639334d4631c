//! Conversions between messages of a log and async-openai's types, for programs that work with histories directly.

use async_openai::types::chat::{ChatCompletionRequestMessage, ChatCompletionResponseMessage};
use tower_chat_history::Message;

use crate::{from_typed, to_typed};

/// The result of [`to_request_messages`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Converted {
    /// The messages, in order. A message that the types cannot carry at all is left out.
    pub messages: Vec<ChatCompletionRequestMessage>,
    /// The number of the log's messages that are incomplete or left out. The page [types](crate::guide::types)
    /// lists the parts that the types cannot carry.
    pub downgraded: usize,
}

/// Converts messages of a log to async-openai's types.
///
/// The conversion never fails. Parts that the types cannot carry are left out, and [`Converted::downgraded`] is the
/// number of messages that have such parts.
///
/// ```
/// use tower_chat_history::Message;
/// use tower_chat_history_openai::to_request_messages;
///
/// let reply = r#"{"role":"assistant","content":"Hello!","reasoning_content":"…"}"#;
/// let log = [Message::user("Hi"), Message::from_json(reply)?];
/// let converted = to_request_messages(&log);
/// assert_eq!((converted.messages.len(), converted.downgraded), (2, 1));
/// # Ok::<(), tower_chat_history::store::MessageError>(())
/// ```
pub fn to_request_messages<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Converted {
    let mut all = Converted::default();
    for message in messages {
        let one = to_typed::request_message(message);
        all.downgraded += usize::from(one.downgraded);
        all.messages.extend(one.message);
    }
    all
}

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
    messages.into_iter().filter_map(|message| from_typed::request_message(message).ok()).collect()
}

/// Converts a reply in async-openai's type to a message of a log. It returns `None` if the reply cannot be serialized,
/// which does not happen with this version of async-openai.
#[must_use]
pub fn from_response_message(reply: &ChatCompletionResponseMessage) -> Option<Message> {
    Message::from_serialize(reply).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_typed() -> impl Strategy<Value = ChatCompletionRequestMessage> {
        let text = "[a-z\\n\"\\\\ä]{1,6}";
        prop_oneof![
            text.prop_map(|text| json!({"role": "user", "content": text})),
            text.prop_map(|text| json!({"role": "user", "content": [{"type": "text", "text": text}]})),
            text.prop_map(|text| json!({"role": "system", "content": text, "name": "n"})),
            text.prop_map(|text| json!({"role": "assistant", "content": text, "refusal": text})),
            text.prop_map(|text| json!({"role": "assistant", "tool_calls":
                [{"id": text, "type": "function", "function": {"name": "f", "arguments": text}}]})),
            text.prop_map(|text| json!({"role": "tool", "tool_call_id": "x", "content": text})),
            text.prop_map(|text| json!({"role": "function", "name": "f", "content": text})),
        ]
        .prop_map(|json| serde_json::from_value(json).unwrap())
    }

    proptest! {
        #[test]
        fn typed_messages_are_unchanged_after_conversion_to_the_log_and_back(messages in prop::collection::vec(any_typed(), 0..6)) {
            let converted = to_request_messages(&from_request_messages(&messages));
            prop_assert_eq!(converted, Converted { messages, downgraded: 0 });
        }

        #[test]
        fn any_message_of_a_log_is_converted_or_counted(json in "\\{\"role\":\"(user|assistant|tool|x)\",\"(content|refusal|y)\":(1|null|\"a\"|\\[\\{\\}\\])\\}") {
            let message = Message::from_json(json).unwrap();
            let converted = to_request_messages([&message]);
            prop_assert!(converted.messages.len() == 1 || converted.downgraded == 1);
        }
    }
}
