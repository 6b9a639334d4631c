//! The order of the vectors in a response.

use async_openai::types::embeddings::Embedding;

use super::error::EmbeddingError;

/// Returns the vectors in the order of the texts, which the indexes of a response determine.
pub(super) fn in_order(data: Vec<Embedding>, texts: usize) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for embedding in data {
        let index = usize::try_from(embedding.index).unwrap_or(usize::MAX);
        let Some(vector) = vectors.get_mut(index) else { return Err(EmbeddingError::Unknown { index, texts }) };
        if vector.replace(embedding.embedding).is_some() {
            return Err(EmbeddingError::Repeated { index, texts });
        }
    }
    let present = |(index, vector): (usize, Option<Vec<f32>>)| vector.ok_or(EmbeddingError::Missing { index, texts });
    vectors.into_iter().enumerate().map(present).collect()
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
}
