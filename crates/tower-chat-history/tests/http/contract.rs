//! The tower contract: the layer calls the instance that it has polled ready, and nothing before it is ready.

use std::task::Poll;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tokio_test::{assert_pending, assert_ready_ok};
use tower_chat_history::{
    BoxError, ChatHistory,
    http::{HistoryBody, HttpHistory},
};
use tower_test::mock::{self, Mock};

use super::support::{ASK, EVENTS, History, JSON, REPLY, WHOLE, answer, ask, events};

type Answer = Response<Full<Bytes>>;
type Layered = ChatHistory<Mock<Request<HistoryBody>, Answer>, HttpHistory>;

/// Returns the layered service, around a service that is not ready.
fn spawn(history: &History) -> (mock::Spawn<Layered>, mock::Handle<Request<HistoryBody>, Answer>) {
    let (service, mut inner) = mock::spawn_layer(history.layer().clone());
    inner.allow(0);
    (service, inner)
}

/// Polls the readiness for a request with this type of body.
fn poll(service: &mut mock::Spawn<Layered>) -> Poll<Result<(), BoxError>> {
    service.poll_ready::<Request<Full<Bytes>>>()
}

#[tokio::test]
async fn a_call_waits_until_the_inner_service_is_ready() {
    for (kind, body, expected) in
        [(JSON, WHOLE.to_owned(), REPLY), (EVENTS, events(&["a", "0"]), r#"{"role":"assistant","content":"a0"}"#)]
    {
        let history = History::new();
        let (mut service, mut inner) = spawn(&history);
        assert_pending!(poll(&mut service));
        inner.allow(1);
        assert_ready_ok!(poll(&mut service));
        let calling = tokio::spawn(service.call(ask(ASK)));
        let (request, respond) = inner.next_request().await.unwrap();
        assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), ASK);
        assert_pending!(poll(&mut service), "the permit is used");
        respond.send_response(answer(kind, body.clone()));
        let response = calling.await.unwrap().unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), body);
        assert_eq!(history.log().await[1], expected);
    }
}

#[tokio::test]
async fn an_error_of_the_inner_service_is_returned_unchanged() {
    let history = History::new();
    let (mut service, mut inner) = spawn(&history);
    inner.allow(1);
    assert_ready_ok!(poll(&mut service));
    let calling = tokio::spawn(service.call(ask(ASK)));
    let (_, respond) = inner.next_request().await.unwrap();
    respond.send_error(std::io::Error::other("refused"));
    let error = calling.await.unwrap().unwrap_err();
    assert_eq!(error.downcast::<std::io::Error>().unwrap().to_string(), "refused");
    assert_eq!(history.log().await, [""; 0]);
}
