//! The tower contract, with a mock service whose readiness is withheld.

use std::task::Poll;

use futures_util::FutureExt as _;
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, HistoryError, HistoryOptions, InConversation, MemoryStore, Message, error::InputError,
};
use tower_test::assert_request_eq;

use crate::support::{Plain, Request, ask, id, log, texts, unary};

#[tokio::test]
async fn readiness_is_that_of_the_inner_service() {
    let (mut chat, mut llm) = unary(MemoryStore::new(), HistoryOptions::new());
    llm.allow(0);
    assert_pending!(chat.poll_ready());
    llm.allow(1);
    assert_ready_ok!(chat.poll_ready());
}

#[tokio::test]
async fn a_readiness_error_is_passed_on() {
    let (mut chat, mut llm) = unary(MemoryStore::new(), HistoryOptions::new());
    llm.send_error("not today");
    let Poll::Ready(Err(error)) = chat.poll_ready() else { panic!("ready") };
    assert_eq!(error.to_string(), "not today");
}

/// A service that becomes ready once, and may then be called once.
#[derive(Default)]
struct OnceReady {
    ready: bool,
}

// A clone is not ready, as with a service that holds a permit.
impl Clone for OnceReady {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request> for OnceReady {
    type Response = Message;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Message, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called before it was ready");
        std::future::ready(Ok(Message::assistant("a")))
    }
}

#[tokio::test]
async fn the_instance_that_became_ready_is_called() {
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), Plain).layer(OnceReady::default());
    for _ in 0..3 {
        chat.ready().await.unwrap().call(ask("u")).await.unwrap();
    }
}

#[tokio::test]
async fn each_call_carries_its_history_and_is_saved() {
    let store = MemoryStore::new();
    let (mut chat, mut llm) = unary(store.clone(), HistoryOptions::new());

    assert_ready_ok!(chat.poll_ready());
    let mut first = task::spawn(chat.call(ask("u0")));
    assert_pending!(first.poll());
    assert_request_eq!(llm, vec![Message::user("u0")]).send_response(Message::assistant("a0"));
    assert_eq!(first.await.unwrap(), Message::assistant("a0"));

    assert_ready_ok!(chat.poll_ready());
    let mut second = task::spawn(chat.call(ask("u1")));
    assert_pending!(second.poll());
    let (request, answer) = llm.next_request().await.unwrap();
    assert_eq!(texts(&request), ["u0", "a0", "u1"]);
    answer.send_response(Message::assistant("a1"));
    second.await.unwrap();
    assert_eq!(log(&store).await, ["u0", "a0", "u1", "a1"]);
}

#[tokio::test]
async fn inner_errors_are_passed_on_and_nothing_is_stored() {
    #[derive(Debug, PartialEq, thiserror::Error)]
    #[error("overloaded")]
    struct Overloaded;

    let store = MemoryStore::new();
    let llm = service_fn(|_: Request| async { Err::<Message, _>(Overloaded) });
    let mut chat = ChatHistoryLayer::new(store.clone(), Plain).layer(llm);
    let error = chat.ready().await.unwrap().call(ask("u")).await.unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Overloaded));
    assert!(log(&store).await.is_empty());
}

#[tokio::test]
async fn invalid_input_never_reaches_the_model() {
    let (mut chat, mut llm) = unary(MemoryStore::new(), HistoryOptions::new());
    for (input, expected) in [
        (vec![], InputError::Empty),
        (vec![Message::tool("x", "r")], InputError::UnexpectedResult { position: 0, call_id: "x".into() }),
    ] {
        assert_ready_ok!(chat.poll_ready());
        let error = chat.call(InConversation::new(id(), input)).await.unwrap_err();
        let Some(HistoryError::Input(error)) = error.downcast_ref() else { panic!("{error}") };
        assert_eq!(*error, expected);
    }
    assert!(llm.next_request().now_or_never().is_none());
}

#[tokio::test]
async fn a_stateless_call_passes_through_unchanged() {
    let store = MemoryStore::new();
    let (mut chat, mut llm) = unary(store.clone(), HistoryOptions::new());
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(InConversation::stateless(vec![Message::user("u")])));
    assert_pending!(call.poll());
    assert_request_eq!(llm, vec![Message::user("u")]).send_response(Message::assistant("a"));
    assert_eq!(call.await.unwrap(), Message::assistant("a"));
    assert!(log(&store).await.is_empty());
}

/// With a concurrency limit of 1 inside the layer, a caller can make one call after another: the permit is held
/// during load and save, and then released.
/// save, and given back.
#[tokio::test]
async fn the_permit_of_an_inner_limit_is_released() {
    let llm = service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) });
    let limited = tower::ServiceBuilder::new().concurrency_limit(1).service(llm);
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), Plain).layer(limited);
    for _ in 0..3 {
        chat.ready().await.unwrap().call(ask("u")).await.unwrap();
    }
}

/// If the closure's error is a `BoxError`, `oneshot` can be spawned only if it is boxed.
#[tokio::test]
async fn a_boxed_oneshot_over_a_closure_with_any_error_can_be_spawned() {
    let llm = service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) });
    let chat = ChatHistoryLayer::new(MemoryStore::new(), Plain).layer(llm);
    let spawned = tokio::spawn(async move { chat.oneshot(ask("u")).boxed().await.map(drop) });
    spawned.await.unwrap().unwrap();
}

#[test]
fn futures_and_services_are_send() {
    fn send<T: Send>(_: &T) {}
    let llm = service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) });
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), Plain).layer(llm);
    send(&chat);
    send(&chat.call(ask("u")));
}
