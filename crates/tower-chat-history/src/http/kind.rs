//! The kind of a response: whole, a stream of events, or neither.

use http::{HeaderMap, header::CONTENT_TYPE};
use tower_chat_history_core::json::BOM;

use super::body::HistoryBody;
use crate::{error::BoxError, report::ResponseShape};

/// The names of the fields of server-sent events.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// The most bytes that are read to find the kind of a body without a useful content type.
const MOST: usize = 16 << 10;

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One JSON value.
    Whole,
    /// Server-sent events.
    Events,
    /// Neither. The response is passed on, and counts as one of this shape.
    Other(ResponseShape),
}

/// Returns the kind of a response by its content type, or `None` if the type says nothing: the first bytes then decide.
/// The request does not decide, because some gateways answer a request for a stream with a whole response.
pub(super) fn of_headers(headers: &HeaderMap) -> Option<Kind> {
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
pub(super) async fn of_body(body: &mut HistoryBody) -> Result<Kind, BoxError> {
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
            assert_eq!(of_headers(&headers), expected, "{kind}");
        }
        assert_eq!(of_headers(&HeaderMap::new()), None);
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
