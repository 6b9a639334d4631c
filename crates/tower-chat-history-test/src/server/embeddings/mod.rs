//! The embeddings of the server.

mod base64;
mod request;
mod vector;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};

use self::request::{EmbeddingRequest, Encoding};
use super::recorded::RecordedRequest;
use crate::{lock::lock, reply::ApiFailure};

/// The embeddings API of a [`MockServer`](crate::MockServer): `POST /v1/embeddings`.
///
/// A vector counts the words of its text, in lower case, and has the length 1. So texts with common words are near each
/// other, texts with the same words are equal, and the same text has the same vector in every run. Words that mean the
/// same for a test can be [declared](Self::synonyms). Vectors have [64](Self::DIMENSIONS) dimensions, or those that the
/// request asks for. Two words can have the same dimension by chance.
///
/// Invalid requests are refused with OpenAI's errors. The limits of OpenAI apply too: 2,048 texts, 8,192 tokens in a
/// text, and 300,000 tokens in a request. A token is 4 bytes here.
///
/// ```
/// use tower_chat_history_test::{ApiFailure, MockServer, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = MockServer::start([Reply::text("Hello!")]).await?;
/// server.embeddings().synonyms(["dog", "puppy"]);
///
/// // From now on, requests with this word fail, and then all.
/// server.embeddings().fail_if(|texts| {
///     texts.iter().any(|text| text.contains("storm")).then(|| ApiFailure::new(400, "no storms"))
/// });
/// server.embeddings().fail_if(|_| Some(ApiFailure::server_error()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MockEmbeddings {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Vec<RecordedRequest>>,
    /// The words that stand for others.
    synonyms: Mutex<BTreeMap<String, String>>,
    failures: Mutex<Option<Arc<Rule>>>,
    latency: Mutex<Duration>,
}

type Rule = dyn Fn(&[String]) -> Option<ApiFailure> + Send + Sync;

impl MockEmbeddings {
    /// The number of dimensions, unless the request asks for another one.
    pub const DIMENSIONS: usize = 64;

    /// Makes later requests fail for which this rule returns an error. It gets the texts of the request, and replaces
    /// the rule before it. Initially, no request fails.
    pub fn fail_if(&self, rule: impl Fn(&[String]) -> Option<ApiFailure> + Send + Sync + 'static) {
        *lock(&self.shared.failures) = Some(Arc::new(rule));
    }

    /// Makes words count as the same one in later requests.
    pub fn synonyms<W: AsRef<str>>(&self, words: impl IntoIterator<Item = W>) {
        let mut synonyms = lock(&self.shared.synonyms);
        let mut common = None;
        for word in words {
            let word = word.as_ref().to_lowercase();
            let known = synonyms.get(&word).unwrap_or(&word).clone();
            let common = common.get_or_insert_with(|| known.clone());
            // The words that stood for this one now stand for the common one.
            synonyms.values_mut().filter(|stands_for| **stands_for == known).for_each(|s| s.clone_from(common));
            synonyms.insert(known, common.clone());
        }
    }

    /// Sets the delay before later answers. The default is 0.
    pub fn latency(&self, latency: Duration) {
        *lock(&self.shared.latency) = latency;
    }

    /// Returns all requests for embeddings so far, in order, including refused ones and retries.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.shared.requests).clone()
    }

    /// Records a request, and returns the response as JSON text.
    pub(super) async fn answer(&self, request: RecordedRequest) -> Result<String, ApiFailure> {
        let parsed = EmbeddingRequest::parse(request.body());
        lock(&self.shared.requests).push(request);
        let latency = *lock(&self.shared.latency);
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        self.response(&parsed?)
    }

    fn response(&self, request: &EmbeddingRequest) -> Result<String, ApiFailure> {
        let rule = lock(&self.shared.failures).clone();
        if let Some(failure) = rule.and_then(|rule| rule(&request.texts)) {
            return Err(failure);
        }
        let synonyms = lock(&self.shared.synonyms);
        let data = request.texts.iter().enumerate().map(|(index, text)| {
            let vector = vector::of(text, request.dimensions, &synonyms);
            let embedding = match request.encoding {
                Encoding::Float => json!(vector),
                Encoding::Base64 => json!(base64::of_floats(&vector)),
            };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        });
        let answer = json!({
            "object": "list",
            "data": data.collect::<Value>(),
            "model": request.model,
            "usage": { "prompt_tokens": request.tokens, "total_tokens": request.tokens },
        });
        Ok(answer.to_string())
    }
}

impl fmt::Debug for MockEmbeddings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = lock(&self.shared.requests).len();
        f.debug_struct("MockEmbeddings").field("requests", &requests).finish_non_exhaustive()
    }
}
