//! The token counter of a request's model.

use std::sync::Arc;

use tower_chat_history::tokens::TokenCounter;

/// Returns the exact counter of a model, if a feature provides one.
#[cfg(feature = "tiktoken")]
pub(crate) fn for_model(model: &str) -> Option<Arc<dyn TokenCounter>> {
    Some(Arc::new(crate::tokens::Tiktoken::for_model(model)))
}

/// Returns the exact counter of a model, if a feature provides one.
#[cfg(all(feature = "bpe-openai", not(feature = "tiktoken")))]
pub(crate) fn for_model(model: &str) -> Option<Arc<dyn TokenCounter>> {
    Some(Arc::new(crate::tokens::BpeOpenai::for_model(model)))
}

/// Returns `None`, because no feature provides an exact counter.
#[cfg(not(any(feature = "tiktoken", feature = "bpe-openai")))]
pub(crate) const fn for_model(_: &str) -> Option<Arc<dyn TokenCounter>> {
    None
}
