//! The request for embeddings, checked as OpenAI does.

use serde::Deserialize;
use serde_json::Value;

use super::MockEmbeddings;
use crate::reply::ApiFailure;

const MAX_TEXTS: usize = 2_048;
const MAX_TOKENS_OF_TEXT: usize = 8_192;
const MAX_TOKENS: usize = 300_000;
/// The dimensions of OpenAI's largest model.
const MAX_DIMENSIONS: u64 = 3_072;

/// A valid request.
#[derive(Debug)]
pub(super) struct EmbeddingRequest {
    pub(super) model: String,
    /// The texts. A list of tokens is the text of their numbers.
    pub(super) texts: Vec<String>,
    pub(super) tokens: usize,
    pub(super) dimensions: usize,
    pub(super) encoding: Encoding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
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
    pub(super) fn parse(body: &str) -> Result<Self, ApiFailure> {
        let body: Body = serde_json::from_str(body).map_err(|error| {
            if error.is_data() {
                ApiFailure::new(400, "The body of the request is not as expected.")
            } else {
                ApiFailure::new(400, "We could not parse the JSON body of your request.")
            }
        })?;
        let model = body.model.ok_or_else(|| ApiFailure::new(400, "you must provide a model parameter"))?;
        let (texts, sizes) = body.input.and_then(texts_of).ok_or_else(|| {
            ApiFailure::new(400, "'$.input' is invalid. Please check the API reference.").param("input")
        })?;
        let refused = |message: String| ApiFailure::new(400, message).param("input");
        if texts.is_empty() || texts.iter().any(String::is_empty) {
            return Err(refused("Invalid 'input': texts and lists must not be empty.".into()));
        }
        if texts.len() > MAX_TEXTS {
            return Err(refused(format!("Invalid 'input': at most {MAX_TEXTS} texts are allowed.")));
        }
        let tokens = sizes.iter().sum();
        if sizes.iter().any(|size| *size > MAX_TOKENS_OF_TEXT) || tokens > MAX_TOKENS {
            let limits = format!("{MAX_TOKENS_OF_TEXT} tokens in a text, and {MAX_TOKENS} in a request");
            return Err(refused(format!("Invalid 'input': at most {limits}.")).code("context_length_exceeded"));
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

/// Returns the texts, and their sizes in tokens.
fn texts_of(input: Value) -> Option<(Vec<String>, Vec<usize>)> {
    let of_text = |text: String| (text.len().div_ceil(4), text);
    let of_tokens = |tokens: Vec<u32>| {
        let words: Vec<String> = tokens.iter().map(u32::to_string).collect();
        (tokens.len(), words.join(" "))
    };
    let sized: Vec<(usize, String)> = match serde_json::from_value(input).ok()? {
        Input::Text(text) => vec![of_text(text)],
        Input::Texts(texts) => texts.into_iter().map(of_text).collect(),
        Input::Tokens(tokens) => vec![of_tokens(tokens)],
        Input::Lists(lists) => lists.into_iter().map(of_tokens).collect(),
    };
    Some(sized.into_iter().map(|(size, text)| (text, size)).unzip())
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
