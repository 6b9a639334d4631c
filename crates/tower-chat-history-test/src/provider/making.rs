//! The provider's fields of a reply.

use serde_json::{Map, Value, json};

use super::{
    ChatProvider, claude, deepseek, gemini, litellm, openrouter, prompt::Prompt, recorded::Recorded, thought::Thought,
};
use crate::{normal, pieces::pieces, signature::Before};

/// A provider with the prompt that it answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Making {
    provider: ChatProvider,
    recorded: Recorded,
    thinks: bool,
    before: Before,
}

/// The provider's fields of a reply.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Fields of the whole message.
    pub(crate) fields: Map<String, Value>,
    /// The same fields as the deltas of a stream.
    pub(crate) deltas: Vec<Value>,
    /// Further fields of the first calls.
    pub(crate) calls: Vec<Map<String, Value>>,
    /// `true` if a stream has each call as a whole and without index, and ends with `stop`.
    pub(crate) whole_calls: bool,
}

impl Making {
    /// Prepares the reply to a prompt.
    pub(crate) fn new(provider: ChatProvider, recorded: &Recorded, prompt: &Prompt<'_>) -> Self {
        let before = match provider {
            ChatProvider::OpenRouter => claude::before_reply(&openrouter::FIELD, prompt),
            ChatProvider::LiteLlm => claude::before_reply(&litellm::FIELD, prompt),
            ChatProvider::OpenAi | ChatProvider::DeepSeek | ChatProvider::Gemini => Before::default(),
        };
        Self { provider, recorded: recorded.clone(), thinks: prompt.thinks, before }
    }

    /// Returns the fields for a reply with these thoughts, and records that it has them. `message` is the message
    /// without these fields. The text of a delta has at most `chars` characters.
    pub(crate) fn say(&self, thoughts: &[Thought], message: &Value, chars: usize) -> Said {
        match self.provider {
            ChatProvider::OpenAi => Said::default(),
            ChatProvider::DeepSeek => self.deepseek(thoughts, message, chars),
            ChatProvider::Gemini => gemini_calls(message),
            ChatProvider::OpenRouter | ChatProvider::LiteLlm if thoughts.is_empty() => Said::default(),
            ChatProvider::OpenRouter => self.claude(thoughts, message, |signed| openrouter::said(signed, chars)),
            ChatProvider::LiteLlm => self.claude(thoughts, message, |signed| litellm::said(signed, chars)),
        }
    }

    fn deepseek(&self, thoughts: &[Thought], message: &Value, chars: usize) -> Said {
        if !self.thinks {
            return Said::default();
        }
        self.recorded.add(message, 0);
        let text: String = thoughts.iter().map(Thought::text).collect();
        let delta = |text: &str| json!({ deepseek::FIELD: text });
        let deltas = match pieces(&text, chars) {
            pieces if pieces.is_empty() => vec![delta("")],
            pieces => pieces.iter().map(|piece| delta(piece)).collect(),
        };
        Said { fields: Map::from_iter([(deepseek::FIELD.into(), text.into())]), deltas, ..Said::default() }
    }

    fn claude(&self, thoughts: &[Thought], message: &Value, said: impl Fn(&[(&Thought, String)]) -> Said) -> Said {
        let signed = claude::signed(&self.before, thoughts);
        self.recorded.add(message, signed.len());
        said(&signed)
    }
}

fn gemini_calls(message: &Value) -> Said {
    let first = normal::calls(message).first();
    let fields = |call| Map::from_iter([("extra_content".to_owned(), gemini::extra_content(call))]);
    Said { calls: first.map(fields).into_iter().collect(), whole_calls: true, ..Said::default() }
}
