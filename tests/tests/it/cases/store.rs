//! A store that fails or is slow at the load, and concurrent callers. `save.rs` has stores that fail at the
//! save.

use std::time::Duration;

use tests::{
    BOTH_KINDS, Chat, Storage, history_error, input_error, log, over_every_store, prompts, request, unsaved, user_call,
};
use tower_chat_history::{
    HistoryError, HistoryOptions, HistoryStore as _, InConversation, Message, Policies, SaveError, StoreError,
    error::InputError,
    policy::{OnConflict, OnLoadFailure, QueueLimits},
    report::{HistoryStatus, TurnOutcome},
};
use tower_chat_history_test::{Fault, Op, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    down_at_load_fails_before_the_model_is_called,
    down_at_load_the_model_is_called_without_history_by_policy,
    down_at_load_and_the_input_is_tool_results,
    slow_at_load,
    an_exchange_is_rebased_onto_another_one,
    another_exchange_is_a_conflict_by_policy,
    two_callers_are_both_stored,
    two_callers_wait_for_each_other_by_policy,
    the_queue_is_full_or_slow,
    the_conversation_is_deleted_during_the_call,
}

const TURN_0: [&str; 2] = ["user: u0", "assistant: a0"];

async fn down_at_load_fails_before_the_model_is_called(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, []), storage.conversation());
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        let error = chat.ask(kind, &id, "u").await.unwrap_err();
        assert!(matches!(history_error(&error), HistoryError::Load(StoreError::Unavailable { .. })));
        assert!(chat.llm.requests().is_empty() && log(&storage.store, &id).await.is_empty());
    }
}

async fn down_at_load_the_model_is_called_without_history_by_policy(storage: Storage) {
    for kind in BOTH_KINDS {
        let options =
            HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
        let replies = ["a0", "a1", "a2"].map(Reply::text);
        let (chat, id) = (Chat::with_options(&storage, replies, options), storage.conversation());
        chat.ask(kind, &id, "u0").await.unwrap();

        // The store is available at the save.
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        let (call, report) = user_call(&id, "u1").with_report();
        assert_eq!(chat.call(kind, call).await.unwrap(), "a1");
        let report = report.await.unwrap();
        assert_eq!((report.history, report.messages_loaded), (HistoryStatus::Unavailable, 0));
        assert!(matches!(report.outcome, TurnOutcome::Stored { .. }));
        assert_eq!(prompts(&chat.llm)[1], ["user: u1"]);
        let both = [&TURN_0[..], &["user: u1", "assistant: a1"]].concat();
        assert_eq!(log(&storage.store, &id).await, both);

        // The store is unavailable at the save.
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        storage.store.fail(Op::Append, 3, Fault::Unavailable);
        let (call, report) = user_call(&id, "u2").with_report();
        let reply = chat.call(kind, call).await;
        if let Err(error) = reply {
            assert_eq!(tests::response_text(unsaved(error).response()), "a2");
        }
        assert!(report.await.unwrap().save_error().is_some());
        assert_eq!(log(&storage.store, &id).await, both);
    }
}

async fn down_at_load_and_the_input_is_tool_results(storage: Storage) {
    for kind in BOTH_KINDS {
        let options =
            HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
        let replies = [Reply::calls([("x", "f", "{}")]), Reply::text("a")];
        let (chat, id) = (Chat::with_options(&storage, replies, options), storage.conversation());
        chat.ask(kind, &id, "u").await.unwrap();
        let results = || InConversation::new(id.clone(), request([Message::tool("x", "r")]));
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        let error = chat.call(kind, results()).await.unwrap_err();
        assert_eq!(*input_error(&error), InputError::UnexpectedResult { position: 0, call_id: "x".into() });
        assert_eq!((chat.llm.requests().len(), log(&storage.store, &id).await.len()), (1, 2));
        assert_eq!(
            chat.call(kind, results()).await.unwrap(),
            "a",
            "the results are accepted when the store is available"
        );
    }
}

async fn slow_at_load(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, []), storage.conversation());
        storage.store.delay(Op::Load, Duration::from_secs(11));
        let error = chat.ask(kind, &id, "u").await.unwrap_err();
        assert!(matches!(history_error(&error), HistoryError::LoadTimeout(after) if after.as_secs() == 10));

        let options =
            HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
        let chat = Chat::with_options(&storage, [Reply::text("a0")], options);
        let (call, report) = user_call(&id, "u0").with_report();
        assert_eq!(chat.call(kind, call).await.unwrap(), "a0");
        assert_eq!(report.await.unwrap().history, HistoryStatus::Unavailable);
        storage.store.mend();
        assert_eq!(log(&storage.store, &id).await, TURN_0);
    }
}

/// Runs one call whose reply arrives only after another call of the conversation.
async fn overtaken(chat: &Chat, kind: tests::CallKind, id: &tower_chat_history::ConversationId) -> Overtaken {
    let reached = chat.llm.requests().len();
    let release = chat.hold_reply();
    let (call, report) = user_call(id, "slow").with_report();
    let (slow, ()) = tokio::join!(chat.call(kind, call), async {
        chat.reached(reached + 1).await;
        chat.ask(kind, id, "fast").await.unwrap();
        drop(release);
    });
    (slow, report.await.unwrap())
}

type Overtaken = (Result<String, tower_chat_history::BoxError>, std::sync::Arc<tower_chat_history::TurnReport>);

async fn an_exchange_is_rebased_onto_another_one(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = ["s0", "f0", "s1", "f1"].map(Reply::text);
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        // In a first turn, and in a later one.
        for reply in ["s0", "s1"] {
            assert_eq!(overtaken(&chat, kind, &id).await.0.unwrap(), reply);
        }
        let turns = ["user: fast", "assistant: f0", "user: slow", "assistant: s0", "user: fast", "assistant: f1"];
        assert_eq!(log(&storage.store, &id).await, [&turns[..], &["user: slow", "assistant: s1"]].concat());
    }
}

async fn another_exchange_is_a_conflict_by_policy(storage: Storage) {
    for kind in BOTH_KINDS {
        let options = HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Reject));
        let replies = ["s0", "f0", "s1", "f1"].map(Reply::text);
        let (chat, id) = (Chat::with_options(&storage, replies, options), storage.conversation());
        for expected in ["s0", "s1"] {
            let (reply, report) = overtaken(&chat, kind, &id).await;
            let conflict = |error: &SaveError| matches!(error, SaveError::Store(StoreError::Conflict { .. }));
            assert!(conflict(report.save_error().unwrap()));
            match reply {
                // The items of a stream have been passed on already.
                Ok(reply) => assert_eq!((reply.as_str(), kind), (expected, tests::CallKind::Stream)),
                Err(error) => {
                    let failed = unsaved(error);
                    assert!(conflict(failed.reason()));
                    assert_eq!(tests::response_text(&failed.into_response()), expected);
                }
            }
        }
        assert_eq!(log(&storage.store, &id).await, ["user: fast", "assistant: f0", "user: fast", "assistant: f1"]);
    }
}

async fn two_callers_are_both_stored(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = ["a0", "a1"].map(Reply::text);
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        let (one, two) = tokio::join!(chat.ask(kind, &id, "u"), chat.ask(kind, &id, "u"));
        let mut reply = [one.unwrap(), two.unwrap()];
        reply.sort();
        assert_eq!(reply, ["a0", "a1"]);
        let stored = log(&storage.store, &id).await;
        assert_eq!((stored[0].as_str(), stored[2].as_str()), ("user: u", "user: u"));
        let mut replies = [stored[1].as_str(), stored[3].as_str()];
        replies.sort_unstable();
        assert_eq!(replies, ["assistant: a0", "assistant: a1"]);
    }
}

fn serialized(max_waiting: usize) -> HistoryOptions {
    let queue = QueueLimits::new(max_waiting, Duration::from_secs(60));
    HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Serialize(queue)))
}

async fn two_callers_wait_for_each_other_by_policy(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = ["a0", "a1"].map(Reply::text);
        let (chat, id) = (Chat::with_options(&storage, replies, serialized(1)), storage.conversation());
        let (one, two) = tokio::join!(chat.ask(kind, &id, "u0"), chat.ask(kind, &id, "u1"));
        assert_eq!((one.unwrap().as_str(), two.unwrap().as_str()), ("a0", "a1"));
        assert_eq!(prompts(&chat.llm)[1], ["user: u0", "assistant: a0", "user: u1"], "the second saw the first");
        let both = [&TURN_0[..], &["user: u1", "assistant: a1"]].concat();
        assert_eq!(log(&storage.store, &id).await, both);
    }
}

async fn the_queue_is_full_or_slow(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::with_options(&storage, [Reply::text("a0")], serialized(1)), storage.conversation());
        let release = chat.hold_reply();
        let (first, late, full) = tokio::join!(
            biased;
            chat.ask(kind, &id, "u0"),
            async {
                let late = chat.ask(kind, &id, "u1").await;
                drop(release);
                late
            },
            chat.ask(kind, &id, "u2"),
        );
        assert!(matches!(history_error(&full.unwrap_err()), HistoryError::QueueFull { max_waiting: 1 }));
        assert!(
            matches!(history_error(&late.unwrap_err()), HistoryError::QueueTimeout(after) if after.as_secs() == 60)
        );
        assert_eq!(first.unwrap(), "a0");
        assert_eq!(log(&storage.store, &id).await, TURN_0);
    }
}

async fn the_conversation_is_deleted_during_the_call(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = ["a0", "a1"].map(Reply::text);
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        chat.ask(kind, &id, "u0").await.unwrap();
        let release = chat.hold_reply();
        let (call, report) = user_call(&id, "u1").with_report();
        let (reply, ()) = tokio::join!(chat.call(kind, call), async {
            chat.reached(2).await;
            storage.store.delete(&id).await.unwrap();
            drop(release);
        });
        let report = report.await.unwrap();
        assert!(matches!(report.save_error(), Some(SaveError::Store(StoreError::Gone))));
        match reply {
            Ok(reply) => assert_eq!((reply.as_str(), kind), ("a1", tests::CallKind::Stream)),
            Err(error) => assert_eq!(tests::response_text(unsaved(error).response()), "a1"),
        }
        assert!(log(&storage.store, &id).await.is_empty());
    }
}
