//! Exact token counters for OpenAI's models, and the counters of [`tower_chat_history::tokens`].
//!
//! ```
//! # #[cfg(feature = "tiktoken")] {
//! use tower_chat_history::{Message, tokens::tokens_of};
//! use tower_chat_history_openai::tokens::Tiktoken;
//!
//! let counter = Tiktoken::for_model("gpt-4o");
//! // 3 for the message, 1 for its role, 2 for its text.
//! assert_eq!(tokens_of(&counter, &Message::user("hello world")), 6);
//! # }
//! ```
//!
//! | counter | feature | time for a message of 250 bytes | time for the slowest text | memory for `o200k_base` |
//! |---|---|---|---|---|
//! | `Tiktoken` | `tiktoken` (default) | 9 µs | 0.3 s per MiB | 46 MiB |
//! | `BpeOpenai` | `bpe-openai` | 7 µs | 0.3 s per MiB | 66 MiB |
//!
//! Both return the same counts, in `o200k_base` and in `cl100k_base`. Counts are stored under the name of the encoding,
//! so each counter can use the stored counts of the other. No text makes them panic. Ordinary text takes 25 to 70 ms
//! per MiB. [`tower_chat_history::tokens`] lists the costs of the other parts of a message.

#[cfg(feature = "bpe-openai")]
mod bpe_openai;
#[cfg(any(feature = "tiktoken", feature = "bpe-openai"))]
mod counter;
#[cfg(any(feature = "tiktoken", feature = "bpe-openai"))]
mod pieces;
#[cfg(feature = "tiktoken")]
mod tiktoken;

use std::sync::Arc;

#[cfg(feature = "bpe-openai")]
pub use self::bpe_openai::BpeOpenai;
#[cfg(feature = "tiktoken")]
pub use self::tiktoken::Tiktoken;
pub use tower_chat_history::tokens::*;

/// Returns the estimate of a model of another family, or else the exact counter, if a feature provides one.
pub(crate) fn counter_for_model(model: &str) -> Option<Arc<dyn TokenCounter>> {
    match Estimate::for_model(model) {
        Some(estimate) => Some(Arc::new(estimate)),
        None => exact(model),
    }
}

#[cfg(feature = "tiktoken")]
fn exact(model: &str) -> Option<Arc<dyn TokenCounter>> {
    Some(Arc::new(Tiktoken::for_model(model)))
}

#[cfg(all(feature = "bpe-openai", not(feature = "tiktoken")))]
fn exact(model: &str) -> Option<Arc<dyn TokenCounter>> {
    Some(Arc::new(BpeOpenai::for_model(model)))
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
        Some(counter_for_model(model)?.name()?.to_string())
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
