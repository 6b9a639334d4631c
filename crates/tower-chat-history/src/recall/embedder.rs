//! The models that turn texts into vectors.

use std::{
    error::Error,
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use tower_service::Service;

use crate::error::BoxError;

/// The most numbers of a vector.
const MAX_DIMENSION: usize = 8192;

/// A model that turns texts into vectors, so that a search also finds messages of the same meaning.
///
/// Texts are passages of at most a few kilobytes, and the input of a call.
#[async_trait]
pub trait Embedder: fmt::Debug + Send + Sync + 'static {
    /// Returns one vector for each text, in order. There are at most [256] texts.
    ///
    /// All vectors of a model have the same number of numbers, which is at most 8,192. They need not have the length 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the model fails. Its text must not contain the texts, because applications log it.
    ///
    /// [256]: crate::recall::LogSearch::EMBED_BATCH
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, BoxError>;
}

/// Makes the vectors of a search [by meaning](crate::recall#by-meaning) with a tower service, usually a client of an
/// embedding model with its own timeout, limits and retries.
///
/// The service takes texts, and returns one vector for each text, in order. `tower-chat-history-openai` has such a
/// service for async-openai (feature `recall`).
///
/// For each call, the service is cloned, and the clone is polled until it is ready, and called. The original is never
/// polled, so it holds no permit between calls. Errors of the service are returned unchanged. They are logged, so their
/// text must not contain the texts.
///
/// ```
/// use std::sync::Arc;
///
/// use tower_chat_history::{
///     MemoryStore,
///     recall::{Analyzer, LogRecall, LogSearch, ServiceEmbedder},
/// };
///
/// // In place of a client of an embedding model.
/// let model = tower::service_fn(|texts: Vec<String>| async move {
///     let vectors = texts.iter().map(|text| vec![text.len() as f32, 1.0]).collect();
///     Ok::<Vec<Vec<f32>>, std::io::Error>(vectors)
/// });
/// let embedder = ServiceEmbedder::new(model);
///
/// let search = LogSearch::new(Arc::new(MemoryStore::new()), Analyzer::default());
/// let recall = LogRecall::from(search.by_meaning(Arc::new(embedder)));
/// # let _ = recall;
/// ```
pub struct ServiceEmbedder<S> {
    /// The mutex makes the struct `Sync` even if the service is not. It is locked only for cloning.
    service: Mutex<S>,
}

impl<S> ServiceEmbedder<S> {
    /// Creates an embedder that calls this service.
    pub const fn new(service: S) -> Self
    where
        S: Service<Vec<String>, Response = Vec<Vec<f32>>>,
    {
        Self { service: Mutex::new(service) }
    }
}

#[async_trait]
impl<S> Embedder for ServiceEmbedder<S>
where
    S: Service<Vec<String>, Response = Vec<Vec<f32>>, Future: Send, Error: Into<BoxError>> + Clone + Send + 'static,
{
    /// # Errors
    ///
    /// Returns the errors of the service.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, BoxError> {
        // The lock is held only for `clone`, which does not change the service. A poisoned lock is therefore safe to
        // use.
        let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        poll_fn(|context| service.poll_ready(context)).await.map_err(Into::into)?;
        service.call(texts).await.map_err(Into::into)
    }
}

impl<S> fmt::Debug for ServiceEmbedder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceEmbedder").finish_non_exhaustive()
    }
}

/// The error for vectors that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The embedder failed.
    #[error("the embedder failed: {0}")]
    Failed(#[source] Arc<dyn Error + Send + Sync>),
    /// The number of vectors is not that of the texts.
    #[error("the embedder returned {found} vectors for {expected} texts")]
    Count {
        /// The number of texts.
        expected: usize,
        /// The number of vectors.
        found: usize,
    },
    /// The vector has another dimension than those before it, or one that is not allowed.
    #[error("the embedder returned a vector of dimension {found}, but expected is {expected}")]
    Dimension {
        /// The dimension of the vectors before it, or the largest one that is allowed.
        expected: usize,
        /// The dimension of the vector.
        found: usize,
    },
    /// A vector has a number that is not finite.
    #[error("the embedder returned a vector with a number that is not finite")]
    NotFinite,
    /// The vector of the input has no direction: all of its numbers are 0.
    #[error("the embedder returned a vector without direction")]
    NoDirection,
}

impl EmbedError {
    /// Returns a short constant name of the kind of failure, for metrics and spans (`error.type`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Failed(_) => "embedder",
            Self::Count { .. } => "vector_count",
            Self::Dimension { .. } => "vector_dimension",
            Self::NotFinite | Self::NoDirection => "vector_numbers",
        }
    }
}

impl PartialEq for EmbedError {
    /// Compares the texts of the errors.
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.to_string() == other.to_string()
    }
}

/// Embeds texts, checks the vectors, and scales them to the length 1. A text whose numbers are all 0 has none. If
/// `dimension` is given, all vectors must have it.
pub(crate) async fn embed(
    embedder: &dyn Embedder,
    texts: Vec<String>,
    dimension: Option<usize>,
) -> Result<Vec<Option<Box<[f32]>>>, EmbedError> {
    let count = texts.len();
    let found = embedder.embed(texts).await.map_err(|error| EmbedError::Failed(error.into()))?;
    if found.len() != count {
        return Err(EmbedError::Count { expected: count, found: found.len() });
    }

    let expected = dimension.or(found.first().map(Vec::len)).unwrap_or_default();
    let mut vectors = Vec::with_capacity(count);
    for numbers in found {
        check(&numbers, expected)?;
        vectors.push(of_length_one(&numbers));
    }
    Ok(vectors)
}

/// Checks that a vector has the expected dimension, and that it can be compared.
fn check(numbers: &[f32], expected: usize) -> Result<(), EmbedError> {
    if numbers.len() != expected {
        return Err(EmbedError::Dimension { expected, found: numbers.len() });
    }
    if numbers.is_empty() || numbers.len() > MAX_DIMENSION {
        return Err(EmbedError::Dimension { expected: MAX_DIMENSION, found: numbers.len() });
    }
    if numbers.iter().any(|number| !number.is_finite()) {
        return Err(EmbedError::NotFinite);
    }
    Ok(())
}

/// Scales a vector to the length 1. Returns `None` if it has no direction.
fn of_length_one(numbers: &[f32]) -> Option<Box<[f32]>> {
    let length = numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    if length == 0.0 {
        return None;
    }
    Some(numbers.iter().map(|number| (f64::from(*number) / length) as f32).collect())
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready};
    use tower_test::mock;

    use super::*;

    fn texts(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("text {number}")).collect()
    }

    #[tokio::test]
    async fn the_service_is_not_called_before_it_is_ready() {
        let (service, mut handle) = mock::pair::<Vec<String>, Vec<Vec<f32>>>();
        let embedder: Arc<dyn Embedder> = Arc::new(ServiceEmbedder::new(service));
        handle.allow(0);
        let mut vectors = tokio_test::task::spawn(embedder.embed(texts(2)));
        assert_pending!(vectors.poll());
        assert_pending!(tokio_test::task::spawn(handle.next_request()).poll());
        handle.allow(1);
        assert!(vectors.is_woken());
        assert_pending!(vectors.poll());
        let (sent, respond) = handle.next_request().await.unwrap();
        assert_eq!(sent, texts(2));
        respond.send_response(vec![vec![1.0], vec![2.0]]);
        assert_eq!(assert_ready!(vectors.poll()).unwrap(), [[1.0], [2.0]]);
    }

    #[tokio::test]
    async fn errors_are_passed_on_unchanged() {
        let (service, mut handle) = mock::pair::<Vec<String>, Vec<Vec<f32>>>();
        let embedder = ServiceEmbedder::new(service);
        let mut vectors = tokio_test::task::spawn(embedder.embed(texts(1)));
        assert_pending!(vectors.poll());
        handle.next_request().await.unwrap().1.send_error(fmt::Error);
        assert!(assert_ready!(vectors.poll()).unwrap_err().is::<fmt::Error>());
        handle.send_error(fmt::Error);
        let closed = embedder.embed(texts(1)).await.unwrap_err();
        assert!(closed.to_string().contains("an error occurred"), "error of readiness: {closed}");
    }

    #[tokio::test]
    async fn texts_are_embedded_concurrently() {
        let (service, mut handle) = mock::pair::<Vec<String>, Vec<Vec<f32>>>();
        let embedder = ServiceEmbedder::new(service);
        let mut one = tokio_test::task::spawn(embedder.embed(texts(1)));
        let mut other = tokio_test::task::spawn(embedder.embed(texts(2)));
        assert_pending!(one.poll());
        assert_pending!(other.poll());
        let (_, first) = handle.next_request().await.unwrap();
        let (_, second) = handle.next_request().await.unwrap();
        second.send_response(vec![vec![2.0]; 2]);
        first.send_response(vec![vec![1.0]]);
        assert_eq!(assert_ready!(other.poll()).unwrap(), [[2.0], [2.0]]);
        assert_eq!(assert_ready!(one.poll()).unwrap(), [[1.0]]);
        assert_eq!(format!("{embedder:?}"), "ServiceEmbedder { .. }");
    }
}
