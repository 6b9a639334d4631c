//! The errors of embeddings.

use async_openai::error::OpenAIError;

use crate::error_type::error_type;

/// The error of an [`EmbeddingService`](super::EmbeddingService).
///
/// Its text has the kind of the client's error or the HTTP status. It never contains text of the provider, which could
/// quote the texts. The client's error is the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingError {
    /// The client failed.
    #[error("the request for embeddings failed: {}", error_type(.0))]
    Client(#[source] OpenAIError),
    /// The response has no vector for a text.
    #[error("the response has no vector for text {index} of {texts}")]
    Missing {
        /// The position of the text in the request, from 0.
        index: usize,
        /// The number of texts in the request.
        texts: usize,
    },
    /// The response has two vectors for a text.
    #[error("the response has two vectors for text {index} of {texts}")]
    Repeated {
        /// The position of the text in the request, from 0.
        index: usize,
        /// The number of texts in the request.
        texts: usize,
    },
    /// The response has a vector for a text that is not in the request.
    #[error("the response has a vector for text {index}, but the request has {texts} texts")]
    Unknown {
        /// The position in the response, from 0.
        index: usize,
        /// The number of texts in the request.
        texts: usize,
    },
}
