//! The model that turns texts into vectors.

use std::{error::Error, fmt, sync::Arc};

use async_trait::async_trait;

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
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, Box<dyn Error + Send + Sync>>;
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
pub(super) async fn embed(
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
