//! Responses: their kind, and the same response with a body that is recorded.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt as _,
    stream::{self, Fuse},
};
use http::{HeaderMap, Response, header::CONTENT_TYPE, response::Parts};
use http_body::Frame;
use http_body_util::BodyStream;
use tower_chat_history::{
    BoxError, Reply,
    adapt::{Asked, Read},
    report::ResponseShape,
};

use super::{body::HistoryBody, fold::SseFold, limits::HttpLimits, request::is_encoded, routes::Routes};

/// Reads the response to a call of one of these routes: finds the reply in a whole response, or records a stream.
///
/// A response with an error status is the result of a failed call.
///
/// # Errors
///
/// Returns the error of the body, if it breaks off before it is known to be a stream, or before its end if it is whole.
pub async fn read_response(
    routes: &Routes,
    limits: HttpLimits,
    response: Response<HistoryBody>,
    asked: Asked,
) -> Result<Read<Response<HistoryBody>>, BoxError> {
    if !response.status().is_success() {
        return Ok(failed(routes, response, asked).await);
    }
    let unreadable = |response, shape| Ok(Read::whole(response, Reply::unreadable(shape)));
    let Some(wire) = routes.of_dialect(asked.dialect) else {
        return unreadable(response, ResponseShape::NoMessage);
    };
    if is_encoded(response.headers()) {
        return unreadable(response, ResponseShape::Encoded);
    }
    let (head, mut body) = response.into_parts();
    let is_whole = match kind(&head.headers) {
        Kind::Whole => true,
        Kind::Events => false,
        Kind::Unknown => begins_with_brace(&mut body, limits.response).await?,
    };
    if !is_whole {
        let fold = SseFold::new(wire.fold(asked.choices), limits.event);
        return Ok(events(head, body, fold));
    }
    if !body.read_ahead(limits.response, |_| false).await? {
        return unreadable(Response::from_parts(head, body), ResponseShape::TooLarge);
    }
    let reply = wire.reply(body.read());
    Ok(Read::whole(Response::from_parts(head, body), reply))
}

/// The largest body in which a wire looks for a repair. Refusals are small.
const MAX_REFUSAL: usize = 64 << 10;

/// Returns the result for a response with an error status. If the call can be repeated, the wire looks for a repair in
/// the body. All bytes of the body are passed on.
async fn failed(routes: &Routes, response: Response<HistoryBody>, asked: Asked) -> Read<Response<HistoryBody>> {
    let (head, mut body) = response.into_parts();
    let is_read = asked.is_repairable && head.status.is_client_error() && !is_encoded(&head.headers);
    let mut repair = None;
    if let Some(wire) = routes.of_dialect(asked.dialect).filter(|_| is_read)
        && body.peek(MAX_REFUSAL).await
    {
        repair = wire.repair(head.status, body.read());
    }
    let error_type = head.status.as_str().to_owned();
    Read::failed(Response::from_parts(head, body), error_type).with_repair(repair)
}

/// Returns a response with the recorded stream of the body.
fn events(head: Parts, body: HistoryBody, fold: SseFold) -> Read<Response<HistoryBody>> {
    let frames = Shared(Arc::new(Mutex::new(BodyStream::new(body).fuse())));
    let mut rest = frames.clone();
    Read::stream(frames, fold, BoxError::from, move |mut recorded| {
        // A recorded stream ends with the event after which clients stop reading. Frames after it are passed on too.
        let all = stream::poll_fn(move |context| match ready!(recorded.poll_next_unpin(context)) {
            None if !recorded.is_stalled() => rest.poll_next_unpin(context),
            item => Poll::Ready(item),
        });
        Response::from_parts(head, HistoryBody::of_frames(all))
    })
}

/// Returns `true` if the first byte that is not white space begins an object. Only servers without a useful content
/// type need this wait, and they are rare.
async fn begins_with_brace(body: &mut HistoryBody, limit: usize) -> Result<bool, BoxError> {
    let mut first = None;
    let found = |bytes: &[u8]| {
        first = bytes.trim_ascii_start().first().copied();
        first.is_some()
    };
    body.read_ahead(limit, found).await?;
    Ok(first == Some(b'{'))
}

enum Kind {
    Whole,
    Events,
    Unknown,
}

/// Returns the kind of a response by its content type. The request does not decide, because some gateways answer a
/// request for a stream with a whole response.
fn kind(headers: &HeaderMap) -> Kind {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => Kind::Events,
        "application/json" => Kind::Whole,
        kind if kind.ends_with("+json") => Kind::Whole,
        _ => Kind::Unknown,
    }
}

/// A stream for two readers. The second one continues where the first one stopped.
#[derive(Clone)]
struct Shared(Arc<Mutex<Fuse<BodyStream<HistoryBody>>>>);

impl Stream for Shared {
    type Item = Result<Frame<Bytes>, BoxError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_next_unpin(context)
    }
}
