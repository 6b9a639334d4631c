//! Invariant 6: a reply that was paid for is not lost.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tests::{BOTH_KINDS, CallKind, Chat, Storage, log, over_every_store, prompts, response_text, unsaved, user_call};
use tower_chat_history::{HistoryOptions, SaveError, StoreError};
use tower_chat_history_test::{Fault, Op, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    invariant_6_a_failed_save_hands_over_the_reply,
    invariant_6_a_reply_is_stored_if_its_caller_leaves_during_the_save,
    invariant_6_a_save_without_a_caller_is_also_retried,
    invariant_6_the_next_call_waits_for_the_save_of_a_caller_who_has_left,
}

async fn invariant_6_a_failed_save_hands_over_the_reply(storage: Storage) {
    for fault in [Fault::Unavailable, Fault::Backend, Fault::Conflict, Fault::Gone, Fault::Corrupt] {
        for kind in BOTH_KINDS {
            let reports = Arc::new(std::sync::Mutex::new(Vec::new()));
            let hook = Arc::clone(&reports);
            let options = HistoryOptions::new().on_turn(move |report| hook.lock().unwrap().push(report.clone()));
            let (chat, id) = (Chat::with_options(&storage, [Reply::text("paid")], options), storage.conversation());
            storage.store.fail(Op::Append, 3, fault);
            let reply = chat.ask(kind, &id, "u").await;
            let kind = match kind {
                CallKind::Stream => {
                    assert_eq!(reply.unwrap(), "paid", "the stream has been passed on already");
                    reports.lock().unwrap()[0].save_error().unwrap().kind()
                }
                CallKind::Unary => {
                    let failed = unsaved(reply.unwrap_err());
                    assert_eq!(response_text(failed.response()), "paid");
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

/// Drops a call during its save.
async fn left_during_the_save(storage: &Storage, chat: &Chat, kind: CallKind, id: &tower_chat_history::ConversationId) {
    let held = storage.store.hold(Op::Append);
    tokio::select! {
        biased;
        _ = chat.ask(kind, id, "u0") => panic!("the save is held"),
        () = held.reached(1) => {}
    }
    assert_eq!(chat.engine().pending_saves(), 1);
    held.release();
}

const TURN: [&str; 2] = ["user: u0", "assistant: paid"];

async fn invariant_6_a_reply_is_stored_if_its_caller_leaves_during_the_save(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("paid")]), storage.conversation());
        left_during_the_save(&storage, &chat, kind, &id).await;
        chat.engine().drain(Duration::from_secs(5)).await.unwrap();
        assert_eq!(chat.engine().pending_saves(), 0);
        assert_eq!(log(&storage.store, &id).await, TURN);
    }
}

async fn invariant_6_a_save_without_a_caller_is_also_retried(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("paid")]), storage.conversation());
        let before = storage.store.calls(Op::Append);
        storage.store.fail(Op::Append, 1, Fault::Unavailable);
        storage.store.lose_answers(Op::Append, 1);
        left_during_the_save(&storage, &chat, kind, &id).await;
        chat.engine().drain(Duration::from_secs(5)).await.unwrap();
        assert_eq!(storage.store.calls(Op::Append) - before, 3);
        assert_eq!(log(&storage.store, &id).await, TURN);
    }
}

async fn invariant_6_the_next_call_waits_for_the_save_of_a_caller_who_has_left(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = [Reply::text("paid"), Reply::text("a1")];
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        let held = storage.store.hold(Op::Append);
        tokio::select! {
            biased;
            _ = chat.ask(kind, &id, "u0") => panic!("the save is held"),
            () = held.reached(1) => {}
        }
        let loads = storage.store.calls(Op::Load);
        let mut next = pin!(chat.call(kind, user_call(&id, "u1")));
        assert!((&mut next).now_or_never().is_none());
        assert_eq!(storage.store.calls(Op::Load), loads, "the call waits");
        held.release();
        next.await.unwrap();
        assert_eq!(prompts(&chat.llm)[1], [&TURN[..], &["user: u1"]].concat());
    }
}

/// Only a decision of the store itself is final.
#[test]
fn invariant_6_refused_saves_are_not_retried() {
    assert!(StoreError::unavailable("down").is_retryable());
    assert!(!StoreError::Gone.is_retryable() && !StoreError::Conflict { current: None }.is_retryable());
}
