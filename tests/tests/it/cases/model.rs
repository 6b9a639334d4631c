//! The model call fails, takes too long, or panics.

use std::time::Duration;

use async_openai::error::OpenAIError;
use futures_util::StreamExt as _;
use tests::{BOTH_KINDS, Chat, Storage, log, over_every_store, prompts, user_call};
use tower::{ServiceBuilder, ServiceExt as _, timeout::error::Elapsed};
use tower_chat_history_test::{ApiFailure, Op, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    the_inner_service_fails,
    it_takes_too_long,
    it_takes_too_long_while_the_exchange_is_being_stored,
    it_panics,
    it_panics_in_the_middle_of_a_stream,
}

async fn the_inner_service_fails(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = [Reply::text("a0"), ApiFailure::rate_limited(Duration::ZERO).into(), Reply::text("a1")];
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        chat.ask(kind, &id, "u0").await.unwrap();
        let (call, report) = user_call(&id, "lost").with_report();
        let error = chat.call(kind, call).await.unwrap_err();
        let Some(OpenAIError::ApiError(error)) = error.downcast_ref() else { panic!("{error}") };
        assert_eq!(error.status_code, 429);
        assert!(report.await.is_none());
        assert_eq!(log(&storage.store, &id).await.len(), 2);
        chat.ask(kind, &id, "u1").await.unwrap();
        assert_eq!(prompts(&chat.llm)[2], ["user: u0", "assistant: a0", "user: u1"]);
    }
}

async fn it_takes_too_long(storage: Storage) {
    let (chat, id) =
        (Chat::new(&storage, vec![Reply::text("a").latency(Duration::from_secs(6)); 2]), storage.conversation());
    let limit = || ServiceBuilder::new().timeout(Duration::from_secs(5)).layer(chat.layer());
    let unary = limit().service(chat.llm.unary()).oneshot(user_call(&id, "u")).await.err().unwrap();
    let stream = limit().service(chat.llm.stream()).oneshot(user_call(&id, "u")).await.err().unwrap();
    assert!(unary.is::<Elapsed>() && stream.is::<Elapsed>());
    assert!(log(&storage.store, &id).await.is_empty());
    assert_eq!(storage.store.calls(Op::Append), 0);
}

async fn it_takes_too_long_while_the_exchange_is_being_stored(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
    let held = storage.store.hold(Op::Append);
    let limited = ServiceBuilder::new().timeout(Duration::from_secs(5)).layer(chat.layer()).service(chat.llm.unary());
    assert!(limited.oneshot(user_call(&id, "u")).await.err().unwrap().is::<Elapsed>());
    assert_eq!(chat.engine().pending_saves(), 1);
    held.release();
    chat.engine().drain(Duration::from_secs(5)).await.unwrap();
    assert_eq!(log(&storage.store, &id).await, ["user: u", "assistant: a"]);
}

async fn it_panics(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::panic("on demand"), Reply::text("a")]), storage.conversation());
        let (asking, of) = (chat.clone(), id.clone());
        let call = tokio::spawn(async move { asking.ask(kind, &of, "lost").await.map(drop).map_err(drop) });
        assert!(call.await.unwrap_err().is_panic());
        assert!(log(&storage.store, &id).await.is_empty());
        chat.ask(kind, &id, "u").await.unwrap();
        assert_eq!(prompts(&chat.llm)[1], ["user: u"]);
    }
}

async fn it_panics_in_the_middle_of_a_stream(storage: Storage) {
    let reply = Reply::text("abc").chunk_chars(1).panic_after(2, "on demand");
    let (chat, id) = (Chat::new(&storage, [reply, Reply::text("a")]), storage.conversation());
    let mut stream = chat.stream(user_call(&id, "lost")).await.unwrap();
    let reading = tokio::spawn(async move { while stream.next().await.is_some() {} });
    assert!(reading.await.unwrap_err().is_panic());
    chat.ask(tests::CallKind::Stream, &id, "u").await.unwrap();
    assert_eq!(log(&storage.store, &id).await, ["user: u", "assistant: a"]);
}
