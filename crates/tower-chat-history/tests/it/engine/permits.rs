//! A call that waits holds no permit of the inner service.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout};
use tower::{Layer as _, Service as _, ServiceBuilder, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, Engine, HistoryOptions, InConversation, MemoryStore, Message, Policies,
    policy::{OnConflict, QueueLimits},
};
use tower_chat_history_test::{FaultStore, Op};

use super::{
    conversation,
    support::{Piece, Pieces, Plain, Request},
};

fn ask(name: &str) -> InConversation<Request> {
    InConversation::new(conversation(name), vec![Message::user("u")])
}

#[tokio::test(start_paused = true)]
async fn queued_calls_hold_no_permits() {
    let model = service_fn(|_: Request| async {
        Ok::<Pieces, BoxError>(stream::iter([Ok(Piece::Text("a"))]).chain(stream::pending()).boxed())
    });
    let limited = ServiceBuilder::new().concurrency_limit(8).service(model);
    let options = HistoryOptions::new()
        .policies(Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::new(16, Duration::from_secs(60)))));
    let chat = ChatHistoryLayer::with_options(MemoryStore::new(), Plain, options).layer(limited);

    let open = chat.clone().ready().await.unwrap().call(ask("busy")).await.unwrap();
    for _ in 0..8 {
        let mut chat = chat.clone();
        tokio::spawn(async move { drop(chat.ready().await.unwrap().call(ask("busy")).await) });
    }
    tokio::task::yield_now().await;
    let before = Instant::now();
    let other = timeout(Duration::from_secs(100), chat.clone().oneshot(ask("other"))).await;
    assert!(other.unwrap().is_ok());
    assert!(before.elapsed().is_zero(), "it waited for {:?}", before.elapsed());
    drop(open);
}

/// A stream's reader may need the same limit to continue. It must not wait for a call that waits for that
/// stream.
#[tokio::test(start_paused = true)]
async fn a_reader_gets_the_permit_while_a_queued_call_waits() {
    let model = service_fn(|_: Request| async {
        Ok::<Pieces, BoxError>(stream::iter([Ok(Piece::Text("a")), Ok(Piece::Finish)]).boxed())
    });
    let limited = ServiceBuilder::new().concurrency_limit(1).service(model);
    let options =
        HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::default())));
    let mut chat = ChatHistoryLayer::with_options(MemoryStore::new(), Plain, options).layer(limited.clone());
    let open = chat.ready().await.unwrap().call(ask("c")).await.unwrap();
    let mut queued = chat.clone();
    let queued = tokio::spawn(async move { queued.ready().await.unwrap().call(ask("c")).await.map(drop) });
    tokio::task::yield_now().await;

    // A tool or a guard of the reader calls the limited service directly.
    let guard = timeout(Duration::from_secs(1), limited.oneshot(vec![Message::user("is it safe?")])).await;
    assert!(guard.is_ok(), "the permit is free while the second call waits");
    assert_eq!(open.count().await, 2);
    queued.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_save_holds_no_permit() {
    for policy in [OnConflict::Rebase, OnConflict::Serialize(QueueLimits::default())] {
        let store = FaultStore::new(MemoryStore::new());
        let model = service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) });
        let limited = ServiceBuilder::new().concurrency_limit(1).service(model);
        let options = HistoryOptions::new().policies(Policies::new().on_conflict(policy));
        let engine = Engine::with_options(store.clone(), options);
        let chat = ChatHistoryLayer::from_engine(engine.clone(), Plain).layer(limited);
        let held = store.hold(Op::Append);
        for number in 0..2 {
            let mut chat = chat.clone();
            tokio::spawn(async move { chat.ready().await.unwrap().call(ask("c")).await });
            while engine.pending_saves() == 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(store.calls(Op::Load), 1, "call {number}");
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let mut other = chat.clone();
        assert!(timeout(Duration::from_millis(1), other.ready()).await.is_ok(), "{policy:?}");
        drop(held);
    }
}
