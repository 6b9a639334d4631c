//! Requests and responses that pass through: their frames, trailers and size hints stay, and they are never buffered.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError,
    http::{CONVERSATION_ID, EXCHANGE_ID, HistoryBody, STATELESS},
};

use super::support::{ASK, EVENTS, History, JSON, PATH, WHOLE, answer, answer_with, ask, events, id};

/// A body that counts how often it was polled. It has two frames of data and trailers.
struct Counted {
    polled: Arc<AtomicUsize>,
    frames: Vec<Frame<Bytes>>,
}

impl Counted {
    fn new() -> (Self, Arc<AtomicUsize>) {
        let trailers = HeaderMap::from_iter([("x-checksum".parse().unwrap(), HeaderValue::from_static("7"))]);
        let polled = Arc::new(AtomicUsize::new(0));
        let frames = vec![Frame::trailers(trailers), Frame::data("two".into()), Frame::data("one".into())];
        (Self { polled: Arc::clone(&polled), frames }, polled)
    }
}

impl Body for Counted {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.polled.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(self.frames.pop().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(3);
        hint.set_upper(17);
        hint
    }
}

/// Reads a body frame by frame, and checks that no frame is read ahead.
async fn check<B>(mut body: B, polled: &AtomicUsize)
where
    B: Body<Data = Bytes, Error: std::fmt::Debug> + Unpin,
{
    assert_eq!(polled.load(Ordering::Relaxed), 0);
    assert_eq!((body.size_hint().lower(), body.size_hint().upper(), body.is_end_stream()), (3, Some(17), false));
    for (number, expected) in ["one", "two"].into_iter().enumerate() {
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), expected);
        assert_eq!(polled.load(Ordering::Relaxed), number + 1);
    }
    let trailers = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(trailers["x-checksum"], "7");
    assert!(body.is_end_stream() && body.frame().await.is_none());
}

/// Sends a request whose body and response pass through.
async fn pass(history: &History, request: http::request::Builder) {
    let (body, polled) = Counted::new();
    let service = service_fn(move |request: Request<HistoryBody>| {
        let polled = Arc::clone(&polled);
        async move {
            let (head, body) = request.into_parts();
            assert!([CONVERSATION_ID, EXCHANGE_ID, STATELESS].iter().all(|name| !head.headers.contains_key(*name)));
            assert_eq!(head.headers["accept-encoding"], "gzip");
            check(body, &polled).await;
            let (body, polled) = Counted::new();
            let mut response = answer_with(JSON, body);
            response.extensions_mut().insert(polled);
            Ok::<_, BoxError>(response)
        }
    });
    let request = request.header("accept-encoding", "gzip").header(EXCHANGE_ID, "not valid").body(body).unwrap();
    let response = history.layer().layer(service).oneshot(request).await.unwrap();
    let polled: Arc<AtomicUsize> = Arc::clone(response.extensions().get().unwrap());
    check(response.into_body(), &polled).await;
    assert_eq!(history.log().await, [""; 0]);
}

#[tokio::test]
async fn requests_without_history_pass_frame_by_frame() {
    let history = History::new();
    let named = |method, path: &str| Request::builder().method(method).uri(path).header(CONVERSATION_ID, id().as_str());
    pass(&history, named(Method::POST, "/v1/embeddings")).await;
    pass(&history, named(Method::POST, "/v1/threads/thread_1/messages")).await;
    pass(&history, named(Method::POST, "/v1/messages/count_tokens")).await;
    pass(&history, named(Method::GET, PATH)).await;
    pass(&history, Request::post("/v1/responses/resp_1/cancel")).await;
}

#[tokio::test]
async fn stateless_requests_pass_frame_by_frame() {
    let (history, (body, polled)) = (History::new(), Counted::new());
    let service = service_fn(move |request: Request<HistoryBody>| {
        let polled = Arc::clone(&polled);
        async move {
            check(request.into_body(), &polled).await;
            Ok::<_, BoxError>(answer(JSON, WHOLE))
        }
    });
    let request = Request::post(PATH).header(STATELESS, "true").body(body).unwrap();
    let response = history.layer().layer(service).oneshot(request).await.unwrap();
    assert_eq!(response.into_body().size_hint().exact(), Some(WHOLE.len() as u64));
    assert_eq!(history.log().await, [""; 0]);
}

#[tokio::test]
async fn an_answer_that_is_not_read_passes_frame_by_frame() {
    let lines = "application/x-ndjson";
    for (status, kind, encoding) in [
        (429, EVENTS, "identity"),
        (500, EVENTS, "identity"),
        (302, EVENTS, "identity"),
        (200, EVENTS, "gzip"),
        (200, lines, "identity"),
    ] {
        let (history, (body, polled)) = (History::new(), Counted::new());
        let mut response = answer_with(kind, body);
        *response.status_mut() = status.try_into().unwrap();
        response.headers_mut().insert("content-encoding", encoding.parse().unwrap());
        let (_, response) = history.call(ask(ASK), response).await;
        let response = response.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["content-encoding"].as_bytes()),
            (status, encoding.as_bytes())
        );
        check(response.into_body(), &polled).await;
        assert_eq!(history.log().await, [""; 0]);
    }
}

#[tokio::test]
async fn the_head_of_a_response_stays() {
    let history = History::new();
    for (kind, body) in [(JSON, WHOLE.to_owned()), (EVENTS, events(&["a"])), ("text/plain", "x".into())] {
        let (_, response) = history.call(ask(ASK), answer(kind, body)).await;
        let response = response.unwrap();
        assert_eq!((response.status().as_u16(), response.headers()["x-request-id"].as_bytes()), (201, &b"r1"[..]));
        assert_eq!(response.headers()["content-type"], kind);
    }
}
