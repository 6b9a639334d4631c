//! Invariant 4: all or nothing.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use futures_util::StreamExt as _;
use tests::{BOTH_KINDS, CallKind, Chat, Storage, exchanges, log, over_every_store, prompts, user_call};
use tower_chat_history::{
    ConversationId, HistoryOptions, Policies,
    policy::{OnConflict, OnInterruption, QueueLimits},
};
use tower_chat_history_test::{ApiFailure, Op, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    invariant_4_a_call_dropped_at_any_point_is_stored_completely_or_not_at_all,
    invariant_4_a_call_dropped_at_any_point_is_stored_completely_or_not_at_all_under_detach,
    invariant_4_a_call_dropped_at_any_point_leaves_the_queue,
    invariant_4_a_call_that_fails_stores_nothing,
}

/// Polls a future up to `times` times, whenever it is woken.
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

/// Drops a call after 0, 1, 2… polls, until a call completes. Returns for each call whether it was stored.
async fn dropped_everywhere(storage: &Storage, kind: CallKind, options: HistoryOptions) -> Vec<bool> {
    storage.store.delay(Op::Load, Duration::from_millis(1));
    storage.store.delay(Op::Append, Duration::from_millis(1));
    let mut stored = Vec::new();
    for times in 0.. {
        let id = storage.conversation();
        let chat = Chat::with_options(storage, [], options.clone());
        chat.llm.replies().push(Reply::text("a0"));
        chat.ask(kind, &id, "u0").await.unwrap();
        chat.llm.replies().push(ab());
        let completed = polled(times, chat.ask(kind, &id, "u1")).await.is_some();

        // The drain finishes what the dropped call left running.
        chat.engine().drain(Duration::from_secs(60)).await.unwrap();
        stored.push(whole_or_not_at_all(storage, &chat, kind, &id).await);
        if completed {
            assert_eq!(stored.last(), Some(&true), "an acknowledged exchange is in the log");
            return stored;
        }
    }
    unreachable!()
}

/// Returns true if the second exchange is stored. Checks the log, and that the next call continues from it.
async fn whole_or_not_at_all(storage: &Storage, chat: &Chat, kind: CallKind, id: &ConversationId) -> bool {
    let mut expected = vec!["user: u0", "assistant: a0"];
    let found = log(&storage.store, id).await;
    let stored = found.len() > 2;
    if stored {
        expected.extend(["user: u1", "assistant: ab"]);
    }
    assert_eq!(found, expected);
    while chat.llm.replies().left() != Some(0) {
        // Use up the reply that the dropped call did not fetch.
        drop(chat.call(CallKind::Unary, user_call(&storage.conversation(), "other")).await.unwrap());
    }
    chat.llm.replies().push(Reply::text("a2"));
    assert_eq!(chat.ask(kind, id, "u2").await.unwrap(), "a2");
    expected.push("user: u2");
    assert_eq!(*prompts(&chat.llm).last().unwrap(), expected);
    assert_eq!(exchanges(&storage.store, id).await.len(), expected.len().div_ceil(2));
    stored
}

async fn invariant_4_a_call_dropped_at_any_point_is_stored_completely_or_not_at_all(storage: Storage) {
    for kind in BOTH_KINDS {
        let stored = dropped_everywhere(&storage, kind, HistoryOptions::new()).await;
        assert!(stored.len() > 4, "{stored:?}");
        assert_eq!(stored.first(), Some(&false));
        assert!(
            stored.iter().filter(|stored| **stored).count() > 1,
            "the save continues without its caller: {stored:?}"
        );
    }
}

async fn invariant_4_a_call_dropped_at_any_point_is_stored_completely_or_not_at_all_under_detach(storage: Storage) {
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::Detach));
    let discarded = dropped_everywhere(&storage, CallKind::Stream, HistoryOptions::new()).await;
    let detached = dropped_everywhere(&storage, CallKind::Stream, options).await;
    let count = |stored: &[bool]| stored.iter().filter(|stored| **stored).count();
    assert!(count(&detached) > count(&discarded), "more is stored: {detached:?} {discarded:?}");
}

async fn invariant_4_a_call_dropped_at_any_point_leaves_the_queue(storage: Storage) {
    for kind in BOTH_KINDS {
        // If a dropped call stayed in the queue, the next call would time out.
        let options =
            HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::default())));
        dropped_everywhere(&storage, kind, options).await;
    }
}

async fn invariant_4_a_call_that_fails_stores_nothing(storage: Storage) {
    let failure = ApiFailure::server_error;
    let broken = |reply: Reply| reply.chunk_chars(1);
    for (kind, reply) in [
        (CallKind::Unary, Reply::error(failure())),
        (CallKind::Unary, Reply::text("ab").abort_after(0)),
        (CallKind::Unary, Reply::text("ab").finish("odd")),
        (CallKind::Stream, Reply::error(failure())),
        (CallKind::Stream, broken(Reply::text("ab")).abort_after(2)),
        (CallKind::Stream, broken(Reply::text("ab")).error_after(0, failure())),
        (CallKind::Stream, broken(Reply::text("ab")).passing_error_after(1, failure())),
        (CallKind::Stream, broken(Reply::text("ab")).finish("odd")),
    ] {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a0"), reply]), storage.conversation());
        chat.ask(kind, &id, "u0").await.unwrap();
        assert!(chat.ask(kind, &id, "u1").await.is_err());
        assert_eq!(chat.engine().pending_saves(), 0);
        assert_eq!(log(&storage.store, &id).await, ["user: u0", "assistant: a0"]);
    }
    // A stream that ends early without an error is not stored either.
    let (chat, id) = (Chat::new(&storage, [Reply::text("ab").chunk_chars(1).end_after(2)]), storage.conversation());
    let items: Vec<_> = chat.stream(user_call(&id, "u")).await.unwrap().collect().await;
    assert!(items.iter().all(Result::is_ok) && log(&storage.store, &id).await.is_empty());
}
