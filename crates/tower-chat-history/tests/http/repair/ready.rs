//! The tower contract of a repaired call: the service is polled for readiness before the second call.

use std::{sync::Arc, task::Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};
use tower::Service as _;
use tower_chat_history::{
    BoxError, ChatHistory, MemoryStore,
    http::{HistoryBody, HttpHistory},
    refusal::Remedy,
    report::TurnOutcome,
};
use tower_test::mock::{self, Handle, Mock};

use super::{Talk, ask};

type Answer = Response<Full<Bytes>>;
type Layered = ChatHistory<Mock<Request<HistoryBody>, Answer>, HttpHistory>;

const ASK: &str = r#"{"model":"gpt-5.5","input":"and?"}"#;
const REFUSED: &str =
    r#"{"error":{"message":"","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}"#;
const WHOLE: &str = r#"{"output":[{"type":"message","role":"assistant","content":[]}],"status":"completed"}"#;

fn refused() -> Answer {
    Response::builder().status(400).body(Full::from(REFUSED)).unwrap()
}

/// Returns a conversation with an encrypted item, and a service whose readiness the test decides.
async fn spawn() -> (Talk<MemoryStore>, mock::Spawn<Layered>, Handle<Request<HistoryBody>, Answer>) {
    let talk = Talk::new(Arc::new(MemoryStore::new()));
    talk.ok(1).await;
    let (service, mut inner) = mock::spawn_layer(talk.layer.clone());
    inner.allow(0);
    (talk, service, inner)
}

/// Makes the first call of a turn, which is refused. Returns the call.
async fn refuse_first(
    service: &mut mock::Spawn<Layered>,
    inner: &mut Handle<Request<HistoryBody>, Answer>,
) -> task::Spawn<impl Future<Output = Result<Response<HistoryBody>, BoxError>> + use<>> {
    inner.allow(1);
    assert_ready_ok!(service.poll_ready::<Request<Full<Bytes>>>());
    let mut calling = task::spawn(service.get_mut().call(ask(ASK)));
    assert_pending!(calling.poll());
    let (_, respond) = inner.next_request().await.unwrap();
    respond.send_response(refused());
    calling
}

#[tokio::test]
async fn the_second_call_waits_until_the_service_is_ready() {
    let (talk, mut service, mut inner) = spawn().await;
    let mut calling = refuse_first(&mut service, &mut inner).await;
    assert_pending!(calling.poll());
    assert_pending!(inner.poll_request(), "the service is not ready");
    assert!(talk.reports.lock().unwrap().len() == 1, "the turn continues");

    inner.allow(1);
    assert!(calling.is_woken());
    assert_pending!(calling.poll());
    let Poll::Ready(Some((_, respond))) = inner.poll_request() else { panic!("not called") };
    respond.send_response(Response::new(Full::from(WHOLE)));
    assert_eq!(assert_ready_ok!(calling.poll()).status(), 200);
    assert!(
        talk.report().remedies == [Remedy::WithoutEncrypted]
            && matches!(talk.report().outcome, TurnOutcome::Stored { .. })
    );
}

#[tokio::test]
async fn a_service_that_fails_before_the_second_call_ends_the_turn() {
    let (talk, mut service, mut inner) = spawn().await;
    let mut calling = refuse_first(&mut service, &mut inner).await;
    assert_pending!(calling.poll());
    inner.send_error("closed");
    let error = assert_ready!(calling.poll()).unwrap_err();
    assert_eq!(error.to_string(), "closed");
    assert_eq!((talk.log().await.len(), talk.cut().await), (1, None));
}

#[tokio::test]
async fn a_second_failure_is_returned_as_it_is() {
    for second in [Ok(503), Ok(400), Err(())] {
        let (talk, mut service, mut inner) = spawn().await;
        let mut calling = refuse_first(&mut service, &mut inner).await;
        inner.allow(1);
        assert_pending!(calling.poll());
        let Poll::Ready(Some((_, respond))) = inner.poll_request() else { panic!("not called") };
        match second {
            Ok(400) => respond.send_response(refused()),
            Ok(status) => respond.send_response(Response::builder().status(status).body(Full::default()).unwrap()),
            Err(()) => respond.send_error("broken"),
        }
        inner.allow(1);
        let answer = assert_ready!(calling.poll());
        match second {
            Ok(status) => assert_eq!(answer.unwrap().status(), status),
            Err(()) => assert_eq!(answer.unwrap_err().to_string(), "broken"),
        }
        assert_pending!(inner.poll_request(), "there is no third call");
        assert_eq!((talk.log().await.len(), talk.cut().await), (1, None));
    }
}

#[tokio::test]
async fn a_caller_that_leaves_before_the_second_call_stores_nothing() {
    let (talk, mut service, mut inner) = spawn().await;
    let mut calling = refuse_first(&mut service, &mut inner).await;
    assert_pending!(calling.poll());
    drop(calling);
    inner.allow(1);
    assert_pending!(inner.poll_request());
    assert_eq!((talk.log().await.len(), talk.reports.lock().unwrap().len()), (1, 2));
}
