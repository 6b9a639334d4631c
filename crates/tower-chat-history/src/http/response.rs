//! Responses: their kind, and the same response with a body that is recorded.

use std::time::Duration;

use http::{HeaderMap, Response, StatusCode, header::CONTENT_TYPE, response::Parts};
use http_body_util::BodyStream;
use tower_chat_history_core::json::{BOM, Object};

use super::{
    body::{HistoryBody, HttpLimits, blocking},
    request::is_encoded,
    sse::SseFold,
    wire::Wire,
};
use crate::{
    adapt::{CallFacts, HEAD_TIMEOUT, Reading, within},
    call::Reply,
    error::BoxError,
    refusal::Remedy,
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
            if asked.is_repeatable
                && let Some(remedy) = refusal_at_start(&mut body, wire).await
            {
                return Ok(Reading::failed(Response::from_parts(head, body), "stream").with_remedy(Some(remedy)));
            }
            let fold = SseFold::new(wire.fold(asked.choices), limits.event);
            Ok(events(head, body, fold))
        }
        Kind::Other(shape) => Ok(unreadable(Response::from_parts(head, body), shape)),
        Kind::Whole if body.read_ahead(limits.response, |_| false).await? => {
            let bytes = body.read().clone();
            let reply = blocking(bytes.len(), move || wire.reply(&bytes)).await;
            // Some gateways answer 200 with an error.
            if asked.is_repeatable
                && reply.messages.is_empty()
                && let Some(remedy) = wire.remedy(head.status, body.read())
            {
                return Ok(Reading::failed(Response::from_parts(head, body), "error").with_remedy(Some(remedy)));
            }
            Ok(Reading::whole(Response::from_parts(head, body), reply))
        }
        Kind::Whole => Ok(unreadable(Response::from_parts(head, body), ResponseShape::TooLarge)),
    }
}

/// Returns the result for a successful response whose reply cannot be read.
fn unreadable(response: Response<HistoryBody>, shape: ResponseShape) -> Reading<Response<HistoryBody>> {
    Reading::whole(response, Reply::unreadable(shape))
}

/// The largest body in which a wire looks for a remedy. Refusals are small.
const MAX_REFUSAL: usize = 1 << 20;

/// The longest time for which the body of a refusal is read. The turn is not over until then, so other calls may wait
/// for it.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the result for a response with an error status. If the call can be repeated, the wire looks for a remedy in
/// the body. All bytes of the body are passed on. A body that does not end in time has no remedy.
async fn failed(response: Response<HistoryBody>, asked: &CallFacts) -> Reading<Response<HistoryBody>> {
    let (head, mut body) = response.into_parts();
    let is_read = asked.is_repeatable && !is_encoded(&head.headers);
    let mut remedy = None;
    let limit = asked.idle_timeout.unwrap_or(REFUSAL_TIMEOUT).min(REFUSAL_TIMEOUT);
    if let Some(wire) = asked.read_by.get::<&'static dyn Wire>().filter(|_| is_read)
        && within(Some(limit), body.peek(MAX_REFUSAL)).await == Ok(true)
    {
        remedy = wire.remedy(head.status, body.read());
    }

    let error_type = head.status.as_str().to_owned();
    Reading::failed(Response::from_parts(head, body), error_type).with_remedy(remedy)
}

/// The longest beginning of a stream in which a refusal is looked for.
const MAX_HEAD: usize = 16 << 10;

/// Returns the remedy for a stream that begins with an error. The bytes that were read stay in the body.
async fn refusal_at_start(body: &mut HistoryBody, wire: &dyn Wire) -> Option<Remedy> {
    let refused = async {
        loop {
            match first_event(body.read()) {
                Some(FirstEvent::Error) => return true,
                Some(FirstEvent::Other) => return false,
                None if !body.has_more() || body.read().len() > MAX_HEAD => return false,
                None => body.read_more().await,
            }
        }
    };
    if within(Some(HEAD_TIMEOUT), refused).await != Ok(true) {
        return None;
    }
    wire.remedy(StatusCode::OK, body.read())
}

/// The first event of a stream that says something.
#[derive(Debug, PartialEq, Eq)]
enum FirstEvent {
    Error,
    Other,
}

/// Returns the first event that is not a ping and not a statement that the response has begun. Returns `None` if more
/// bytes are needed.
fn first_event(bytes: &[u8]) -> Option<FirstEvent> {
    let end = bytes.iter().rposition(|byte| matches!(byte, b'\n' | b'\r'))?;
    let Ok(text) = std::str::from_utf8(bytes.get(..end)?) else { return Some(FirstEvent::Other) };
    for line in text.split(['\n', '\r']) {
        let Some(data) = line.strip_prefix("data:") else { continue };
        let Some(event) = Object::read(data.trim()) else { return Some(FirstEvent::Other) };
        let kind = event.text("type").unwrap_or_default();
        match &*kind {
            "ping" | "response.created" | "response.queued" | "response.in_progress" => {}
            "error" | "response.failed" => return Some(FirstEvent::Error),
            _ if event.object("error").is_some() || event.text("error").is_some() => return Some(FirstEvent::Error),
            _ => return Some(FirstEvent::Other),
        }
    }
    None
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
    fn a_stream_begins_with_the_first_event_that_says_something() {
        for (text, expected) in [
            ("", None),
            ("data: {\"error\":{\"message\":\"x\"}}", None),
            (": ping\n\n", None),
            ("event: ping\ndata: {\"type\": \"ping\"}\n\n", None),
            ("data: {\"type\":\"response.created\",\"response\":{\"error\":null}}\n\n", None),
            ("data: {\"error\":{\"message\":\"x\"}}\n", Some(FirstEvent::Error)),
            (": ping\r\n\r\ndata:{\"error\":\"x\"}\r\n", Some(FirstEvent::Error)),
            ("event: error\ndata: {\"type\":\"error\",\"error\":{}}\n\n", Some(FirstEvent::Error)),
            (
                "data: {\"type\":\"response.created\"}\n\ndata: {\"type\":\"response.failed\"}\n\n",
                Some(FirstEvent::Error),
            ),
            ("data: {\"choices\":[],\"error\":null}\n", Some(FirstEvent::Other)),
            ("data: [DONE]\n", Some(FirstEvent::Other)),
            ("data: {\"type\":\"message_start\"}\ndata: {\"type\":\"error\"}\n", Some(FirstEvent::Other)),
        ] {
            assert_eq!(first_event(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(first_event(b"data: \xff\n"), Some(FirstEvent::Other));
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
