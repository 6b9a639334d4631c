//! A store that fails, or is slow, at the save.

use std::time::Duration;

use tests::{BOTH_KINDS, CallKind, Chat, Storage, log, over_every_store, response_text, unsaved, user_call};
use tower_chat_history::{ExchangeId, HistoryOptions, Policies, SaveError, StoreError, policy::OnSaveFailure};
use tower_chat_history_test::{Fault, Op, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    down_at_save_for_a_moment,
    down_at_save,
    down_at_save_is_reported_by_policy,
    slow_at_save_and_not_stored,
    slow_at_save_and_stored,
}

const TURN: [&str; 2] = ["user: u", "assistant: a"];

async fn down_at_save_for_a_moment(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        let before = storage.store.calls(Op::Append);
        storage.store.fail(Op::Append, 1, Fault::Unavailable);
        // It is stored, but the answer is lost. The next attempt finds it.
        storage.store.lose_answers(Op::Append, 1);
        assert_eq!(chat.ask(kind, &id, "u").await.unwrap(), "a");
        assert_eq!(storage.store.calls(Op::Append) - before, 3);
        assert_eq!(log(&storage.store, &id).await, TURN);
    }
}

async fn down_at_save(storage: Storage) {
    for (fault, attempts) in [(Fault::Unavailable, 3), (Fault::Backend, 1)] {
        for kind in BOTH_KINDS {
            let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
            let before = storage.store.calls(Op::Append);
            storage.store.fail(Op::Append, attempts, fault);
            let (call, report) = user_call(&id, "u").with_report();
            let reply = chat.call(kind, call).await;
            assert!(report.await.unwrap().save_error().is_some());
            match kind {
                CallKind::Unary => assert_eq!(response_text(&unsaved(reply.unwrap_err()).into_response()), "a"),
                CallKind::Stream => assert_eq!(reply.unwrap(), "a"),
            }
            assert_eq!(storage.store.calls(Op::Append) - before, attempts);
            assert!(log(&storage.store, &id).await.is_empty());
        }
    }
}

async fn down_at_save_is_reported_by_policy(storage: Storage) {
    for kind in BOTH_KINDS {
        let options = HistoryOptions::new().policies(Policies::new().on_save_failure(OnSaveFailure::Report));
        let (chat, id) = (Chat::with_options(&storage, [Reply::text("a")], options), storage.conversation());
        storage.store.fail(Op::Append, 1, Fault::Backend);
        let (call, report) = user_call(&id, "u").with_report();
        assert_eq!(chat.call(kind, call).await.unwrap(), "a");
        let report = report.await.unwrap();
        assert!(matches!(report.save_error(), Some(SaveError::Store(StoreError::Backend { .. }))));
        assert!(log(&storage.store, &id).await.is_empty());
    }
}

async fn slow_at_save_and_not_stored(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        storage.store.delay(Op::Append, Duration::from_secs(11));
        let (call, report) = user_call(&id, "u").with_report();
        let reply = chat.call(kind, call).await;
        let report = report.await.unwrap();
        assert!(matches!(report.save_error(), Some(SaveError::Timeout(after)) if after.as_secs() == 10));
        match kind {
            CallKind::Unary => assert!(matches!(unsaved(reply.unwrap_err()).reason(), SaveError::Timeout(_))),
            CallKind::Stream => assert_eq!(reply.unwrap(), "a"),
        }
        storage.store.mend();
        assert!(log(&storage.store, &id).await.is_empty());
    }
}

async fn slow_at_save_and_stored(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        let exchange = ExchangeId::new("e-1").unwrap();
        let held = storage.store.hold_answers(Op::Append);
        let (call, report) = user_call(&id, "u").exchange(exchange.clone()).with_report();
        let reply = chat.call(kind, call).await;
        assert!(matches!(report.await.unwrap().save_error(), Some(SaveError::Timeout(_))));
        assert_eq!(reply.is_err(), kind == CallKind::Unary);
        held.release();
        assert_eq!(log(&storage.store, &id).await, TURN, "stored once, after three attempts");

        // A repeated call finds it by its id.
        let error = chat.call(kind, user_call(&id, "u").exchange(exchange)).await.unwrap_err();
        let recorded = tests::history_error(&error);
        assert!(matches!(recorded, tower_chat_history::HistoryError::AlreadyRecorded(_)));
    }
}
