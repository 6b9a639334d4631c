//! What the server keeps of a request.

use std::fmt;

use axum::http::{HeaderMap, Uri};
use serde::Deserialize;
use serde_json::Value;
use tower_chat_history_core::Message;

/// A chat request as a [`MockServer`](crate::MockServer) received it.
///
/// `Debug` shows sizes: neither text nor headers, which may have a key.
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

    /// The path, as it came.
    #[must_use]
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The query without its question mark, if there is one.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.uri.query()
    }

    /// The body, byte for byte (what is no UTF-8 in it is replaced).
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The messages, each verbatim; none if the body has no legal list of them.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.parsed().map(|body| body.messages).unwrap_or_default()
    }

    /// The first header of that name, if there is one and it is visible ASCII. Upper and lower case are the same.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Every header in the order it came, under its lower-case name. One that is no visible ASCII is left out.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
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

/// What the server reads of a body.
#[derive(Deserialize)]
pub(super) struct ChatBody {
    pub(super) messages: Vec<Message>,
    pub(super) model: Option<String>,
    pub(super) n: Option<usize>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}
