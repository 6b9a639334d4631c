//! Responses: their kind, and the same response with a body that is recorded.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use async_openai::error::OpenAIError;
use bytes::Bytes;
use futures_util::{
    Stream, StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use reqwest::{
    Body, Response, ResponseBuilderExt as _,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use tower_chat_history::{
    BoxError, Reply,
    adapt::{Read, completion},
    report::ResponseShape,
};

use super::fold::SseFold;

type Upstream = BoxStream<'static, Result<Bytes, reqwest::Error>>;

/// Reads a successful response to a chat call.
pub(super) async fn read(response: Response, choices: usize) -> Result<Read<Response>, BoxError> {
    if is_encoded(&response) {
        return Ok(Read::whole(response, Reply::unreadable(ResponseShape::Encoded)));
    }
    let shell = Shell::of(&response);
    match kind(&response) {
        Kind::Whole => {
            let bytes = response.bytes().await;
            whole(shell, bytes)
        }
        Kind::Events => Ok(events(shell, response.bytes_stream().boxed(), choices)),
        Kind::Unknown => {
            // The first byte decides. Only servers without a useful content type need this wait, and they are rare.
            let mut stream = response.bytes_stream().boxed();
            let mut first = Vec::new();
            let mut json = false;
            while let Some(item) = stream.next().await {
                let byte = item.as_ref().ok().and_then(|bytes| bytes.trim_ascii_start().first().copied());
                let decided = byte.is_some() || item.is_err();
                first.push(item);
                if decided {
                    json = byte == Some(b'{');
                    break;
                }
            }
            let all = futures_util::stream::iter(first).chain(stream).boxed();
            if !json {
                return Ok(events(shell, all, choices));
            }
            let bytes = Response::from(http::Response::new(Body::wrap_stream(all))).bytes().await;
            whole(shell, bytes)
        }
    }
}

fn whole(shell: Shell, bytes: Result<Bytes, reqwest::Error>) -> Result<Read<Response>, BoxError> {
    let bytes = bytes.map_err(OpenAIError::Reqwest)?;
    let reply = completion::reply_of(&bytes);
    Ok(Read::whole(shell.around(bytes), reply))
}

fn events(shell: Shell, upstream: Upstream, choices: usize) -> Read<Response> {
    let upstream = Shared(Arc::new(Mutex::new(upstream.fuse().boxed())));
    // The stream's errors are boxed, because the idle timeout has its own error, and only reqwest can create its
    // errors.
    let mut rest = upstream.clone().map_err(BoxError::from);
    let upstream = upstream.map_err(BoxError::from);
    Read::stream(upstream, SseFold::new(choices), BoxError::from, move |mut recorded| {
        // A recorded stream ends with `[DONE]`. Bytes that the server sends after it are passed on too.
        shell.around(Body::wrap_stream(stream::poll_fn(move |context| {
            match ready!(recorded.poll_next_unpin(context)) {
                None if !recorded.is_stalled() => rest.poll_next_unpin(context),
                item => Poll::Ready(item),
            }
        })))
    })
}

/// Returns `true` if the body has an encoding that the HTTP client has not decoded. A client that decodes it also
/// removes the header.
fn is_encoded(response: &Response) -> bool {
    let codings = response.headers().get_all(CONTENT_ENCODING).iter();
    codings.flat_map(|codings| codings.as_bytes().split(|byte| *byte == b',')).any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}

enum Kind {
    Whole,
    Events,
    Unknown,
}

/// Returns the kind of the response by its content type. The request does not decide, because some gateways answer a
/// request for a stream with a whole response.
fn kind(response: &Response) -> Kind {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => Kind::Events,
        "application/json" => Kind::Whole,
        kind if kind.ends_with("+json") => Kind::Whole,
        _ => Kind::Unknown,
    }
}

/// A response without its body.
struct Shell {
    url: reqwest::Url,
    head: http::Response<()>,
}

impl Shell {
    fn of(response: &Response) -> Self {
        let mut head = http::Response::new(());
        *head.status_mut() = response.status();
        *head.version_mut() = response.version();
        *head.headers_mut() = response.headers().clone();
        *head.extensions_mut() = response.extensions().clone();
        Self { url: response.url().clone(), head }
    }

    fn around(self, body: impl Into<Body>) -> Response {
        let (mut head, ()) = self.head.into_parts();
        // The builder cannot fail with only a URL. If it did, only the URL would be missing.
        if let Ok(addressed) = http::Response::builder().url(self.url).body(()) {
            head.extensions.extend(addressed.into_parts().0.extensions);
        }
        Response::from(http::Response::from_parts(head, body.into()))
    }
}

/// A stream for two readers. The second one continues where the first one stopped.
#[derive(Clone)]
struct Shared(Arc<Mutex<Upstream>>);

impl Stream for Shared {
    type Item = Result<Bytes, reqwest::Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_next_unpin(context)
    }
}
