//! Finding the reply in a whole response.

use serde::Deserialize;
use serde_json::value::RawValue;
use tower_chat_history::{Message, Reply, Usage};

#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
    /// Some gateways tell here that the model failed.
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The reply of a response body: its first choice, verbatim. A body that is no chat completion has none, and neither has a
/// choice that failed.
pub(super) fn reply(body: &[u8]) -> Reply {
    let mut reply = Reply::default();
    let Ok(completion) = serde_json::from_slice::<Completion<'_>>(body) else { return reply };
    reply.model = completion.model.and_then(text);
    reply.usage = completion.usage.and_then(usage);
    if let Some(choice) = completion.choices.iter().min_by_key(|choice| choice.index.unwrap_or(0)) {
        reply.message = choice.message.filter(|_| choice.error.is_none()).and_then(message);
        reply.finish_reason = choice.finish_reason.and_then(text);
    }
    reply
}

/// The message as it came. Where a provider leaves the role out, it is added: without one it could not be sent back.
fn message(json: &RawValue) -> Option<Message> {
    let json = json.get();
    Message::from_json(json).ok().or_else(|| {
        let rest = json.strip_prefix('{')?;
        let separator = if rest.trim_start().starts_with('}') { "" } else { "," };
        let message = Message::from_json(format!(r#"{{"role":"assistant"{separator}{rest}"#)).ok()?;
        // A role that is there and no text is not made up for: the key would stand there twice.
        (!has_role(json)).then_some(message)
    })
}

fn has_role(json: &str) -> bool {
    #[derive(Deserialize)]
    struct Role<'a> {
        #[serde(borrow)]
        role: Option<&'a RawValue>,
    }
    serde_json::from_str::<Role<'_>>(json).map_or(true, |message| message.role.is_some())
}

/// A value's text, unless it is empty.
pub(super) fn text(json: &RawValue) -> Option<String> {
    serde_json::from_str::<String>(json.get()).ok().filter(|text| !text.is_empty())
}

/// What the provider reported. Null, as most chunks of a stream say, is nothing.
pub(super) fn usage(json: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Tokens {
        prompt_tokens: u64,
        #[serde(default)]
        completion_tokens: u64,
        prompt_tokens_details: Option<Details>,
    }
    #[derive(Deserialize)]
    struct Details {
        cached_tokens: Option<u64>,
    }
    let tokens: Tokens = serde_json::from_str(json.get()).ok()?;
    let mut usage = Usage::new(tokens.prompt_tokens, tokens.completion_tokens);
    usage.cached_input_tokens = tokens.prompt_tokens_details.and_then(|details| details.cached_tokens);
    Some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_choice_is_kept_byte_for_byte() {
        let message = r#"{ "role" : "assistant","content":null, "reasoning_content":"\u00e4", "x":1.50 }"#;
        let body = format!(
            r#"{{"choices":[{{"index":1,"message":{{"role":"assistant"}}}},{{"index":0,"message":{message},"finish_reason":"end_turn"}}],
            "model":"m","usage":{{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{{"cached_tokens":3}}}}}}"#
        );
        let reply = reply(body.as_bytes());
        assert_eq!(reply.message.unwrap().json(), message);
        assert_eq!((reply.model.as_deref(), reply.finish_reason.as_deref()), (Some("m"), Some("end_turn")));
        assert_eq!(reply.usage.unwrap().cached_input_tokens, Some(3));
    }

    #[test]
    fn what_is_no_chat_completion_has_no_reply() {
        for body in ["", "<html>", "{}", "[]", r#"{"choices":[]}"#, r#"{"choices":[{"message":null}]}"#, "\u{0}"] {
            assert_eq!(reply(body.as_bytes()).message, None, "{body}");
        }
        assert_eq!(reply(br#"{"choices":[{"message":{"role":null}}]}"#).message, None);
    }

    #[test]
    fn a_role_that_is_left_out_is_added() {
        let reply = reply(br#"{"choices":[{"message":{"content":"a"}}]}"#);
        assert_eq!(reply.message.unwrap().json(), r#"{"role":"assistant","content":"a"}"#);
    }
}
