//! Providers whose chat completions have rules of their own.

mod claude;
mod deepseek;
mod gemini;
mod prompt;
mod refusal;

#[cfg(any(feature = "openai", feature = "server"))]
use serde_json::Value;
use tower_chat_history_core::{Message, json};

use self::prompt::Body;
#[cfg(feature = "server")]
pub(crate) use self::prompt::thinks;
pub(crate) use self::prompt::{Prompt, ReplyRecords};
#[cfg(any(feature = "openai", feature = "server"))]
pub(crate) use self::prompt::{ProviderFields, Thought};
pub use self::refusal::{ProviderRefusal, RefusalReason};
use crate::chat_rules::{RuleViolation, check_chat_rules, check_ids};
#[cfg(any(feature = "openai", feature = "server"))]
use crate::signature::Before;

/// A provider of chat completions, by the rules that it adds to the [chat rules](check_chat_rules).
///
/// A mock with a provider ([`Replies::provider`](crate::Replies::provider)) refuses a request that the provider
/// refuses, with status 400 and the provider's body and wording. It also adds the provider's fields to its replies,
/// with signatures that it accepts later. [`check`](Self::check) checks a request without a mock. The [crate's
/// page](crate#providers) has a table and examples.
///
/// Each provider also refuses violations of the chat rules. The wording is the provider's own for results without a
/// call and calls without a result, and OpenAI's for the others.
///
/// # Example
///
/// ```
/// use tower_chat_history_test::{ChatProvider, RefusalReason};
///
/// let body = r#"{"model":"deepseek-v4-pro","messages":[
///     {"role":"user","content":"Is it warm?"},
///     {"role":"assistant","tool_calls":[
///         {"id":"call_1","type":"function","function":{"name":"weather","arguments":"{}"}}]},
///     {"role":"tool","tool_call_id":"call_1","content":"12 degrees"}]}"#;
///
/// let refusal = ChatProvider::DeepSeek.check(body).unwrap_err();
/// assert_eq!(refusal.reason(), &RefusalReason::MissingReasoning { position: 1 });
/// assert!(refusal.to_string().starts_with("The `reasoning_content` in the thinking mode must be passed back"));
/// assert_eq!(ChatProvider::OpenAi.check(body), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChatProvider {
    /// OpenAI. Its replies have no reasoning.
    ///
    /// Besides violations of the [chat rules](check_chat_rules), it refuses ids of calls with more than 64 characters,
    /// and two calls of one message with the same id, each with a result. Other providers accept both. These rules are
    /// as of November 2026. Until 2025, ids had at most 40 characters.
    ///
    /// Sources: jin-bo/agentao#321, with live requests (September 2026), and agno-agi/agno#5116.
    #[default]
    OpenAi,
    /// DeepSeek's V4 models.
    ///
    /// In thinking mode, each reply has `reasoning_content`, which can be empty. Each assistant message with tool calls
    /// must have this field in all later requests. A request with `"thinking":{"type":"disabled"}` is not in thinking
    /// mode. Reasoning of replies without calls may be left out.
    ///
    /// Sources: DeepSeek's guide to the thinking mode (November 2026), and the wording in issues from April to
    /// September 2026. Some of these issues report that replies without calls need the field as well. The guide says
    /// that they do not.
    DeepSeek,
    /// Gemini's endpoint for clients of OpenAI, with models since Gemini 3.
    ///
    /// The first call of each reply has a signature in `extra_content.google.thought_signature`. In the current turn,
    /// which begins with the last user message, this signature must be sent back with its call. Signatures in earlier
    /// turns are not checked. `skip_thought_signature_validator` is accepted in place of a signature.
    ///
    /// In a stream, each call is whole and has no `index`, and the finish reason is `stop`. async-openai returns an
    /// error for such a call, and cannot read Gemini's errors, which are in a list.
    ///
    /// Sources: Google's page on thought signatures (November 2026), the wording in issues until August 2026. Vertex AI
    /// has other wordings.
    Gemini,
    /// OpenRouter, with a model of Anthropic that thinks.
    ///
    /// Thinking is in `reasoning_details`. In a stream, it comes in fragments with one `index`, and the last fragment
    /// has the signature and no text.
    ///
    /// A signature is bound to the tools and to all messages before it (`cache_control` does not count), and to the
    /// thinking before it. After another prompt, it is refused. Thinking may be left out, except:
    ///
    /// - between other thinking, because the later signatures then do not fit;
    /// - in the last assistant message, if the request ends with the results of its calls.
    ///
    /// A signature that is malformed, or that is not that of its text, is refused everywhere. async-openai cannot read
    /// the error, because its code is a number.
    ///
    /// Sources: Anthropic's pages on preserved thinking (November 2026: models since Claude Fable 5.1, accounts since
    /// August 31, 2026) and on thinking in tool workflows, and OpenRouter's errors in issues of March and June 2026.
    /// The wording for a round without its thinking is that of issues until January 2026. It is an assumption that
    /// OpenRouter passes on Anthropic's wording for another prompt as it does for other errors.
    OpenRouter,
    /// LiteLLM's proxy, with a model of Anthropic that thinks.
    ///
    /// Thinking is in `thinking_blocks`, and its text also in `reasoning_content`. In a stream, each fragment is an
    /// element without `index`. Its signature is empty, except that of the last fragment, which has no text. A client
    /// has to join the fragments. The rules are those of [`OpenRouter`](Self::OpenRouter).
    ///
    /// Sources: LiteLLM's pages on reasoning and preserved thinking (October 2026), and its issues until August 2026.
    /// With several deployments, LiteLLM appends their names to the message. The mock does not.
    LiteLlm,
}

impl ChatProvider {
    /// Checks the body of a request, such as [`RecordedRequest::body`](crate::RecordedRequest::body).
    ///
    /// A mock knows which of its replies had reasoning. This function does not, so every reply with tool calls counts
    /// as one that had reasoning. Only signatures of this crate's mocks are accepted.
    ///
    /// # Errors
    ///
    /// Returns the first reason why the provider refuses the request. A violation of the chat rules comes first.
    pub fn check(self, body: &str) -> Result<(), ProviderRefusal> {
        let body = Body::read(body).ok_or_else(|| ProviderRefusal::unreadable(self))?;
        self.check_prompt(&body.prompt(), None)
    }

    /// Checks a prompt. `records` has the replies that had reasoning, or is `None` if all of them had.
    pub(crate) fn check_prompt(
        self,
        prompt: &Prompt<'_>,
        records: Option<&ReplyRecords>,
    ) -> Result<(), ProviderRefusal> {
        if prompt.messages.iter().any(|message| json::without_lone_surrogates(message.json()).is_some()) {
            return Err(ProviderRefusal::unreadable(self));
        }
        let mut obeyed = check_chat_rules(prompt.messages);
        if obeyed.is_ok() && self == Self::OpenAi {
            obeyed = check_ids(prompt.messages);
        }
        if let Err(violation) = obeyed {
            let message = self.wording(&violation, prompt.messages);
            return Err(ProviderRefusal::new(self, RefusalReason::ChatRules(violation), message));
        }

        match self {
            Self::OpenAi => Ok(()),
            Self::DeepSeek => deepseek::check(prompt, records),
            Self::Gemini => gemini::check(prompt),
            Self::OpenRouter => claude::check(self, &claude::OPENROUTER, prompt, records),
            Self::LiteLlm => claude::check(self, &claude::LITELLM, prompt, records),
        }
    }

    /// Returns the wording for a violation of the chat rules. It is OpenAI's if the provider's own is not known.
    fn wording(self, violation: &RuleViolation, messages: &[Message]) -> String {
        let own = match self {
            Self::OpenAi => None,
            Self::DeepSeek => deepseek::wording(violation),
            Self::Gemini => gemini::wording(violation),
            Self::OpenRouter => claude::wording(&claude::OPENROUTER, violation, messages),
            Self::LiteLlm => claude::wording(&claude::LITELLM, violation, messages),
        };
        own.unwrap_or_else(|| violation.to_string())
    }
}

/// A provider with the prompt that it answers. It makes the provider's fields of the reply.
#[cfg(any(feature = "openai", feature = "server"))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Signer {
    provider: ChatProvider,
    records: ReplyRecords,
    thinks: bool,
    before: Before,
}

#[cfg(any(feature = "openai", feature = "server"))]
impl Signer {
    /// Prepares the reply to a prompt.
    pub(crate) fn new(provider: ChatProvider, records: &ReplyRecords, prompt: &Prompt<'_>) -> Self {
        let before = match provider {
            ChatProvider::OpenRouter => claude::before_reply(&claude::OPENROUTER, prompt),
            ChatProvider::LiteLlm => claude::before_reply(&claude::LITELLM, prompt),
            ChatProvider::OpenAi | ChatProvider::DeepSeek | ChatProvider::Gemini => Before::default(),
        };
        Self { provider, records: records.clone(), thinks: prompt.thinks, before }
    }

    /// Returns the fields for a reply with these thoughts, and records that it has them. `message` is the message
    /// without these fields. The text of a delta has at most `chars` characters.
    pub(crate) fn fields(&self, thoughts: &[Thought], message: &Value, chars: usize) -> ProviderFields {
        match self.provider {
            ChatProvider::OpenAi => ProviderFields::default(),
            ChatProvider::DeepSeek if !self.thinks => ProviderFields::default(),
            ChatProvider::DeepSeek => {
                self.records.add(message, 0);
                deepseek::fields(thoughts, chars)
            }
            ChatProvider::Gemini => gemini::fields(message),
            ChatProvider::OpenRouter | ChatProvider::LiteLlm if thoughts.is_empty() => ProviderFields::default(),
            ChatProvider::OpenRouter => claude::openrouter_fields(&self.sign(thoughts, message), chars),
            ChatProvider::LiteLlm => claude::litellm_fields(&self.sign(thoughts, message), chars),
        }
    }

    /// Signs the thoughts, and records their number.
    fn sign<'t>(&self, thoughts: &'t [Thought], message: &Value) -> Vec<(&'t Thought, String)> {
        let signed = claude::signed(&self.before, thoughts);
        self.records.add(message, signed.len());
        signed
    }
}
