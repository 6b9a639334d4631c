//! A provider in the same process that gives scripted responses.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use tower::Service;
use tower_chat_history::{BoxError, http::HistoryBody};

/// A response of the provider.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// A whole response with this status.
    Whole(u16, String),
    /// A stream of these events.
    Events(Vec<String>),
    /// A stream that breaks off with an error after these events.
    Broken(Vec<String>),
    /// A stream that stalls after these events.
    Stalled(Vec<String>),
}

impl Answer {
    pub(super) const fn is_stream(&self) -> bool {
        !matches!(self, Self::Whole(..))
    }

    fn response(self) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
        let status = if let Self::Whole(status, _) = self { status } else { 200 };
        let kind = if self.is_stream() { "text/event-stream" } else { "application/json" };
        let frame = |text: String| Ok(http_body::Frame::data(Bytes::from(text)));
        let frames = match self {
            Self::Whole(_, body) => stream::iter([frame(body)]).boxed(),
            Self::Events(events) => stream::iter(events).map(frame).boxed(),
            Self::Broken(events) => stream::iter(events).map(frame).chain(stream::iter([Err("broken".into())])).boxed(),
            Self::Stalled(events) => stream::iter(events).map(frame).chain(stream::pending()).boxed(),
        };
        let response = Response::builder().status(status).header("content-type", kind);
        response.body(StreamBody::new(frames).boxed_unsync()).unwrap()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Upstream(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    answers: VecDeque<Answer>,
    requests: Vec<String>,
}

impl Upstream {
    pub(super) fn push(&self, answer: Answer) {
        self.0.lock().unwrap().answers.push_back(answer);
    }

    /// Forgets the answers that no request has got.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap().answers.clear();
    }

    /// Returns the bodies of all requests.
    pub(super) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }
}

impl Service<Request<HistoryBody>> for Upstream {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<HistoryBody>) -> Self::Future {
        let upstream = self.clone();
        Box::pin(async move {
            let body = request.into_body().collect().await?.to_bytes();
            let mut state = upstream.0.lock().unwrap();
            state.requests.push(String::from_utf8(body.to_vec())?);
            Ok(state.answers.pop_front().ok_or("no answer is left")?.response())
        })
    }
}
