//! Responses: their kind, and the same response with a body that is recorded.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use http::{HeaderMap, Response, header::CONTENT_TYPE, response::Parts};
use http_body::{Body, Frame};
use http_body_util::BodyStream;
use tower_chat_history::{
    BoxError,
    adapt::{Asked, Read},
    report::ResponseShape,
};

use super::{
    body::{HistoryBody, ReadBody},
    fold::SseFold,
    limits::HttpLimits,
    request::is_encoded,
    routes::Routes,
    wire::Wire,
};

/// Reads the response to a call of one of these routes: finds the reply in a whole response, or records a stream.
///
/// A response with an error status is the result of a failed call. If the save of a whole response fails, the error is
/// [`Unsaved<Response<Bytes>>`](tower_chat_history::Unsaved).
///
/// # Errors
///
/// Returns the error of the body, if it breaks off before it is known to be a stream, or before its end if it is whole.
pub async fn read_response<B>(
    routes: &Routes,
    limits: HttpLimits,
    response: Response<B>,
    asked: Asked,
) -> Result<Read<Response<HistoryBody<B>>>, BoxError>
where
    B: Body<Error: Into<BoxError>> + Send + 'static,
{
    if !response.status().is_success() {
        let status = response.status().as_str().to_owned();
        return Ok(Read::failed(response.map(HistoryBody::passed), status));
    }
    let Some(wire) = routes.of_dialect(asked.dialect) else {
        return Ok(Read::unreadable(response.map(HistoryBody::passed), ResponseShape::NoMessage));
    };
    if is_encoded(response.headers()) {
        return Ok(Read::unreadable(response.map(HistoryBody::passed), ResponseShape::Encoded));
    }
    let (head, body) = response.into_parts();
    let mut body = ReadBody::new(body);
    let is_whole = match kind(&head.headers) {
        Kind::Whole => true,
        Kind::Events => false,
        Kind::Unknown => begins_with_brace(&mut body, limits).await?,
    };
    if is_whole { whole(wire, limits, head, body).await } else { Ok(events(wire, limits, head, body, asked.choices)) }
}

async fn whole<B>(
    wire: &dyn Wire,
    limits: HttpLimits,
    head: Parts,
    mut body: ReadBody<B>,
) -> Result<Read<Response<HistoryBody<B>>>, BoxError>
where
    B: Body<Error: Into<BoxError>> + Send + 'static,
{
    if !body.fill(limits.response, |_| false).await? {
        let response = Response::from_parts(head, HistoryBody::read(body));
        return Ok(Read::unreadable(response, ResponseShape::TooLarge));
    }
    let (bytes, trailers) = body.into_whole();
    let reply = wire.reply(&bytes);
    let with_trailers = move |response: Response<Bytes>| response.map(|bytes| HistoryBody::whole(bytes, trailers));
    Ok(Read::whole(Response::from_parts(head, bytes), reply).map(with_trailers))
}

fn events<B>(
    wire: &dyn Wire,
    limits: HttpLimits,
    head: Parts,
    body: ReadBody<B>,
    choices: usize,
) -> Read<Response<HistoryBody<B>>>
where
    B: Body<Error: Into<BoxError>> + Send + 'static,
{
    let frames = BodyStream::new(HistoryBody::read(body)).fuse().boxed();
    let frames = Shared(Arc::new(Mutex::new(frames)));
    let mut rest = frames.clone();
    let fold = SseFold::new(wire.fold(choices), limits.event);
    Read::stream(frames, fold, BoxError::from, move |mut recorded| {
        // A recorded stream ends with the event after which clients stop reading. Frames after it are passed on too.
        let all = stream::poll_fn(move |context| match ready!(recorded.poll_next_unpin(context)) {
            None if !recorded.is_stalled() => rest.poll_next_unpin(context),
            item => Poll::Ready(item),
        });
        Response::from_parts(head, HistoryBody::recorded(all))
    })
}

/// Returns `true` if the first byte that is not white space begins an object. Only servers without a useful content
/// type need this wait, and they are rare.
async fn begins_with_brace<B>(body: &mut ReadBody<B>, limits: HttpLimits) -> Result<bool, BoxError>
where
    B: Body<Error: Into<BoxError>>,
{
    let mut first = None;
    let found = |frame: &Frame<Bytes>| {
        first = frame.data_ref().and_then(|bytes| bytes.trim_ascii_start().first().copied());
        first.is_some()
    };
    body.fill(limits.response, found).await?;
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
struct Shared(Arc<Mutex<BoxStream<'static, Result<Frame<Bytes>, BoxError>>>>);

impl Stream for Shared {
    type Item = Result<Frame<Bytes>, BoxError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_next_unpin(context)
    }
}
