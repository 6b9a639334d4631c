//! Embeddings by an async-openai client, for the search by meaning.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

#[cfg(feature = "otel")]
use async_openai::traits::RequestOptionsBuilder as _;
use async_openai::{
    Client, Embeddings,
    config::Config,
    error::OpenAIError,
    types::embeddings::{CreateEmbeddingRequest, Embedding, EmbeddingInput, EncodingFormat},
};
use futures_util::future::BoxFuture;
use tower_chat_history::recall::ServiceEmbedder;
use tower_service::Service;

use crate::error_type::error_type;

/// The most texts of a request.
const MAX_TEXTS: usize = 2_048;

/// The most bytes of the texts of a request. OpenAI allows 300,000 tokens, and no token is shorter than a byte.
const MAX_BYTES: usize = 300_000;

/// Creates an embedder that calls a client, for the search of recall [by
/// meaning](tower_chat_history::recall#by-meaning).
///
/// `dimensions` shortens the vectors, if the model supports that (OpenAI's `text-embedding-3` models do). Without it,
/// they have the model's full length.
///
/// To add layers, for example a timeout, wrap an [`EmbeddingService`] in them, and pass it to [`ServiceEmbedder::new`].
///
/// ```
/// use std::sync::Arc;
///
/// use async_openai::{Client, config::OpenAIConfig};
/// use tower_chat_history::{
///     MemoryStore,
///     recall::{Analyzer, Embedder, LogRecall, LogSearch},
/// };
/// use tower_chat_history_openai::embedder;
/// use tower_chat_history_test::{MockServer, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let server = MockServer::start([Reply::text("Hello!")]).await?;
/// let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test");
///
/// let embedder = Arc::new(embedder(Client::with_config(config), "text-embedding-3-small", Some(256)));
/// assert_eq!(embedder.embed(vec!["Rex barks.".to_owned()]).await?[0].len(), 256);
///
/// let search = LogSearch::new(Arc::new(MemoryStore::new()), Analyzer::default());
/// let recall = LogRecall::from(search.by_meaning(embedder));
/// # let _ = recall;
/// # Ok(())
/// # }
/// ```
pub fn embedder<C: Config + Clone + 'static>(
    client: Client<C>,
    model: impl Into<String>,
    dimensions: Option<u32>,
) -> ServiceEmbedder<EmbeddingService<C>> {
    let mut service = EmbeddingService::new(client, model);
    if let Some(dimensions) = dimensions {
        service = service.dimensions(dimensions);
    }
    ServiceEmbedder::new(service)
}

/// A service that calls `client.embeddings().create(..)`: texts in, one vector for each text out, in the same order.
///
/// Texts must not be empty. A call makes one request, or several ones after each other if it has more than 2,048 texts
/// or 300,000 bytes. A call without texts makes none. The client itself retries failed requests (status 429 and server
/// errors, with backoff). One call of this service includes these retries. Limit its time with a timeout that is
/// [shorter than that of recall](tower_chat_history::recall#by-meaning).
///
/// With the feature `otel`, the headers of requests contain the context of the current span, as in
/// [`ChatService`](crate::ChatService).
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use async_openai::Client;
/// use tower::{ServiceBuilder, timeout::TimeoutLayer};
/// use tower_chat_history::recall::ServiceEmbedder;
/// use tower_chat_history_openai::EmbeddingService;
///
/// let service = EmbeddingService::new(Client::new(), "text-embedding-3-small").dimensions(512);
/// let timeout = TimeoutLayer::new(Duration::from_secs(2));
/// let embedder = ServiceEmbedder::new(ServiceBuilder::new().layer(timeout).service(service));
/// # let _ = Arc::new(embedder);
/// ```
#[derive(Clone)]
pub struct EmbeddingService<C: Config> {
    client: Client<C>,
    model: Arc<str>,
    dimensions: Option<u32>,
}

impl<C: Config> EmbeddingService<C> {
    /// Creates a service that uses this client and this model.
    pub fn new(client: Client<C>, model: impl Into<String>) -> Self {
        Self { client, model: model.into().into(), dimensions: None }
    }

    /// Sets the number of dimensions of the vectors. The default is the model's own number. If a model has a fixed
    /// number, its provider returns an error.
    #[must_use]
    pub const fn dimensions(mut self, dimensions: u32) -> Self {
        self.dimensions = Some(dimensions);
        self
    }

    /// Makes one request.
    async fn request(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let count = texts.len();
        let request = CreateEmbeddingRequest {
            model: self.model.as_ref().to_owned(),
            input: EmbeddingInput::StringArray(texts),
            encoding_format: Some(EncodingFormat::Float),
            user: None,
            dimensions: self.dimensions,
        };
        let response = embeddings(&self.client).create(request).await.map_err(EmbeddingError::Client)?;
        in_order(response.data, count)
    }
}

impl<C: Config + Clone + 'static> Service<Vec<String>> for EmbeddingService<C> {
    type Response = Vec<Vec<f32>>;
    type Error = EmbeddingError;
    type Future = BoxFuture<'static, Result<Self::Response, EmbeddingError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, texts: Vec<String>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let mut vectors = Vec::with_capacity(texts.len());
            for request in split(texts) {
                vectors.extend(service.request(request).await?);
            }
            Ok(vectors)
        })
    }
}

/// Returns the client's calls for embeddings, with the current trace context in their headers.
#[cfg(feature = "otel")]
fn embeddings<C: Config>(client: &Client<C>) -> Embeddings<'_, C> {
    let mut headers = reqwest::header::HeaderMap::new();
    tower_chat_history::telemetry::inject_headers(&mut headers);
    client.embeddings().headers(headers)
}

#[cfg(not(feature = "otel"))]
fn embeddings<C: Config>(client: &Client<C>) -> Embeddings<'_, C> {
    client.embeddings()
}

// The `Debug` of the client would show its headers.
impl<C: Config> fmt::Debug for EmbeddingService<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingService")
            .field("model", &self.model)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

/// Splits texts into requests, in order, because OpenAI limits their size. A text that is too long has a request of its
/// own.
fn split(texts: Vec<String>) -> Vec<Vec<String>> {
    let mut requests: Vec<Vec<String>> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        match requests.last_mut() {
            Some(request) if request.len() < MAX_TEXTS && text.len() <= MAX_BYTES - bytes.min(MAX_BYTES) => {
                bytes += text.len();
                request.push(text);
            }
            _ => {
                bytes = text.len();
                requests.push(vec![text]);
            }
        }
    }
    requests
}

/// Returns the vectors in the order of the texts, which the indexes of a response determine.
fn in_order(data: Vec<Embedding>, texts: usize) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for embedding in data {
        let index = usize::try_from(embedding.index).unwrap_or(usize::MAX);
        let Some(vector) = vectors.get_mut(index) else { return Err(EmbeddingError::Unknown { index, texts }) };
        if vector.replace(embedding.embedding).is_some() {
            return Err(EmbeddingError::Repeated { index, texts });
        }
    }

    let mut all = Vec::with_capacity(texts);
    for (index, vector) in vectors.into_iter().enumerate() {
        all.push(vector.ok_or(EmbeddingError::Missing { index, texts })?);
    }
    Ok(all)
}

/// The error of an [`EmbeddingService`](EmbeddingService).
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

#[cfg(test)]
mod tests {
    use super::*;

    fn data(indexes: &[u32]) -> Vec<Embedding> {
        let embedding = |index: u32| Embedding { index, object: "embedding".into(), embedding: vec![index as f32] };
        indexes.iter().copied().map(embedding).collect()
    }

    #[test]
    fn indexes_determine_the_order() {
        assert_eq!(in_order(data(&[2, 0, 1]), 3).unwrap(), [[0.0], [1.0], [2.0]]);
        assert!(in_order(data(&[]), 0).unwrap().is_empty());
    }

    #[test]
    fn missing_repeated_and_unknown_indexes_are_errors() {
        for (indexes, message) in [
            (&[1, 2][..], "the response has no vector for text 0 of 3"),
            (&[0, 1, 1], "the response has two vectors for text 1 of 3"),
            (&[0, 1, 3], "the response has a vector for text 3, but the request has 3 texts"),
            (&[0, 1, 2, 2], "the response has two vectors for text 2 of 3"),
            (&[], "the response has no vector for text 0 of 3"),
        ] {
            assert_eq!(in_order(data(indexes), 3).unwrap_err().to_string(), message);
        }
    }

    fn sizes(texts: &[usize]) -> Vec<Vec<usize>> {
        let requests = split(texts.iter().map(|bytes| "a".repeat(*bytes)).collect());
        requests.iter().map(|request| request.iter().map(String::len).collect()).collect()
    }

    #[test]
    fn requests_have_a_limit_of_bytes_and_of_texts() {
        assert_eq!(sizes(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(sizes(&[1, 2]), [[1, 2]]);
        assert_eq!(sizes(&[100_000, 200_000, 1]), [&[100_000, 200_000][..], &[1]]);
        assert_eq!(sizes(&[1, 300_001, 1, 2]), [&[1][..], &[300_001], &[1, 2]]);
        let many: Vec<usize> = sizes(&[1; 5_000]).iter().map(Vec::len).collect();
        assert_eq!(many, [2_048, 2_048, 904]);
    }
}
