//! Invariant 6.

use std::{sync::Arc, time::Duration};

use tests::{BOTH_DOORS, Chat, Door, Storage, answer, asked, log, not_saved, over_every_store, prompts};
use tower_chat_history::{HistoryOptions, SaveError, StoreError};
use tower_chat_history_test::{Fault, Op, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    invariant_6_a_save_that_fails_hands_the_answer_over,
    invariant_6_a_caller_that_leaves_during_the_save_leaves_the_answer_in_the_log,
    invariant_6_a_save_without_a_caller_is_repeated_too,
    invariant_6_the_next_call_waits_for_a_save_that_nobody_polls,
}

async fn invariant_6_a_save_that_fails_hands_the_answer_over(storage: Storage) {
    for fault in [Fault::Unavailable, Fault::Backend, Fault::Conflict, Fault::Gone, Fault::Corrupt] {
        for door in BOTH_DOORS {
            let reports = Arc::new(std::sync::Mutex::new(Vec::new()));
            let hook = Arc::clone(&reports);
            let options = HistoryOptions::new().on_turn(move |report| hook.lock().unwrap().push(report.clone()));
            let (chat, id) = (Chat::with_options(&storage, [Reply::text("paid")], options), storage.conversation());
            storage.store.fail(Op::Append, 3, fault);
            let said = chat.ask(door, &id, "u").await;
            let kind = match door {
                Door::Stream => {
                    assert_eq!(said.unwrap(), "paid", "a stream is out already");
                    reports.lock().unwrap()[0].save_error().unwrap().kind()
                }
                Door::Unary => {
                    let failed = not_saved(said.unwrap_err());
                    assert_eq!(answer(failed.response()), "paid");
                    assert!(matches!(failed.reason(), SaveError::Store(_)));
                    failed.reason().kind()
                }
            };
            let expected = match fault {
                Fault::Unavailable => "unavailable",
                Fault::Backend => "backend",
                Fault::Conflict => "conflict",
                Fault::Gone => "gone",
                _ => "corrupt",
            };
            assert_eq!((kind, reports.lock().unwrap().len()), (expected, 1));
            storage.store.mend();
        }
    }
}

/// Drops a call while its save is under way.
async fn left_during_the_save(storage: &Storage, chat: &Chat, door: Door, id: &tower_chat_history::ConversationId) {
    let held = storage.store.hold(Op::Append);
    tokio::select! {
        biased;
        _ = chat.ask(door, id, "u0") => panic!("the save is held"),
        () = held.reached(1) => {}
    }
    assert_eq!(chat.engine().pending_saves(), 1);
    held.release();
}

const TURN: [&str; 2] = ["user: u0", "assistant: paid"];

async fn invariant_6_a_caller_that_leaves_during_the_save_leaves_the_answer_in_the_log(storage: Storage) {
    for door in BOTH_DOORS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("paid")]), storage.conversation());
        left_during_the_save(&storage, &chat, door, &id).await;
        chat.engine().drain(Duration::from_secs(5)).await.unwrap();
        assert_eq!(chat.engine().pending_saves(), 0);
        assert_eq!(log(&storage.store, &id).await, TURN);
    }
}

async fn invariant_6_a_save_without_a_caller_is_repeated_too(storage: Storage) {
    for door in BOTH_DOORS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("paid")]), storage.conversation());
        let before = storage.store.calls(Op::Append);
        storage.store.fail(Op::Append, 1, Fault::Unavailable);
        storage.store.lose_answers(Op::Append, 1);
        left_during_the_save(&storage, &chat, door, &id).await;
        chat.engine().drain(Duration::from_secs(5)).await.unwrap();
        assert_eq!(storage.store.calls(Op::Append) - before, 3);
        assert_eq!(log(&storage.store, &id).await, TURN);
    }
}

/// A spawner that drops what it is given, as a runtime does that shuts down.
#[derive(Debug)]
struct Nowhere;

impl tower_chat_history::engine::Spawn for Nowhere {
    fn spawn(&self, task: futures_util::future::BoxFuture<'static, ()>) {
        drop(task);
    }
}

async fn invariant_6_the_next_call_waits_for_a_save_that_nobody_polls(storage: Storage) {
    for door in BOTH_DOORS {
        let replies = [Reply::text("paid"), Reply::text("a1")];
        let (chat, id) =
            (Chat::with_options(&storage, replies, HistoryOptions::new().spawn(Nowhere)), storage.conversation());
        left_during_the_save(&storage, &chat, door, &id).await;
        assert!(log(&storage.store, &id).await.is_empty(), "nobody polls it");
        chat.call(door, asked(&id, "u1")).await.unwrap();
        assert_eq!(prompts(&chat.llm)[1], [&TURN[..], &["user: u1"]].concat());
    }
}

/// Only what the store itself decides is final.
#[test]
fn invariant_6_refusals_are_not_repeated() {
    assert!(StoreError::unavailable("down").is_retryable());
    assert!(!StoreError::Gone.is_retryable() && !StoreError::Conflict { current: None }.is_retryable());
}
