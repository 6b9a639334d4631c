//! The fields without which a provider refuses tool calls, and which async-openai's types cannot carry. The rules are
//! those of November 2026; `docs/provider-fields.md` lists them.
//!
//! # Decisions
//!
//! - **A loss that the provider refuses is an error before the call** (`CannotCarry`). For other providers the field is
//!   left out and reported, because its loss is harmless.

use async_openai::types::chat::ChatCompletionRequestMessage;
use serde::Deserialize;
use tower_chat_history::{Message, Role, dialect::ChatCompletions};

/// The error for a call whose prompt has tool calls with a field that their provider requires and async-openai's types
/// cannot carry. The provider would refuse the request.
///
/// The client integration (`client::OpenAiHistory`, feature `client`) sends such messages as they are stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{provider} refuses tool calls without their {field}, which async-openai's types cannot carry; use the client \
     integration for this conversation: client::OpenAiHistory (feature \"client\")"
)]
pub struct CannotCarry {
    provider: String,
    field: &'static str,
}

impl CannotCarry {
    /// Returns the provider: the one that is called, or, if it is not known, the one that made the newest reply.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns the name of the field, such as `reasoning_content`.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        self.field
    }
}

/// A prompt that the types are about to carry.
pub(crate) struct Window<'a> {
    pub(crate) messages: &'a [Message],
    /// The model of the request.
    pub(crate) model: &'a str,
    pub(crate) input: Input,
}

/// The messages of a request after its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Only results of calls in the window, or nothing, if the window has the results.
    Results,
    /// A user message, which begins a turn.
    Question,
    /// Other messages.
    Other,
}

impl Input {
    pub(crate) fn of(messages: &[ChatCompletionRequestMessage]) -> Self {
        if messages.iter().any(|message| matches!(message, ChatCompletionRequestMessage::User(_))) {
            Self::Question
        } else if messages.iter().all(|message| matches!(message, ChatCompletionRequestMessage::Tool(_))) {
            Self::Results
        } else {
            Self::Other
        }
    }
}

impl Window<'_> {
    /// Returns an error if the provider would refuse the window without the fields that the types cannot carry.
    pub(crate) fn check(&self, provider: Option<&str>) -> Result<(), CannotCarry> {
        let Some(provider) = provider else { return Ok(()) };
        let Some(rule) = rule(provider) else { return Ok(()) };

        let field = match rule {
            Rule::ReasoningContent => {
                first(self.messages, |message| has(message, "reasoning_content").then_some("reasoning_content"))
            }
            Rule::Signature => self.signed_by_google(|message| message.bound().to_origin.then_some("extra_content")),
            Rule::SignedReasoning => {
                first(self.open_round(), thinking).or_else(|| self.signed_by_google(google_details))
            }
        };
        match field {
            Some(field) => Err(CannotCarry { provider: provider.to_owned(), field }),
            None => Ok(()),
        }
    }

    /// Returns the field that Google requires of a call in the current turn, if its model checks signatures.
    fn signed_by_google(&self, find: impl Fn(&Message) -> Option<&'static str>) -> Option<&'static str> {
        if checks_signatures(self.model) { first(self.current_turn(), find) } else { None }
    }

    /// Returns the messages after the last question. They are none if the input has a question.
    fn current_turn(&self) -> &[Message] {
        if self.input == Input::Question {
            return &[];
        }
        let question = self.messages.iter().rposition(|message| *message.role() == Role::User);
        &self.messages[question.map_or(0, |question| question + 1)..]
    }

    /// Returns the reply whose results end the prompt.
    fn open_round(&self) -> &[Message] {
        let reply = self.messages.iter().rposition(|message| !message.is_tool_result());
        match reply {
            Some(reply) if self.input == Input::Results => &self.messages[reply..=reply],
            _ => &[],
        }
    }
}

/// Returns the first field that is found in a message with calls.
fn first(messages: &[Message], find: impl Fn(&Message) -> Option<&'static str>) -> Option<&'static str> {
    let mut with_calls =
        messages.iter().filter(|message| message.has_unknown_fields() && !message.tool_calls().is_empty());
    with_calls.find_map(find)
}

fn has(message: &Message, name: &str) -> bool {
    message.fields().is_ok_and(|fields| fields.get(name).is_some_and(|json| json.get() != "null"))
}

/// Returns the field of a message with thinking that Anthropic signed. LiteLLM makes `thinking_blocks` of Google's
/// signatures, too, but it reads them from the ids of the calls, which the types carry.
fn thinking(message: &Message) -> Option<&'static str> {
    if !message.bound().to_prefix || message.tool_calls().iter().any(|call| call.id().contains("__thought__")) {
        return None;
    }
    ["reasoning_details", "thinking_blocks"].into_iter().find(|name| has(message, name))
}

/// Returns the field of OpenRouter with Google's signatures, if the message has one. Data that other providers
/// encrypted may be missing, such as that of OpenAI and xAI.
fn google_details(message: &Message) -> Option<&'static str> {
    #[derive(Deserialize)]
    struct Detail {
        format: Option<String>,
    }
    if !message.bound().to_origin {
        return None;
    }

    let fields = message.fields().ok()?;
    let details: Vec<Detail> = serde_json::from_str(fields.get("reasoning_details")?.get()).ok()?;
    let mut formats = details.iter().filter_map(|detail| detail.format.as_deref());
    formats.any(|format| format.starts_with("google")).then_some("reasoning_details")
}

/// A rule of a provider for messages with tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// `reasoning_content` must be sent back with all calls, even if it is empty.
    ReasoningContent,
    /// The signature of the current turn's calls must be sent back.
    Signature,
    /// If the prompt ends with results, thinking that Anthropic signed must be sent back with their calls. Reasoning
    /// that Google signed must be sent back with all calls of the current turn.
    SignedReasoning,
}

/// Returns the rule of a provider, by its name in OpenTelemetry or its usual name.
fn rule(provider: &str) -> Option<Rule> {
    match provider.to_ascii_lowercase().as_str() {
        name if ChatCompletions::requires_reasoning_content(name) => Some(Rule::ReasoningContent),
        "gcp.gemini" | "gcp.vertex_ai" | "gcp.gen_ai" | "gemini" | "vertex_ai" | "google" => Some(Rule::Signature),
        "openrouter" | "litellm" | "anthropic" | "aws.bedrock" => Some(Rule::SignedReasoning),
        _ => None,
    }
}

/// Returns `true` if a model of Google requires signatures: all since Gemini 3 do.
fn checks_signatures(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !["gemini-1", "gemini-2"].iter().any(|old| name.starts_with(old))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn call(more: &Value) -> Value {
        let mut call = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    }

    /// Returns a question, a reply with a call and these fields, and the result.
    fn round(reply: &Value, of_call: &Value) -> Vec<Message> {
        let mut message = json!({"role": "assistant", "content": null, "tool_calls": [call(of_call)]});
        message.as_object_mut().unwrap().extend(reply.as_object().unwrap().clone());
        vec![Message::user("u"), Message::try_from(message).unwrap(), Message::tool("x", "r")]
    }

    fn check(messages: &[Message], provider: &str, model: &str, continues: bool) -> Option<&'static str> {
        let input = if continues { Input::Results } else { Input::Question };
        let checked = Window { messages, model, input }.check(Some(provider));
        checked.err().map(|error| {
            assert_eq!(error.provider(), provider);
            error.field()
        })
    }

    #[test]
    fn reasoning_content_of_all_calls_is_required() {
        for text in ["", "hm"] {
            let window =
                [round(&json!({"reasoning_content": text}), &json!({})), vec![Message::assistant("a")]].concat();
            for (provider, continues) in [("deepseek", true), ("DeepSeek", false), ("moonshot", true)] {
                assert_eq!(check(&window, provider, "m", continues), Some("reasoning_content"));
            }
            assert_eq!(check(&window, "groq", "m", true), None);
            assert_eq!(check(&window, "gcp.gemini", "m", true), None);
        }
        let without_calls = json!({"role": "assistant", "content": "a", "reasoning_content": "hm"});
        let without_calls = [Message::user("u"), Message::try_from(without_calls).unwrap()];
        assert_eq!(check(&without_calls, "deepseek", "m", false), None);
        assert_eq!(check(&round(&json!({"reasoning_content": null}), &json!({})), "deepseek", "m", true), None);
    }

    #[test]
    fn signatures_of_the_current_turn_are_required_since_gemini_3() {
        let signed = round(&json!({}), &json!({"extra_content": {"google": {"thought_signature": "s"}}}));
        for provider in ["gcp.gemini", "gcp.vertex_ai", "gemini"] {
            assert_eq!(check(&signed, provider, "gemini-3-pro", true), Some("extra_content"));
        }
        assert_eq!(check(&signed, "gemini", "models/gemini-2.5-pro", true), None);
        assert_eq!(check(&signed, "gemini", "gemini-3-pro", false), None, "the next question begins another turn");
        let next = [signed.clone(), round(&json!({}), &json!({}))].concat();
        assert_eq!(check(&next, "gemini", "gemini-3-pro", true), None, "an earlier turn");
        assert_eq!(check(&signed, "openai", "gemini-3-pro", true), None);
    }

    #[test]
    fn signed_reasoning_of_the_current_turn_is_required_by_gateways_to_anthropic() {
        let detail = json!({"type": "reasoning.text", "text": "t", "signature": "s", "format": "anthropic-claude-v1"});
        let openrouter = round(&json!({"reasoning_details": [detail]}), &json!({}));
        let block = json!({"type": "thinking", "thinking": "t", "signature": "s"});
        let litellm = round(&json!({"thinking_blocks": [block], "reasoning_content": "t"}), &json!({}));
        assert_eq!(check(&openrouter, "openrouter", "m", true), Some("reasoning_details"));
        assert_eq!(check(&litellm, "litellm", "m", true), Some("thinking_blocks"));
        assert_eq!(check(&litellm, "litellm", "m", false), None);
        let unsigned = json!({"type": "reasoning.text", "text": "t"});
        assert_eq!(check(&round(&json!({"reasoning_details": [unsigned]}), &json!({})), "openrouter", "m", true), None);
        let google = round(&json!({}), &json!({"provider_specific_fields": {"thought_signature": "s"}}));
        assert_eq!(check(&google, "litellm", "m", true), None, "the id of the call has the signature, too");
    }

    #[test]
    fn thinking_is_required_only_in_the_reply_whose_results_end_the_prompt() {
        let block = json!({"type": "thinking", "thinking": "t", "signature": "s"});
        let thinking = round(&json!({"thinking_blocks": [block]}), &json!({}));
        let unsigned = round(&json!({}), &json!({}));
        assert_eq!(check(&[&thinking[..], &unsigned[1..]].concat(), "litellm", "m", true), None, "an earlier round");
        let both = [&unsigned[..], &thinking[1..]].concat();
        assert_eq!(check(&both, "litellm", "m", true), Some("thinking_blocks"));
        assert_eq!(check(&both[..both.len() - 1], "litellm", "m", true), Some("thinking_blocks"), "no result");
        let other = Window { messages: &thinking, model: "m", input: Input::Other }.check(Some("litellm"));
        assert_eq!(other, Ok(()), "an instruction ends the round");
    }

    #[test]
    fn of_what_others_encrypted_only_googles_signatures_are_required_by_openrouter() {
        let details = |format: &str| {
            let detail = json!({"type": "reasoning.encrypted", "data": "d", "id": "x", "format": format});
            round(&json!({"reasoning_details": [detail]}), &json!({}))
        };
        for format in ["openai-responses-v1", "azure-openai-responses-v1", "xai-responses-v1"] {
            assert_eq!(check(&details(format), "openrouter", "m", true), None, "{format}");
        }
        let google = details("google-gemini-v1");
        assert_eq!(check(&google, "openrouter", "google/gemini-3-pro", true), Some("reasoning_details"));
        assert_eq!(check(&google, "openrouter", "google/gemini-2.5-pro", true), None);
        assert_eq!(check(&google, "openrouter", "google/gemini-3-pro", false), None, "the next question");
        let later = [&google[..], &round(&json!({}), &json!({}))[1..]].concat();
        assert_eq!(check(&later, "openrouter", "google/gemini-3-pro", true), Some("reasoning_details"), "same turn");
    }

    #[test]
    fn the_id_of_a_call_carries_googles_signature_behind_litellm() {
        let block = json!({"type": "thinking", "thinking": "t", "signature": "s"});
        let function = json!({"name": "f", "arguments": "{}"});
        let call = json!({"id": "x__thought__s", "type": "function", "function": function});
        let reply = json!({"role": "assistant", "thinking_blocks": [block], "tool_calls": [call]});
        let window = [Message::user("u"), Message::try_from(reply).unwrap()];
        assert_eq!(check(&window, "litellm", "gemini-3-pro", true), None);
    }

    #[test]
    fn the_input_is_a_question_if_it_has_a_user_message() {
        let message = |json: Value| serde_json::from_value::<ChatCompletionRequestMessage>(json).unwrap();
        let result = message(json!({"role": "tool", "tool_call_id": "x", "content": "r"}));
        let question = message(json!({"role": "user", "content": "u"}));
        let instruction = message(json!({"role": "developer", "content": "d"}));
        assert_eq!(Input::of(&[]), Input::Results);
        assert_eq!(Input::of(&[result.clone(), result.clone()]), Input::Results);
        assert_eq!(Input::of(&[result.clone(), question]), Input::Question);
        assert_eq!(Input::of(&[result, instruction]), Input::Other);
    }

    #[test]
    fn nothing_is_required_by_an_unknown_provider() {
        let window = round(&json!({"reasoning_content": ""}), &json!({}));
        assert_eq!(Window { messages: &window, model: "m", input: Input::Results }.check(None), Ok(()));
    }

    #[test]
    fn the_error_names_the_integration_that_carries_the_field() {
        let error = CannotCarry { provider: "deepseek".into(), field: "reasoning_content" }.to_string();
        assert!(error.contains("deepseek") && error.contains("reasoning_content"), "{error}");
        assert!(error.contains("client::OpenAiHistory"), "{error}");
    }
}
