//! The token counter of a request's model.

use std::sync::Arc;

use tower_chat_history::tokens::{Estimate, TokenCounter};

/// Returns the estimate of a model of another family, or else the exact counter, if a feature provides one.
pub(crate) fn for_model(model: &str) -> Option<Arc<dyn TokenCounter>> {
    Estimate::for_model(model).map_or_else(|| exact(model), |estimate| Some(Arc::new(estimate)))
}

#[cfg(feature = "tiktoken")]
fn exact(model: &str) -> Option<Arc<dyn TokenCounter>> {
    Some(Arc::new(crate::tokens::Tiktoken::for_model(model)))
}

#[cfg(all(feature = "bpe-openai", not(feature = "tiktoken")))]
fn exact(model: &str) -> Option<Arc<dyn TokenCounter>> {
    Some(Arc::new(crate::tokens::BpeOpenai::for_model(model)))
}

/// Returns `None`, because no feature provides an exact counter.
#[cfg(not(any(feature = "tiktoken", feature = "bpe-openai")))]
const fn exact(_: &str) -> Option<Arc<dyn TokenCounter>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(model: &str) -> Option<String> {
        Some(for_model(model)?.name()?.to_string())
    }

    #[test]
    fn models_of_other_families_have_an_estimate() {
        for (model, expected) in [
            ("claude-opus-5-5", "anthropic-estimate"),
            ("google/gemini-3-pro", "gemini-estimate"),
            ("deepseek-chat", "deepseek-estimate"),
            ("meta-llama/Llama-3.3-70B-Instruct", "llama-estimate"),
        ] {
            assert_eq!(name(model).as_deref(), Some(expected), "{model}");
        }
    }

    #[test]
    fn other_models_have_the_exact_counter_of_the_features() {
        let has_exact = cfg!(any(feature = "tiktoken", feature = "bpe-openai"));
        for (model, encoding) in [("gpt-5", "o200k_base"), ("gpt-4", "cl100k_base"), ("acme-1", "o200k_base")] {
            assert_eq!(name(model).as_deref(), Some(encoding).filter(|_| has_exact), "{model}");
        }
    }
}
