//! The encodings, and the encoding of each model.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

/// The largest number of names of unknown models that are remembered, and the number of characters of each. Names may
/// come from callers, who must not be able to fill the memory or the log.
const MAX_NOTED: usize = 64;
const MAX_NOTED_CHARS: usize = 64;

/// The encodings of OpenAI's chat models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    O200k,
    Cl100k,
}

impl Encoding {
    pub(super) fn name(self) -> &'static Arc<str> {
        static O200K: LazyLock<Arc<str>> = LazyLock::new(|| "o200k_base".into());
        static CL100K: LazyLock<Arc<str>> = LazyLock::new(|| "cl100k_base".into());
        match self {
            Self::O200k => &O200K,
            Self::Cl100k => &CL100K,
        }
    }

    /// Returns the encoding of a model. For an unknown model, it returns `o200k_base`, the encoding of the newer
    /// models, and logs one warning.
    pub(super) fn for_model(model: &str) -> Self {
        static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        if let Some(encoding) = Self::of_known(model) {
            return encoding;
        }
        let model: String = model.chars().take(MAX_NOTED_CHARS).collect();
        let is_new = note(&mut NOTED.lock().unwrap_or_else(PoisonError::into_inner), &model);
        if is_new {
            tracing::warn!(?model, "the encoding of this model is unknown: its tokens are estimated with o200k_base");
        }
        Self::O200k
    }

    fn of_known(model: &str) -> Option<Self> {
        // Gateways put the provider before the name: `openai/gpt-4o`.
        let name = model.rsplit('/').next().unwrap_or(model);
        match get_tokenizer(model).or_else(|| get_tokenizer(name))? {
            // These two differ only in special tokens, which count as ordinary text here.
            Tokenizer::O200kBase | Tokenizer::O200kHarmony => Some(Self::O200k),
            Tokenizer::Cl100kBase => Some(Self::Cl100k),
            _ => None,
        }
    }
}

/// Notes a model. Returns `true` if it was not noted before and there is room for it.
fn note(noted: &mut BTreeSet<String>, model: &str) -> bool {
    noted.len() < MAX_NOTED && noted.insert(model.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_the_encoding_of_tiktokens_table() {
        for model in [
            "gpt-5",
            "gpt-5.1-codex",
            "gpt-4.1-mini",
            "gpt-4o",
            "chatgpt-4o-latest",
            "o1",
            "o3-pro",
            "o4-mini",
            "gpt-oss-120b",
            "openai/gpt-4o",
            "openrouter/openai/gpt-oss-20b:free",
            "ft:gpt-4o:org",
            "ft:gpt-4o-mini-2024-07-18:org:name:id",
            "openai/ft:gpt-4o:org",
        ] {
            assert_eq!(Encoding::of_known(model), Some(Encoding::O200k), "{model}");
        }
        for model in ["gpt-4", "gpt-4-turbo", "gpt-3.5-turbo", "azure/gpt-35-turbo", "ft:gpt-3.5-turbo:a/b:c"] {
            assert_eq!(Encoding::of_known(model), Some(Encoding::Cl100k), "{model}");
        }
        for model in ["", "/", "ft:", "text-davinci-003", "claude-opus-4", "anthropic/claude-opus-4", "llama3:8b"] {
            assert_eq!(Encoding::of_known(model), None, "{model}");
            assert_eq!(Encoding::for_model(model), Encoding::O200k, "{model}");
        }
    }

    #[test]
    fn an_unknown_model_is_noted_once_and_the_number_is_bounded() {
        let mut noted = BTreeSet::new();
        assert!(note(&mut noted, "a"));
        assert!(!note(&mut noted, "a"));
        assert!(note(&mut noted, "b"));
        let all = (0..1_000).filter(|number| note(&mut noted, &number.to_string())).count();
        assert_eq!((all, noted.len()), (MAX_NOTED - 2, MAX_NOTED));
    }
}
