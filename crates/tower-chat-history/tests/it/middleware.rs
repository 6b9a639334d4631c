//! The tower contract, with a mock service whose readiness is withheld.

#![allow(clippy::unwrap_used)] // A test may.

use crate::support;

use std::task::Poll;

use futures_util::FutureExt as _;
use support::{Plain, Request, ask, id, log, texts, unary};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, HistoryError, HistoryOptions, InConversation, MemoryStore, Message, error::InputError,
};
use tower_test::assert_request_eq;

#[tokio::test]
async fn readiness_is_the_inner_service_s() {
    let (mut chat, mut llm) = unary(MemoryStore::new(), HistoryOptions::new());
    llm.allow(0);
    assert_pending!(chat.poll_ready());
    llm.allow(1);
    assert_ready_ok!(chat.poll_ready());
}

#[tokio::test]
async fn a_failed_readiness_is_handed_on() {
    let (mut chat, mut llm) = unary(MemoryStore::new(), HistoryOptions::new());
    llm.send_error("not today");
    let Poll::Ready(Err(error)) = chat.poll_ready() else { panic!("ready") };
    assert_eq!(error.to_string(), "not today");
}

/// Becomes ready once, and only then may be called once.
#[derive(Default)]
struct OnceReady {
    ready: bool,
}

// A clone has not been made ready, like one of a service that holds a permit.
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
        assert!(std::mem::take(&mut self.ready), "called without having been ready");
        std::future::ready(Ok(Message::assistant("a")))
    }
}

#[tokio::test]
async fn the_very_instance_that_was_ready_is_called() {
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
async fn inner_errors_come_out_as_they_are_and_store_nothing() {
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
async fn what_does_not_fit_the_conversation_never_reaches_the_model() {
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
async fn an_explicitly_stateless_call_passes_untouched() {
    let store = MemoryStore::new();
    let (mut chat, mut llm) = unary(store.clone(), HistoryOptions::new());
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(InConversation::stateless(vec![Message::user("u")])));
    assert_pending!(call.poll());
    assert_request_eq!(llm, vec![Message::user("u")]).send_response(Message::assistant("a"));
    assert_eq!(call.await.unwrap(), Message::assistant("a"));
    assert!(log(&store).await.is_empty());
}

/// A concurrency limit of 1 inside does not stop a caller from asking again and again: a permit is held across load and
/// save, and given back.
#[tokio::test]
async fn an_inner_limit_of_one_is_given_back() {
    let llm = service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) });
    let limited = tower::ServiceBuilder::new().concurrency_limit(1).service(llm);
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), Plain).layer(limited);
    for _ in 0..3 {
        chat.ready().await.unwrap().call(ask("u")).await.unwrap();
    }
}

/// A closure whose error is a `BoxError` keeps `oneshot` from being spawned as it is; boxed it can be.
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
