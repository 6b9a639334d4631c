//! The store at save.

use std::time::Duration;

use tests::{BOTH_DOORS, Chat, Door, Storage, answer, asked, log, not_saved, over_every_store};
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
    for door in BOTH_DOORS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        let before = storage.store.calls(Op::Append);
        storage.store.fail(Op::Append, 1, Fault::Unavailable);
        // Stored, but the caller cannot know: the repetition finds it.
        storage.store.lose_answers(Op::Append, 1);
        assert_eq!(chat.ask(door, &id, "u").await.unwrap(), "a");
        assert_eq!(storage.store.calls(Op::Append) - before, 3);
        assert_eq!(log(&storage.store, &id).await, TURN);
    }
}

async fn down_at_save(storage: Storage) {
    for (fault, attempts) in [(Fault::Unavailable, 3), (Fault::Backend, 1)] {
        for door in BOTH_DOORS {
            let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
            let before = storage.store.calls(Op::Append);
            storage.store.fail(Op::Append, attempts, fault);
            let (call, report) = asked(&id, "u").with_report();
            let said = chat.call(door, call).await;
            assert!(report.await.unwrap().save_error().is_some());
            match door {
                Door::Unary => assert_eq!(answer(&not_saved(said.unwrap_err()).into_response()), "a"),
                Door::Stream => assert_eq!(said.unwrap(), "a"),
            }
            assert_eq!(storage.store.calls(Op::Append) - before, attempts);
            assert!(log(&storage.store, &id).await.is_empty());
        }
    }
}

async fn down_at_save_is_reported_by_policy(storage: Storage) {
    for door in BOTH_DOORS {
        let options = HistoryOptions::new().policies(Policies::new().on_save_failure(OnSaveFailure::Report));
        let (chat, id) = (Chat::with_options(&storage, [Reply::text("a")], options), storage.conversation());
        storage.store.fail(Op::Append, 1, Fault::Backend);
        let (call, report) = asked(&id, "u").with_report();
        assert_eq!(chat.call(door, call).await.unwrap(), "a");
        let report = report.await.unwrap();
        assert!(matches!(report.save_error(), Some(SaveError::Store(StoreError::Backend { .. }))));
        assert!(log(&storage.store, &id).await.is_empty());
    }
}

async fn slow_at_save_and_not_stored(storage: Storage) {
    for door in BOTH_DOORS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        storage.store.delay(Op::Append, Duration::from_secs(11));
        let (call, report) = asked(&id, "u").with_report();
        let said = chat.call(door, call).await;
        let report = report.await.unwrap();
        assert!(matches!(report.save_error(), Some(SaveError::Timeout(after)) if after.as_secs() == 10));
        match door {
            Door::Unary => assert!(matches!(not_saved(said.unwrap_err()).reason(), SaveError::Timeout(_))),
            Door::Stream => assert_eq!(said.unwrap(), "a"),
        }
        storage.store.mend();
        assert!(log(&storage.store, &id).await.is_empty());
    }
}

async fn slow_at_save_and_stored(storage: Storage) {
    for door in BOTH_DOORS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        let exchange = ExchangeId::new("e-1").unwrap();
        let held = storage.store.hold_answers(Op::Append);
        let (call, report) = asked(&id, "u").exchange(exchange.clone()).with_report();
        let said = chat.call(door, call).await;
        assert!(matches!(report.await.unwrap().save_error(), Some(SaveError::Timeout(_))));
        assert_eq!(said.is_err(), door == Door::Unary);
        held.release();
        assert_eq!(log(&storage.store, &id).await, TURN, "once, though it was tried three times");

        // Its id tells.
        let error = chat.call(door, asked(&id, "u").exchange(exchange)).await.unwrap_err();
        let recorded = tests::kept_back(&error);
        assert!(matches!(recorded, tower_chat_history::HistoryError::AlreadyRecorded(_)));
    }
}
