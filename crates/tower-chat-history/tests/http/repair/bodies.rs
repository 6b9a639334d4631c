//! Refusals that are not repaired: their bodies are passed on as they are.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header::CONTENT_ENCODING};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{BoxError, MemoryStore, http::HistoryBody};

use super::{Talk, ask};

const REFUSED: &str = r#"{"error":{"code":"invalid_encrypted_content"}}"#;

type Frames = Vec<Result<Frame<Bytes>, BoxError>>;

/// The data, the trailers and the error of the body that the caller receives, and the number of calls.
type Received = (Vec<u8>, Option<HeaderMap>, Option<String>, usize);

/// Calls a service that answers with this status, these headers and these frames.
async fn answered(status: u16, headers: HeaderMap, frames: fn() -> Frames) -> Received {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let service = service_fn(move |_: Request<HistoryBody>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new(StreamBody::new(stream::iter(frames())));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        *response.headers_mut() = headers.clone();
        async move { Ok::<_, Infallible>(response) }
    });
    let mut body = talk.layer.layer(service).oneshot(ask(r#"{"input":"and?"}"#)).await.unwrap().into_body();
    let (mut data, mut trailers, mut error) = (Vec::new(), None, None);
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(bytes)) => data.extend_from_slice(&bytes),
            Ok(Err(other)) => trailers = other.into_trailers().ok(),
            Err(broken) => {
                error = Some(broken.to_string());
                break;
            }
        }
    }
    (data, trailers, error, calls.load(Ordering::Relaxed))
}

fn data(text: &'static str) -> Result<Frame<Bytes>, BoxError> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

/// Returns the refusal in frames of one byte, and trailers.
fn in_bytes() -> Frames {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-trailer", HeaderValue::from_static("t"));
    let bytes = (0..REFUSED.len()).map(|at| data(&REFUSED[at..=at]));
    bytes.chain([Ok(Frame::trailers(trailers))]).collect()
}

#[tokio::test]
async fn a_refusal_in_pieces_is_repaired_and_the_second_one_is_passed_on_with_its_trailers() {
    let (data, trailers, error, calls) = answered(400, HeaderMap::new(), in_bytes).await;
    assert_eq!((data.as_slice(), error, calls), (REFUSED.as_bytes(), None, 2));
    assert_eq!(trailers.unwrap()["x-trailer"], "t");
}

#[tokio::test]
async fn another_refusal_is_passed_on_byte_for_byte() {
    let frames = || vec![data(r#" {"error": {"code":"other", "#), data(""), data("\"n\":1.50} }")];
    let (data, trailers, error, calls) = answered(400, HeaderMap::new(), frames).await;
    assert_eq!(data, br#" {"error": {"code":"other", "n":1.50} }"#);
    assert_eq!((trailers, error, calls), (None, None, 1));
}

#[tokio::test]
async fn a_refusal_that_breaks_off_is_passed_on_with_its_error() {
    let frames = || vec![data(r#"{"error":"#), data(r#"{"code":"#), Err("reset".into())];
    let (data, _, error, calls) = answered(400, HeaderMap::new(), frames).await;
    assert_eq!((data.as_slice(), error.as_deref(), calls), (&br#"{"error":{"code":"#[..], Some("reset"), 1));
}

#[tokio::test]
async fn a_large_refusal_is_not_repaired() {
    const SPACES: &str = match str::from_utf8(&[b' '; 1 << 20]) {
        Ok(spaces) => spaces,
        Err(_) => "",
    };
    let (data, _, error, calls) =
        answered(400, HeaderMap::new(), || vec![data(REFUSED), data(SPACES), data("x")]).await;
    assert_eq!((data.len(), error, calls), (REFUSED.len() + (1 << 20) + 1, None, 1));
}

#[tokio::test]
async fn an_encoded_refusal_and_one_of_a_proxy_are_not_repaired() {
    let encoded = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
    for (status, headers) in [(400, encoded), (502, HeaderMap::new()), (401, HeaderMap::new())] {
        let (data, _, error, calls) = answered(status, headers, || vec![data(REFUSED)]).await;
        assert_eq!((data.as_slice(), error, calls), (REFUSED.as_bytes(), None, 1), "{status}");
    }
}
