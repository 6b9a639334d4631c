//! Chat completions, the format of OpenAI's first chat API, which most providers offer.

mod content;
mod content_part;
mod element;
mod express;
mod foreign;
mod index;
mod media_part;
mod origin;
mod parts;
mod plain;
mod reasoning;
#[cfg(test)]
mod reasoning_tests;
mod statements;
mod unbound;

use serde_json::Value;

pub(super) use self::origin::reads;
pub use self::{content::Content, foreign::ForeignShape};
pub(crate) use self::{
    index::{of_plain as plain_index, sound_calls, tool as tool_index},
    plain::read_at_start as plain_index_at_start,
};
use super::{CallId, Dialect, Expressed, Index, LeftOut, Part, Statement, cache_control};
use crate::{
    digest::Digest,
    message::{Message, MessageError},
    provenance::Origin,
    role::Role,
};

/// The result of a call that was abandoned. It is constant, so that it never changes a part of a prompt that was
/// already sent.
const ABANDONED: &str = "[no result: this call was abandoned]";

/// The number of levels at which `cache_control` occurs: in a message, a content part, a call, a tool and a function.
const CACHE_CONTROL_LEVELS: usize = 4;

/// The chat-completions format: messages with a `role`, whose calls and results have ids in one space.
///
/// Some providers sign or encrypt reasoning and require it in later requests. A reply with such fields is
/// [bound](Index::bound), as of November 2026:
///
/// | field | provider | bound to |
/// |---|---|---|
/// | `extra_content` of a call or a message, with a `thought_signature` | Google | its origin |
/// | `reasoning_details` with a signature or encrypted data | OpenRouter | its origin; Anthropic's also to its prompt |
/// | `thinking_blocks` with a signature or encrypted data | LiteLLM | its prompt and its origin |
/// | `provider_specific_fields` with a signature, or with a copy of the blocks | LiteLLM | as what it contains |
///
/// `reasoning_content` is bound to nothing: DeepSeek and Moonshot require it, and it is never left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChatCompletions;

impl ChatCompletions {
    /// The name of this dialect.
    pub const NAME: &'static str = "chat_completions";

    /// Returns `true` if this provider refuses tool calls without the field `reasoning_content`, as DeepSeek and
    /// Moonshot do (as of November 2026). The field may be empty. The provider is named as in OpenTelemetry, or by one
    /// of its usual names, in any case of letters.
    #[must_use]
    pub fn requires_reasoning_content(provider: &str) -> bool {
        let name = provider.to_ascii_lowercase();
        matches!(&*name, "deepseek" | "moonshot" | "moonshotai" | "moonshot_ai" | "kimi")
    }
}

impl Dialect for ChatCompletions {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        index::parse(json)
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        parts::visit(message, visit);
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        plain_json(role, text)
    }

    fn abandoned(&self, call: &CallId) -> String {
        tool_json(call.as_str(), ABANDONED)
    }

    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        let cleared = message.answers().first().is_some_and(clears);
        if !cleared {
            return None;
        }
        // Replacing JSON by JSON leaves a valid message of this dialect.
        message.with_text(placeholder).ok().map(|message| message.json().to_owned())
    }

    /// Returns the message with only the valid entries of `tool_calls`, and without the field if no call is left.
    fn sendable(&self, message: &Message) -> String {
        message.with_sound_calls().unwrap_or_else(|_| message.clone()).json().to_owned()
    }

    /// Returns the message without signed and encrypted reasoning. Reasoning without a signature stays, except the
    /// text that repeats the signed one.
    fn unbound(&self, message: &Message) -> Option<String> {
        unbound::unbound(message)
    }

    /// Returns the digest of the JSON without `cache_control`, because providers do not compare it.
    fn digest(&self, json: &str) -> Digest {
        Digest::of(cache_control::without(json, CACHE_CONTROL_LEVELS).as_bytes())
    }

    fn statements<'m>(&self, message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
        statements::of(message, left_out)
    }

    fn express(&self, statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
        express::messages(statements, expressed)
    }

    /// Returns `true` if provider, route and account are the same, as far as they are known. If both models have a
    /// vendor in their name, such as `anthropic/`, the vendors must be the same, too. Words of a path, such as
    /// `models/`, are no vendors.
    fn reads(&self, made_by: &Origin, reader: &Origin) -> bool {
        origin::reads(made_by, reader)
    }
}

/// Returns the JSON of a message with this text.
pub(crate) fn plain_json(role: &Role, text: &str) -> String {
    let role = role.as_str();
    if plain::needs_no_escapes(text) {
        [r#"{"role":""#, role, r#"","content":""#, text, r#""}"#].concat()
    } else {
        [r#"{"role":""#, role, r#"","content":"#, &Value::from(text).to_string(), "}"].concat()
    }
}

/// Returns the JSON of a result with this text.
pub(crate) fn tool_json(call_id: &str, text: &str) -> String {
    format!(r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#, Value::from(call_id), Value::from(text))
}
