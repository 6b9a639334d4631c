//! Invariant 4.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use futures_util::StreamExt as _;
use tests::{BOTH_DOORS, Chat, Door, Storage, asked, exchanges, log, over_every_store, prompts};
use tower_chat_history::{
    ConversationId, HistoryOptions, Policies,
    policy::{OnConflict, OnInterruption, QueueLimits},
};
use tower_chat_history_test::{ApiFailure, Op, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    invariant_4_a_call_that_is_dropped_at_any_point_is_stored_whole_or_not_at_all,
    invariant_4_a_call_that_is_dropped_at_any_point_is_stored_whole_or_not_at_all_under_detach,
    invariant_4_a_call_that_is_dropped_at_any_point_gives_its_place_in_the_queue_up,
    invariant_4_a_call_that_fails_stores_nothing,
}

/// Polls a future that many times at most, whenever it is woken.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn ab() -> Reply {
    Reply::text("ab").chunk_chars(1).latency(Duration::from_secs(1)).chunk_delay(Duration::from_secs(1))
}

/// Drops a call after 0, 1, 2… polls until one completes, and counts which of them were stored.
async fn dropped_everywhere(storage: &Storage, door: Door, options: HistoryOptions) -> Vec<bool> {
    storage.store.delay(Op::Load, Duration::from_millis(1));
    storage.store.delay(Op::Append, Duration::from_millis(1));
    let mut stored = Vec::new();
    for times in 0.. {
        let id = storage.conversation();
        let chat = Chat::with_options(storage, [], options.clone());
        chat.llm.replies().push(Reply::text("a0"));
        chat.ask(door, &id, "u0").await.unwrap();
        chat.llm.replies().push(ab());
        let completed = polled(times, chat.ask(door, &id, "u1")).await.is_some();

        // What was left behind is finished, or is not there.
        chat.engine().drain(Duration::from_secs(60)).await.unwrap();
        stored.push(whole_or_not_at_all(storage, &chat, door, &id).await);
        if completed {
            assert_eq!(stored.last(), Some(&true), "an acknowledged exchange is in the log");
            return stored;
        }
    }
    unreachable!()
}

/// Returns whether the second exchange is in the log, and that the next call goes on from there.
async fn whole_or_not_at_all(storage: &Storage, chat: &Chat, door: Door, id: &ConversationId) -> bool {
    let mut expected = vec!["user: u0", "assistant: a0"];
    let found = log(&storage.store, id).await;
    let stored = found.len() > 2;
    if stored {
        expected.extend(["user: u1", "assistant: ab"]);
    }
    assert_eq!(found, expected);
    while chat.llm.replies().left() != Some(0) {
        // The reply that the dropped call did not fetch.
        drop(chat.call(Door::Unary, asked(&storage.conversation(), "other")).await.unwrap());
    }
    chat.llm.replies().push(Reply::text("a2"));
    assert_eq!(chat.ask(door, id, "u2").await.unwrap(), "a2");
    expected.push("user: u2");
    assert_eq!(*prompts(&chat.llm).last().unwrap(), expected);
    assert_eq!(exchanges(&storage.store, id).await.len(), expected.len().div_ceil(2));
    stored
}

async fn invariant_4_a_call_that_is_dropped_at_any_point_is_stored_whole_or_not_at_all(storage: Storage) {
    for door in BOTH_DOORS {
        let stored = dropped_everywhere(&storage, door, HistoryOptions::new()).await;
        assert!(stored.len() > 4, "{stored:?}");
        assert_eq!(stored.first(), Some(&false));
        assert!(stored.iter().filter(|stored| **stored).count() > 1, "the save goes on without its caller: {stored:?}");
    }
}

async fn invariant_4_a_call_that_is_dropped_at_any_point_is_stored_whole_or_not_at_all_under_detach(storage: Storage) {
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::Detach));
    let discarded = dropped_everywhere(&storage, Door::Stream, HistoryOptions::new()).await;
    let detached = dropped_everywhere(&storage, Door::Stream, options).await;
    let count = |stored: &[bool]| stored.iter().filter(|stored| **stored).count();
    assert!(count(&detached) > count(&discarded), "more is stored: {detached:?} {discarded:?}");
}

async fn invariant_4_a_call_that_is_dropped_at_any_point_gives_its_place_in_the_queue_up(storage: Storage) {
    for door in BOTH_DOORS {
        // The next call would run into the timeout of the queue.
        let options =
            HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::default())));
        dropped_everywhere(&storage, door, options).await;
    }
}

async fn invariant_4_a_call_that_fails_stores_nothing(storage: Storage) {
    let failure = ApiFailure::server_error;
    let broken = |reply: Reply| reply.chunk_chars(1);
    for (door, reply) in [
        (Door::Unary, Reply::error(failure())),
        (Door::Unary, Reply::text("ab").abort_after(0)),
        (Door::Unary, Reply::text("ab").finish("odd")),
        (Door::Stream, Reply::error(failure())),
        (Door::Stream, broken(Reply::text("ab")).abort_after(2)),
        (Door::Stream, broken(Reply::text("ab")).error_after(0, failure())),
        (Door::Stream, broken(Reply::text("ab")).passing_error_after(1, failure())),
        (Door::Stream, broken(Reply::text("ab")).finish("odd")),
    ] {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a0"), reply]), storage.conversation());
        chat.ask(door, &id, "u0").await.unwrap();
        assert!(chat.ask(door, &id, "u1").await.is_err());
        assert_eq!(chat.engine().pending_saves(), 0);
        assert_eq!(log(&storage.store, &id).await, ["user: u0", "assistant: a0"]);
    }
    // A clean cut is no error, and nothing is stored either.
    let (chat, id) = (Chat::new(&storage, [Reply::text("ab").chunk_chars(1).end_after(2)]), storage.conversation());
    let items: Vec<_> = chat.stream(asked(&id, "u")).await.unwrap().collect().await;
    assert!(items.iter().all(Result::is_ok) && log(&storage.store, &id).await.is_empty());
}
