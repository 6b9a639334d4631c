//! The requests that the server records.

use std::{collections::HashMap, fmt};

use axum::http::{HeaderMap, Uri};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tower_chat_history_core::{AnthropicMessages, Dialect, Message, OpenAiResponses, Role};

/// A request for a chat completion or for embeddings, as a [`MockServer`](crate::MockServer) received it.
///
/// `Debug` shows sizes only: no text, and no headers, which may contain an API key.
#[derive(Clone)]
pub struct RecordedRequest {
    uri: Uri,
    headers: HeaderMap,
    body: String,
}

impl RecordedRequest {
    pub(super) const fn new(uri: Uri, headers: HeaderMap, body: String) -> Self {
        Self { uri, headers, body }
    }

    /// Returns the path as received.
    #[must_use]
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// Returns the query without its question mark, if there is one.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.uri.query()
    }

    /// Returns the body, byte for byte. Invalid UTF-8 is replaced.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Returns the body as JSON, or null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Returns the messages of a chat request, or the items of the Responses API, each verbatim. They are empty if the
    /// body has no valid list of them.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let path = self.path();
        if path.ends_with("/messages") {
            self.elements("messages", &AnthropicMessages)
        } else if path.ends_with("/responses") {
            self.elements("input", &OpenAiResponses)
        } else {
            self.parsed().map(|body| body.messages).unwrap_or_default()
        }
    }

    /// Returns the elements of a dialect in this field. A text is a message of the user.
    fn elements(&self, field: &str, dialect: &'static dyn Dialect) -> Vec<Message> {
        let body: HashMap<String, &RawValue> = serde_json::from_str(&self.body).unwrap_or_default();
        let value = body.get(field).map_or("null", |value| value.get());
        let read = match serde_json::from_str::<Vec<&RawValue>>(value) {
            Ok(elements) => elements.into_iter().map(|json| Message::in_dialect(dialect, json.get())).collect(),
            Err(_) => match serde_json::from_str::<String>(value) {
                Ok(text) => Message::compose(dialect, &Role::User, text).map(|message| vec![message]),
                Err(_) => Ok(Vec::new()),
            },
        };
        read.unwrap_or_default()
    }

    /// Returns the first header with this name, if its value is visible ASCII. Case is ignored.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns all headers in the order received, with lower-case names. Headers whose values are not visible ASCII are
    /// omitted.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }

    /// Returns `true` if the reply is to be a stream, or `None` if the field is neither a boolean nor null.
    pub(super) fn streams(&self) -> Option<bool> {
        #[derive(Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            stream: Option<&'a RawValue>,
        }
        // Another refusal says that the body is not JSON.
        let Ok(body) = serde_json::from_str::<Body<'_>>(&self.body) else { return Some(false) };
        body.stream.map_or(Some(false), |stream| serde_json::from_str(stream.get()).ok())
    }

    pub(super) fn parsed(&self) -> Result<ChatBody, serde_json::Error> {
        serde_json::from_str(&self.body)
    }
}

impl fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedRequest")
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The fields of a body that the server uses.
#[derive(Deserialize)]
pub(super) struct ChatBody {
    pub(super) messages: Vec<Message>,
    pub(super) model: Option<String>,
    pub(super) n: Option<usize>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) tools: Option<Box<RawValue>>,
    pub(super) thinking: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}
