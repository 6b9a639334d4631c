//! Responses: their kind, and the same response with a body that is recorded.

use std::time::Duration;

use http::{HeaderMap, Response, header::CONTENT_TYPE, response::Parts};
use http_body_util::BodyStream;
use tower_chat_history_core::json::BOM;

use super::{
    body::{HistoryBody, HttpLimits, blocking},
    request::is_encoded,
    sse::SseFold,
    wire::Wire,
};
use crate::{
    adapt::{CallFacts, Reading, within},
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
) -> Result<Reading<Response<HistoryBody>>, BoxError> {
    if !response.status().is_success() {
        return Ok(failed(response, &asked).await);
    }
    let Some(wire) = asked.read_by.get::<&'static dyn Wire>().copied() else {
        return Ok(unreadable(response, ResponseShape::UnknownCall));
    };
    if is_encoded(response.headers()) {
        return Ok(unreadable(response, ResponseShape::Encoded));
    }

    let (head, mut body) = response.into_parts();
    let kind = match kind_of_headers(&head.headers) {
        Some(kind) => kind,
        None => kind_of_body(&mut body).await?,
    };
    match kind {
        Kind::Events => {
            let fold = SseFold::new(wire.fold(asked.choices), limits.event);
            Ok(events(head, body, fold))
        }
        Kind::Other(shape) => Ok(unreadable(Response::from_parts(head, body), shape)),
        Kind::Whole if body.read_ahead(limits.response, |_| false).await? => {
            let bytes = body.read().clone();
            let reply = blocking(bytes.len(), move || wire.reply(&bytes)).await;
            Ok(Reading::whole(Response::from_parts(head, body), reply))
        }
        Kind::Whole => Ok(unreadable(Response::from_parts(head, body), ResponseShape::TooLarge)),
    }
}

/// Returns the result for a successful response whose reply cannot be read.
fn unreadable(response: Response<HistoryBody>, shape: ResponseShape) -> Reading<Response<HistoryBody>> {
    Reading::whole(response, Reply::unreadable(shape))
}

/// The largest body in which a wire looks for a repair. Refusals are small.
const MAX_REFUSAL: usize = 64 << 10;

/// The longest time for which the body of a refusal is read. The turn is not over until then, so other calls may wait
/// for it.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the result for a response with an error status. If the call can be repeated, the wire looks for a repair in
/// the body. All bytes of the body are passed on. A body that does not end in time has no repair.
async fn failed(response: Response<HistoryBody>, asked: &CallFacts) -> Reading<Response<HistoryBody>> {
    let (head, mut body) = response.into_parts();
    let is_read = asked.is_repairable && head.status.is_client_error() && !is_encoded(&head.headers);
    let mut repair = None;
    let limit = asked.idle_timeout.unwrap_or(REFUSAL_TIMEOUT).min(REFUSAL_TIMEOUT);
    if let Some(wire) = asked.read_by.get::<&'static dyn Wire>().filter(|_| is_read)
        && within(Some(limit), body.peek(MAX_REFUSAL)).await == Ok(true)
    {
        repair = wire.repair(head.status, body.read());
    }

    let error_type = head.status.as_str().to_owned();
    Reading::failed(Response::from_parts(head, body), error_type).with_repair(repair)
}

/// Returns a response with the recorded stream of the body. The frames after the event after which clients stop reading
/// are passed on, too.
fn events(head: Parts, body: HistoryBody, fold: SseFold) -> Reading<Response<HistoryBody>> {
    Reading::stream(BodyStream::new(body), fold, BoxError::from, move |recorded| {
        Response::from_parts(head, HistoryBody::of_frames(recorded.with_rest()))
    })
}

/// The names of the fields of server-sent events.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// The most bytes that are read to find the kind of a body without a useful content type.
const MOST: usize = 16 << 10;

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One JSON value.
    Whole,
    /// Server-sent events.
    Events,
    /// Neither. The response is passed on, and counts as one of this shape.
    Other(ResponseShape),
}

/// Returns the kind of a response by its content type, or `None` if the type says nothing: the first bytes then decide.
/// The request does not decide, because some gateways answer a request for a stream with a whole response.
fn kind_of_headers(headers: &HeaderMap) -> Option<Kind> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();

    if kind.eq_ignore_ascii_case("application/json") {
        return Some(Kind::Whole);
    }
    match kind.to_ascii_lowercase().as_str() {
        "text/event-stream" => Some(Kind::Events),
        kind if kind.ends_with("+json") => Some(Kind::Whole),
        // Servers and proxies set these for bodies of any kind.
        "" | "application/octet-stream" => None,
        kind if kind.starts_with("text/") => None,
        _ => Some(Kind::Other(ResponseShape::ContentType)),
    }
}

/// Returns the kind of a response by its first bytes that are not white space.
async fn kind_of_body(body: &mut HistoryBody) -> Result<Kind, BoxError> {
    loop {
        let is_within = body.read_ahead(MOST, |_| true).await?;
        if let Some(kind) = begun(body.read()) {
            return Ok(kind);
        }
        if !is_within || !body.has_more() {
            return Ok(Kind::Other(ResponseShape::NotJson));
        }
    }
}

/// Returns the kind of a body that begins so, or `None` if more bytes are needed.
fn begun(bytes: &[u8]) -> Option<Kind> {
    if bytes.len() < BOM.len() && BOM.starts_with(bytes) {
        return None;
    }
    let text = bytes.strip_prefix(BOM).unwrap_or(bytes).trim_ascii_start();
    let is_other = Some(Kind::Other(ResponseShape::NotJson));
    match text.first()? {
        b'{' => Some(Kind::Whole),
        b':' => Some(Kind::Events),
        _ => match text.iter().position(|byte| matches!(byte, b':' | b'\n' | b'\r')) {
            Some(end) if FIELDS.contains(&&text[..end]) => Some(Kind::Events),
            None if FIELDS.iter().any(|field| field.starts_with(text)) => None,
            Some(_) | None => is_other,
        },
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const OTHER: Option<Kind> = Some(Kind::Other(ResponseShape::ContentType));

    #[test]
    fn the_content_type_decides_if_it_is_useful() {
        for (kind, expected) in [
            ("text/event-stream", Some(Kind::Events)),
            ("Text/Event-Stream; charset=utf-8", Some(Kind::Events)),
            ("application/json; charset=utf-8", Some(Kind::Whole)),
            ("application/problem+json", Some(Kind::Whole)),
            ("", None),
            ("text/plain", None),
            ("text/html; charset=utf-8", None),
            ("application/octet-stream", None),
            ("application/x-ndjson", OTHER),
            ("application/jsonl", OTHER),
            ("application/vnd.amazon.eventstream", OTHER),
            ("image/png", OTHER),
        ] {
            let headers = [(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect();
            assert_eq!(kind_of_headers(&headers), expected, "{kind}");
        }
        assert_eq!(kind_of_headers(&HeaderMap::new()), None);
    }

    #[test]
    fn the_first_bytes_decide_otherwise() {
        let other = Some(Kind::Other(ResponseShape::NotJson));
        for (bytes, expected) in [
            (&b""[..], None),
            (b" \n", None),
            (b"\xef\xbb", None),
            (b"\xef\xbb\xbf", None),
            (b"\xef\xbb\xbf {", Some(Kind::Whole)),
            (b"\n{\"", Some(Kind::Whole)),
            (b": ping", Some(Kind::Events)),
            (b"dat", None),
            (b"data", None),
            (b"data:", Some(Kind::Events)),
            (b"\r\nevent: x", Some(Kind::Events)),
            (b"id\n", Some(Kind::Events)),
            (b"retry:1", Some(Kind::Events)),
            (b"datax", other),
            (b"<html>", other),
            (b"[1]", other),
            (b"error: no", other),
            (b"\xff", other),
        ] {
            assert_eq!(begun(bytes), expected, "{bytes:?}");
        }
    }
}
