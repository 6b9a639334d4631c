//! An async-openai client as a tower service from texts to vectors.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

#[cfg(feature = "otel")]
use async_openai::traits::RequestOptionsBuilder as _;
use async_openai::{
    Client, Embeddings,
    config::Config,
    types::embeddings::{CreateEmbeddingRequest, EmbeddingInput, EncodingFormat},
};
use futures_util::future::BoxFuture;
use tower_service::Service;

use super::{error::EmbeddingError, order::in_order, split::split};

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
    type Future = EmbeddingFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, texts: Vec<String>) -> Self::Future {
        let service = self.clone();
        EmbeddingFuture(Box::pin(async move {
            let mut vectors = Vec::with_capacity(texts.len());
            for request in split(texts) {
                vectors.extend(service.request(request).await?);
            }
            Ok(vectors)
        }))
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

/// The response future of [`EmbeddingService`].
pub struct EmbeddingFuture(BoxFuture<'static, Result<Vec<Vec<f32>>, EmbeddingError>>);

impl Future for EmbeddingFuture {
    type Output = Result<Vec<Vec<f32>>, EmbeddingError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for EmbeddingFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingFuture").finish_non_exhaustive()
    }
}
