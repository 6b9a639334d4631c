//! The reply in a JSON response.

use serde_json::{Map, Value};
use tower_chat_history_core::{Message, Usage, nested};

use crate::Reply;

/// The first choice. A response without one, or in another shape, has no message: an answer that was paid for is handed on
/// whatever it looks like. One with too many levels to be copied has no message either.
pub(crate) fn of(response: &Value) -> Reply {
    let mut reply = Reply::default();
    if nested::is_too_deep(response) {
        return reply;
    }
    let choices = response.get("choices").and_then(Value::as_array);
    // Of those without an index, the first one in the list.
    let index = |choice: &&Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0);
    if let Some(choice) = choices.into_iter().flatten().min_by_key(index) {
        reply.message =
            choice.get("message").and_then(Value::as_object).and_then(|message| as_message(message.clone()));
        reply.finish_reason = text(choice, "finish_reason");
    }
    reply.model = text(response, "model");
    reply.usage = usage(response);
    reply
}

/// The message with these fields. Some compatible providers leave out the role, of which there is only one here.
pub(super) fn as_message(mut fields: Map<String, Value>) -> Option<Message> {
    if !fields.get("role").is_some_and(Value::is_string) {
        fields.insert("role".to_owned(), "assistant".into());
    }
    Message::from_serialize(&fields).ok()
}

/// A field that says something.
pub(super) fn text(value: &Value, field: &str) -> Option<String> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

pub(super) fn usage(value: &Value) -> Option<Usage> {
    let usage = value.get("usage")?;
    let tokens = |field: &str| usage.get(field).and_then(Value::as_u64);
    let mut reported = Usage::new(tokens("prompt_tokens")?, tokens("completion_tokens").unwrap_or(0));
    reported.cached_input_tokens = usage.pointer("/prompt_tokens_details/cached_tokens").and_then(Value::as_u64);
    Some(reported)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_choice_by_index_is_history() {
        let reply = of(&json!({
            "model": "m",
            "choices": [
                {"index": 1, "message": {"role": "assistant", "content": "other"}, "finish_reason": "stop"},
                {"index": 0, "message": {"role": "assistant", "content": "first", "x": [1]}, "finish_reason": "length"},
            ],
            "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        }));
        assert_eq!(
            serde_json::from_str::<Value>(reply.message.unwrap().json()).unwrap(),
            json!({"role": "assistant", "content": "first", "x": [1]})
        );
        assert_eq!((reply.model.as_deref(), reply.finish_reason.as_deref()), (Some("m"), Some("length")));
        let usage = reply.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_input_tokens), (7, 2, Some(4)));
    }

    #[test]
    fn a_message_without_a_role_is_the_assistants() {
        let reply = of(&json!({"choices": [{"message": {"content": "a"}}]}));
        assert_eq!(reply.message.unwrap().json(), r#"{"content":"a","role":"assistant"}"#);
    }

    #[test]
    fn another_shape_has_no_reply() {
        for response in
            [json!(null), json!({"choices": []}), json!({"choices": 1}), json!({"choices": [{"message": 1}]})]
        {
            assert_eq!(of(&response), Reply::default());
        }
    }
}
