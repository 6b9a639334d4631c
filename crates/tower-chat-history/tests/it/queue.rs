//! Calls of one conversation, one after another.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower_chat_history::{
    HistoryError, HistoryOptions, MemoryStore, Message, Policies,
    policy::{OnConflict, QueueLimits},
};

use crate::support::{Piece, Pieces, ask, log, streaming, texts, unary};

fn queued(max_waiting: usize) -> HistoryOptions {
    HistoryOptions::new().policies(
        Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::new(max_waiting, Duration::from_secs(60)))),
    )
}

#[tokio::test]
async fn calls_of_one_conversation_wait_for_each_other() {
    let store = MemoryStore::new();
    let (mut chat, mut llm) = unary(store.clone(), queued(2));
    assert_ready_ok!(chat.poll_ready());
    let mut first = task::spawn(chat.call(ask("u0")));
    assert_pending!(first.poll());
    assert_ready_ok!(chat.poll_ready());
    let mut second = task::spawn(chat.call(ask("u1")));
    assert_pending!(second.poll());

    llm.next_request().await.unwrap().1.send_response(Message::assistant("a0"));
    assert!(llm.next_request().now_or_never().is_none(), "the second call waits");
    first.await.unwrap();
    assert_pending!(second.poll());
    let (request, answer) = llm.next_request().await.unwrap();
    assert_eq!(texts(&request), ["u0", "a0", "u1"]);
    answer.send_response(Message::assistant("a1"));
    second.await.unwrap();
    assert_eq!(log(&store).await, ["u0", "a0", "u1", "a1"]);
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_in_length_and_time() {
    let (mut chat, _llm) = unary(MemoryStore::new(), queued(1));
    let mut enter = || {
        assert_ready_ok!(chat.poll_ready());
        task::spawn(chat.call(ask("u")))
    };
    let (mut first, mut second) = (enter(), enter());
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    let full = enter().await.unwrap_err();
    assert!(matches!(full.downcast_ref(), Some(HistoryError::QueueFull { max_waiting: 1 })));
    let late = second.await.unwrap_err();
    assert!(matches!(late.downcast_ref(), Some(HistoryError::QueueTimeout(_))));
}

#[tokio::test]
async fn a_dropped_call_leaves_the_queue() {
    let (mut chat, mut llm) = unary(MemoryStore::new(), queued(1));
    for _ in 0..3 {
        assert_ready_ok!(chat.poll_ready());
        let mut call = task::spawn(chat.call(ask("u")));
        assert!(call.poll().is_pending());
        llm.next_request().await.unwrap();
    }
}

/// A complete stream that is neither dropped nor read any further holds the queue. The next call finishes its save.
#[tokio::test]
async fn a_complete_unread_stream_does_not_block_the_next_call() {
    let store = MemoryStore::new();
    let (mut chat, mut llm) = streaming(store.clone(), queued(1));
    let pieces = || -> Pieces { stream::iter([Ok(Piece::Text("a")), Ok(Piece::Finish)]).boxed() };
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("u0")));
    assert!(call.poll().is_pending());
    llm.next_request().await.unwrap().1.send_response(pieces());
    let mut kept = call.await.unwrap();
    assert_eq!(kept.next().await, Some(Ok(Piece::Text("a"))));
    assert_eq!(kept.next().await, Some(Ok(Piece::Finish)));

    assert_ready_ok!(chat.poll_ready());
    let mut next = task::spawn(chat.call(ask("u1")));
    assert!(next.poll().is_pending(), "the call finishes the save, which frees the queue");
    assert!(next.poll().is_pending(), "the call waits for the model");
    let (request, _) = llm.next_request().await.unwrap();
    assert_eq!(texts(&request), ["u0", "a", "u1"]);
    drop(kept);
}
