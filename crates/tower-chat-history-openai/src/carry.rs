//! The fields without which a provider refuses tool calls, and which async-openai's types cannot carry. The rules are
//! those of November 2026; `docs/providers.md` lists them.

use tower_chat_history::{Message, Role};

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
    /// True if the input answers calls in the window.
    pub(crate) continues: bool,
}

impl Window<'_> {
    /// Returns an error if the provider would refuse the window without the fields that the types cannot carry.
    pub(crate) fn check(&self, provider: Option<&str>) -> Result<(), CannotCarry> {
        let Some((provider, rule)) = provider.and_then(|name| Some((name, rule(name)?))) else { return Ok(()) };
        let messages = if rule == Rule::ReasoningContent { self.messages } else { self.current_turn() };
        let asking = messages.iter().filter(|message| message.has_unknown_fields() && !message.tool_calls().is_empty());
        let mut fields = asking.filter_map(|message| self.required(rule, message));
        fields.next().map_or(Ok(()), |field| Err(CannotCarry { provider: provider.to_owned(), field }))
    }

    /// Returns the messages after the last question, if the input continues their turn.
    fn current_turn(&self) -> &[Message] {
        if !self.continues {
            return &[];
        }
        let question = self.messages.iter().rposition(|message| *message.role() == Role::User);
        &self.messages[question.map_or(0, |question| question + 1)..]
    }

    /// Returns the field that the provider requires of a message with calls, if the message has it.
    fn required(&self, rule: Rule, message: &Message) -> Option<&'static str> {
        let has =
            |name: &str| message.fields().is_ok_and(|fields| fields.get(name).is_some_and(|json| json.get() != "null"));
        let bound = message.bound();
        match rule {
            Rule::ReasoningContent => has("reasoning_content").then_some("reasoning_content"),
            Rule::Signature => (bound.to_origin && checks_signatures(self.model)).then_some("extra_content"),
            Rule::SignedReasoning if !bound.can_be_removed() => None,
            Rule::SignedReasoning => {
                // LiteLLM repeats a signature of Google in the id of the call, which the types carry.
                let mut known = ["reasoning_details", "thinking_blocks"].into_iter();
                known.find(|name| has(name))
            }
        }
    }
}

/// A rule of a provider for messages with tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// `reasoning_content` must be sent back with all calls, even if it is empty.
    ReasoningContent,
    /// The signature of the current turn's calls must be sent back.
    Signature,
    /// The signed reasoning of the current turn's calls must be sent back.
    SignedReasoning,
}

/// Returns the rule of a provider, by its name in OpenTelemetry or its usual name.
fn rule(provider: &str) -> Option<Rule> {
    match provider.to_ascii_lowercase().as_str() {
        "deepseek" | "moonshot" | "moonshotai" | "moonshot_ai" | "kimi" => Some(Rule::ReasoningContent),
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
        let checked = Window { messages, model, continues }.check(Some(provider));
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
    fn nothing_is_required_by_an_unknown_provider() {
        let window = round(&json!({"reasoning_content": ""}), &json!({}));
        assert_eq!(Window { messages: &window, model: "m", continues: true }.check(None), Ok(()));
    }

    #[test]
    fn the_error_names_the_integration_that_carries_the_field() {
        let error = CannotCarry { provider: "deepseek".into(), field: "reasoning_content" }.to_string();
        assert!(error.contains("deepseek") && error.contains("reasoning_content"), "{error}");
        assert!(error.contains("client::OpenAiHistory"), "{error}");
    }
}
