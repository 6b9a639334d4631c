//! Responses: the same response with a body that is recorded.

use std::time::Duration;

use http::{Response, response::Parts};
use http_body_util::BodyStream;

use super::{
    blocking::blocking,
    body::HistoryBody,
    fold::SseFold,
    kind::{self, Kind},
    limits::HttpLimits,
    request::is_encoded,
    routes::Route,
};
use crate::{
    adapt::{CallFacts, Read, within},
    call::Reply,
    error::BoxError,
    report::ResponseShape,
};

/// Reads the response to a call whose body was read by [`open_body`](super::request::open_body): finds the reply in a
/// whole response, or records a stream.
///
/// A response with an error status is the result of a failed call. If the call was not read by `open_body`, its
/// response counts as unreadable ([`ResponseShape::UnknownCall`]) and is passed on.
///
/// # Errors
///
/// Returns the error of the body, if it breaks off before it is known to be a stream, or before its end if it is whole.
pub async fn read_response(
    limits: HttpLimits,
    response: Response<HistoryBody>,
    asked: CallFacts,
) -> Result<Read<Response<HistoryBody>>, BoxError> {
    if !response.status().is_success() {
        return Ok(failed(response, &asked).await);
    }
    let unreadable = |response, shape| Ok(Read::whole(response, Reply::unreadable(shape)));
    let Some(wire) = asked.read_by.get().map(|route: &Route| route.wire()) else {
        return unreadable(response, ResponseShape::UnknownCall);
    };
    if is_encoded(response.headers()) {
        return unreadable(response, ResponseShape::Encoded);
    }
    let (head, mut body) = response.into_parts();
    let kind = match kind::of_headers(&head.headers) {
        Some(kind) => kind,
        None => kind::of_body(&mut body).await?,
    };
    match kind {
        Kind::Events => {
            let fold = SseFold::new(wire.fold(asked.choices), limits.event);
            Ok(events(head, body, fold))
        }
        Kind::Other(shape) => unreadable(Response::from_parts(head, body), shape),
        Kind::Whole if body.read_ahead(limits.response, |_| false).await? => {
            let bytes = body.read().clone();
            let reply = blocking(bytes.len(), move || wire.reply(&bytes)).await;
            Ok(Read::whole(Response::from_parts(head, body), reply))
        }
        Kind::Whole => unreadable(Response::from_parts(head, body), ResponseShape::TooLarge),
    }
}

/// The largest body in which a wire looks for a repair. Refusals are small.
const MAX_REFUSAL: usize = 64 << 10;

/// The longest time for which the body of a refusal is read. The turn is not over until then, so other calls may wait
/// for it.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the result for a response with an error status. If the call can be repeated, the wire looks for a repair in
/// the body. All bytes of the body are passed on. A body that does not end in time has no repair.
async fn failed(response: Response<HistoryBody>, asked: &CallFacts) -> Read<Response<HistoryBody>> {
    let (head, mut body) = response.into_parts();
    let is_read = asked.is_repairable && head.status.is_client_error() && !is_encoded(&head.headers);
    let mut repair = None;
    let limit = asked.idle_timeout.unwrap_or(REFUSAL_TIMEOUT).min(REFUSAL_TIMEOUT);
    if let Some(route) = asked.read_by.get::<Route>().filter(|_| is_read)
        && within(Some(limit), body.peek(MAX_REFUSAL)).await == Ok(true)
    {
        repair = route.wire().repair(head.status, body.read());
    }
    let error_type = head.status.as_str().to_owned();
    Read::failed(Response::from_parts(head, body), error_type).with_repair(repair)
}

/// Returns a response with the recorded stream of the body. The frames after the event after which clients stop reading
/// are passed on, too.
fn events(head: Parts, body: HistoryBody, fold: SseFold) -> Read<Response<HistoryBody>> {
    Read::stream(BodyStream::new(body), fold, BoxError::from, move |recorded| {
        Response::from_parts(head, HistoryBody::of_frames(recorded.with_rest()))
    })
}
