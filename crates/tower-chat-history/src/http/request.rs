//! Requests: reading their body, and the requests that are sent.

use std::fmt;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH},
    request::Parts,
};
use http_body::Body as _;
use tower_chat_history_core::ConversationId;

use super::{
    body::{HistoryBody, blocking},
    error::CallError,
    splice::Splice,
    wire::{OpenedBody, Wire},
};
use crate::{
    adapt::{Draft, ModelRequest, Prompt, ReadBy},
    call::{CallOptions, TurnInput},
    engine::InputMode,
    error::BoxError,
};

/// The headers with a digest of the body. They would be wrong for a changed body.
static DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// Reads the body of a call in a conversation: returns the input of its turn, and the body that waits for its window.
/// The input has the wire, by which [`read_response`](super::response::read_response) reads the response.
/// A body of 1 MiB or more is read on a thread for blocking work, so that other calls do not wait for it.
///
/// # Errors
///
/// Returns an error if the body cannot be used.
pub async fn open_body(
    wire: &'static dyn Wire,
    conversation: ConversationId,
    options: CallOptions,
    mode: InputMode,
    body: Bytes,
) -> Result<(TurnInput, Splice), CallError> {
    let few_shot_messages = options.few_shot_messages;
    let opened = blocking(body.len(), move || wire.open(body.clone(), mode, few_shot_messages)).await;
    let OpenedBody { splice, messages, choices, info } = opened?;

    let mut turn = TurnInput::new(conversation, messages.input).transcript(messages.transcript).options(options);
    turn = turn.dialect(wire.dialect());
    turn.read_by = ReadBy::new(wire);
    turn.choices = choices;
    turn.request = info;
    turn.request.head = messages.head;
    Ok((turn, splice))
}

/// Reads a body of at most `limit` bytes, and its trailers.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    mut body: HistoryBody,
    limit: usize,
) -> Result<(Bytes, Option<HeaderMap>), CallError> {
    if let Some(coding) = encoding(headers) {
        return Err(CallError::Encoded { coding });
    }
    let is_announced = usize::try_from(body.size_hint().lower()).map_or(true, |least| least > limit);
    if is_announced || !body.read_ahead(limit, |_| false).await.map_err(CallError::Read)? {
        return Err(CallError::TooLarge { limit });
    }
    Ok(body.into_read())
}

/// Returns `true` if a body with these headers has a content encoding.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    encoding(headers).is_some()
}

/// The registered content codings. A text of the caller must not become a part of an error.
const CODINGS: [&str; 7] = ["gzip", "deflate", "br", "zstd", "compress", "x-gzip", "x-compress"];

/// Returns the first content coding of a body with these headers, or `other` if it is not a registered one.
fn encoding(headers: &HeaderMap) -> Option<&'static str> {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let mut codings =
        codings.flat_map(|codings| codings.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let coding = codings.find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))?;
    Some(CODINGS.into_iter().find(|name| coding.eq_ignore_ascii_case(name.as_bytes())).unwrap_or("other"))
}

/// Adapts the headers of a request to its changed body of this length. The transport sets `content-length` itself if it
/// is missing.
pub fn fit_headers(headers: &mut HeaderMap, length: usize) {
    if headers.contains_key(CONTENT_LENGTH) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    remove_digests(headers);
}

fn remove_digests(headers: &mut HeaderMap) {
    for name in &DIGESTS {
        headers.remove(name);
    }
}

/// A request that waits for its history.
#[derive(Clone)]
pub struct HttpDraft {
    head: Parts,
    body: Splice,
    trailers: Option<HeaderMap>,
}

impl HttpDraft {
    pub(crate) const fn new(head: Parts, body: Splice, trailers: Option<HeaderMap>) -> Self {
        Self { head, body, trailers }
    }
}

impl Draft for HttpDraft {
    type Request = Request<HistoryBody>;

    fn complete(self, prompt: Prompt<'_>) -> Result<ModelRequest<Self::Request>, BoxError> {
        let Self { mut head, body, mut trailers } = self;
        // An encoded answer could not be read.
        head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let bytes = if let Some(changed) = body.with(prompt) {
            fit_headers(&mut head.headers, changed.len());
            trailers.iter_mut().for_each(remove_digests);
            changed
        } else {
            body.into_original()
        };
        // Messages are sent as their JSON, so none is downgraded.
        Ok(ModelRequest::new(Request::from_parts(head, HistoryBody::whole(bytes, trailers)), 0))
    }

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl fmt::Debug for HttpDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDraft").field("body", &self.body).finish_non_exhaustive()
    }
}
