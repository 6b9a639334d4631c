//! The embeddings of the server: requests are checked as OpenAI does, and vectors count words.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};

use super::recorded::RecordedRequest;
use crate::{reply::ApiFailure, util::lock};

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
        let mut data = Vec::new();
        for (index, text) in request.texts.iter().enumerate() {
            let vector = vector_of(text, request.dimensions, &synonyms);
            let embedding = match request.encoding {
                Encoding::Float => json!(vector),
                Encoding::Base64 => json!(base64_of_floats(&vector)),
            };
            data.push(json!({ "object": "embedding", "index": index, "embedding": embedding }));
        }

        let answer = json!({
            "object": "list",
            "data": data,
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

const MAX_TEXTS: usize = 2_048;
const MAX_TOKENS_OF_TEXT: usize = 8_192;
const MAX_TOKENS: usize = 300_000;
/// The dimensions of OpenAI's largest model.
const MAX_DIMENSIONS: u64 = 3_072;

/// A valid request.
#[derive(Debug)]
struct EmbeddingRequest {
    model: String,
    /// The texts. A list of tokens is the text of their numbers.
    texts: Vec<String>,
    tokens: usize,
    dimensions: usize,
    encoding: Encoding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Float,
    Base64,
}

/// The fields of a body that the server uses.
#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    input: Option<Value>,
    dimensions: Option<Value>,
    encoding_format: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    Lists(Vec<Vec<u32>>),
}

impl EmbeddingRequest {
    /// Reads the body of a request.
    fn parse(body: &str) -> Result<Self, ApiFailure> {
        let body: Body = serde_json::from_str(body).map_err(|error| {
            if error.is_data() {
                ApiFailure::new(400, "The body of the request is not as expected.")
            } else {
                ApiFailure::new(400, "We could not parse the JSON body of your request.")
            }
        })?;
        let model = body.model.ok_or_else(|| ApiFailure::new(400, "you must provide a model parameter"))?;
        let (texts, sizes) = body
            .input
            .and_then(texts_of)
            .ok_or_else(|| invalid_input("'$.input' is invalid. Please check the API reference.".into()))?;

        if texts.is_empty() || texts.iter().any(String::is_empty) {
            return Err(invalid_input("Invalid 'input': texts and lists must not be empty.".into()));
        }
        if texts.len() > MAX_TEXTS {
            return Err(invalid_input(format!("Invalid 'input': at most {MAX_TEXTS} texts are allowed.")));
        }

        let tokens = sizes.iter().sum();
        if sizes.iter().any(|size| *size > MAX_TOKENS_OF_TEXT) || tokens > MAX_TOKENS {
            let limits = format!("{MAX_TOKENS_OF_TEXT} tokens in a text, and {MAX_TOKENS} in a request");
            return Err(invalid_input(format!("Invalid 'input': at most {limits}.")).code("context_length_exceeded"));
        }

        Ok(Self {
            model,
            texts,
            tokens,
            dimensions: dimensions_of(body.dimensions.as_ref())?,
            encoding: encoding_of(body.encoding_format.as_ref())?,
        })
    }
}

fn invalid_input(message: String) -> ApiFailure {
    ApiFailure::new(400, message).param("input")
}

/// Returns the texts, and their sizes in tokens.
fn texts_of(input: Value) -> Option<(Vec<String>, Vec<usize>)> {
    let lists = match serde_json::from_value(input).ok()? {
        Input::Text(text) => return Some((vec![text.clone()], vec![text.len().div_ceil(4)])),
        Input::Texts(texts) => {
            let sizes = texts.iter().map(|text| text.len().div_ceil(4)).collect();
            return Some((texts, sizes));
        }
        Input::Tokens(tokens) => vec![tokens],
        Input::Lists(lists) => lists,
    };

    let texts = lists.iter().map(|tokens| {
        let words: Vec<String> = tokens.iter().map(u32::to_string).collect();
        words.join(" ")
    });
    Some((texts.collect(), lists.iter().map(Vec::len).collect()))
}

fn dimensions_of(dimensions: Option<&Value>) -> Result<usize, ApiFailure> {
    let Some(value) = dimensions.filter(|value| !value.is_null()) else { return Ok(MockEmbeddings::DIMENSIONS) };
    let allowed = value.as_u64().filter(|number| (1..=MAX_DIMENSIONS).contains(number));
    allowed.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| {
        let message = format!("Invalid 'dimensions': expected an integer from 1 to {MAX_DIMENSIONS}.");
        ApiFailure::new(400, message).param("dimensions")
    })
}

fn encoding_of(encoding: Option<&Value>) -> Result<Encoding, ApiFailure> {
    match encoding.map(|value| (value.is_null(), value.as_str())) {
        None | Some((true, _) | (_, Some("float"))) => Ok(Encoding::Float),
        Some((_, Some("base64"))) => Ok(Encoding::Base64),
        Some(_) => {
            let message = "Invalid 'encoding_format': expected 'float' or 'base64'.";
            Err(ApiFailure::new(400, message).param("encoding_format"))
        }
    }
}

/// Returns the vector of a text, which has the length 1. A text without words counts as one word.
fn vector_of(text: &str, dimensions: usize, synonyms: &BTreeMap<String, String>) -> Vec<f32> {
    let mut counts = vec![0.0_f32; dimensions];
    let mut words: Vec<String> = text
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    if words.is_empty() {
        words.push(text.to_owned());
    }

    for word in &words {
        if let Some(count) = counts.get_mut(place(synonyms.get(word).unwrap_or(word), dimensions)) {
            *count += 1.0;
        }
    }

    let length = counts.iter().map(|count| count * count).sum::<f32>().sqrt();
    counts.iter().map(|count| count / length).collect()
}

/// Returns the dimension that counts a word: its hash (FNV-1a), so that it is the same in every run.
fn place(word: &str, dimensions: usize) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in word.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The upper bits are mixed better than the lower ones.
    usize::try_from((hash ^ (hash >> 32)) % dimensions.max(1) as u64).unwrap_or_default()
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the numbers in little-endian order, in base64 with padding.
fn base64_of_floats(numbers: &[f32]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    base64_of_bytes(&bytes)
}

fn base64_of_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| bits << 8 | usize::from(chunk.get(at).copied().unwrap_or_default()));
        for at in 0..4 {
            let digit = if at <= chunk.len() { DIGITS[bits >> (18 - 6 * at) & 63] } else { b'=' };
            text.push(char::from(digit));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str, synonyms: &BTreeMap<String, String>) -> f32 {
        let a = vector_of(a, 64, synonyms);
        let b = vector_of(b, 64, synonyms);
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn texts_with_common_words_are_near() {
        let none = BTreeMap::new();
        assert!((cosine("Rex, the dog!", "the dog REX", &none) - 1.0).abs() < 1e-6);
        assert!(cosine("my dog is called Rex", "the dog", &none) > 0.2);
        assert_eq!(cosine("dog", "puppy", &none), 0.0);
        let synonyms = [("puppy".to_owned(), "dog".to_owned())].into();
        assert!((cosine("dog", "Puppy", &synonyms) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn every_text_has_a_direction() {
        let none = BTreeMap::new();
        for text in ["?!", " ", "ß", "a a a b"] {
            for dimensions in [1, 3, 64] {
                let vector = vector_of(text, dimensions, &none);
                let length = vector.iter().map(|number| number * number).sum::<f32>();
                assert_eq!(vector.len(), dimensions);
                assert!((length - 1.0).abs() < 1e-6, "{text}: {length}");
            }
        }
    }

    #[test]
    fn texts_are_those_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("abc", "YWJj"),
            ("abcd", "YWJjZA=="),
            ("abcde", "YWJjZGU="),
            ("abcdef", "YWJjZGVm"),
        ] {
            assert_eq!(base64_of_bytes(bytes.as_bytes()), text);
        }
        assert_eq!(base64_of_bytes(&[0xfb, 0xff, 0xfe]), "+//+");
        assert_eq!(base64_of_floats(&[1.0]), "AACAPw==");
    }
}
