//! Calls over a limit.

use std::time::Duration;

use tests::{BOTH_KINDS, Chat, Storage, history_error, log, over_every_store};
use tower_chat_history::{
    BoxError, ConversationId, HistoryError, HistoryOptions, HistoryStore as _, Message,
    limits::{ConversationQuota, LimitExceeded, LimitKind, Limits},
    store::{Load, Loaded, Prefix},
};
use tower_chat_history_test::Reply;

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_call_over_a_rate_can_be_sent_again,
    a_call_to_a_full_conversation_stores_nothing,
    calls_that_run_are_stored_beyond_a_limit,
    one_conversation_too_many_stores_nothing,
}

const TURN_0: [&str; 2] = ["user: u0", "assistant: a0"];

fn options(limits: Limits) -> HistoryOptions {
    HistoryOptions::new().limits(limits)
}

fn exceeded(error: &BoxError) -> LimitExceeded {
    let HistoryError::Limit(exceeded) = history_error(error) else { panic!("{error}") };
    *exceeded
}

async fn a_call_over_a_rate_can_be_sent_again(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = ["a0", "a1"].map(Reply::text);
        let limits = options(Limits::new().calls_per_minute(1));
        let (chat, id) = (Chat::with_options(&storage, replies, limits), storage.conversation());
        chat.ask(kind, &id, "u0").await.unwrap();
        let wait = exceeded(&chat.ask(kind, &id, "u1").await.unwrap_err()).retry_after.unwrap();
        assert!(wait <= Duration::from_secs(60));
        assert_eq!((chat.llm.requests().len(), log(&storage.store, &id).await), (1, TURN_0.map(Into::into).into()));
        tokio::time::advance(wait).await;
        assert_eq!(chat.ask(kind, &id, "u1").await.unwrap(), "a1");
    }
}

/// The size of the log comes from the store.
async fn a_call_to_a_full_conversation_stores_nothing(storage: Storage) {
    for kind in BOTH_KINDS {
        let bytes = {
            let (chat, id) = (Chat::new(&storage, ["a0"].map(Reply::text)), storage.conversation());
            chat.ask(kind, &id, "u0").await.unwrap();
            let entry = chat.engine().store().load(&id, Load::new()).await.unwrap();
            let Loaded::Window(window) = entry else { panic!() };
            window.log_bytes
        };
        let question = Message::user("u1").bytes() as u64;
        for (limits, kind_of_limit) in [
            (Limits::new().max_exchanges(1), Some(LimitKind::Exchanges)),
            (Limits::new().max_exchanges(2), None),
            (Limits::new().max_conversation_bytes(bytes + question - 1), Some(LimitKind::ConversationBytes)),
            (Limits::new().max_conversation_bytes(bytes + question), None),
        ] {
            let replies = ["a0", "a1"].map(Reply::text);
            let (chat, id) = (Chat::with_options(&storage, replies, options(limits)), storage.conversation());
            chat.ask(kind, &id, "u0").await.unwrap();
            let second = chat.ask(kind, &id, "u1").await;
            assert_eq!(second.as_ref().err().map(exceeded).map(|exceeded| exceeded.kind), kind_of_limit);
            assert_eq!(log(&storage.store, &id).await.len(), if second.is_ok() { 4 } else { 2 });
        }
    }
}

async fn calls_that_run_are_stored_beyond_a_limit(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = ["a0", "a1"].map(Reply::text);
        let limits = options(Limits::new().max_exchanges(1));
        let (chat, id) = (Chat::with_options(&storage, replies, limits), storage.conversation());
        let release = chat.hold_reply();
        let (one, two, ()) = tokio::join!(chat.ask(kind, &id, "u0"), chat.ask(kind, &id, "u1"), async {
            chat.reached(2).await;
            drop(release);
        });
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(log(&storage.store, &id).await.len(), 4);
        assert_eq!(exceeded(&chat.ask(kind, &id, "u2").await.unwrap_err()).found, 3);
    }
}

async fn one_conversation_too_many_stores_nothing(storage: Storage) {
    for kind in BOTH_KINDS {
        let parent = storage.conversation();
        let child = |name: &str| ConversationId::new(parent.parts().chain([name.into()])).unwrap();
        let quota = ConversationQuota::new(storage.store.clone());
        let quota = quota.under(Prefix::from(&parent), parent.parts().count(), 2);
        let options = HistoryOptions::new().conversation_quota(quota);
        let chat = Chat::with_options(&storage, ["a0", "a0", "a1", "a0"].map(Reply::text), options);
        for (name, text) in [("one", "u0"), ("two", "u0"), ("one", "u1")] {
            chat.ask(kind, &child(name), text).await.unwrap();
        }
        let exceeded = exceeded(&chat.ask(kind, &child("three"), "u0").await.unwrap_err());
        assert_eq!((exceeded.kind, exceeded.limit, exceeded.found), (LimitKind::Conversations, 2, 3));
        assert!(log(&storage.store, &child("three")).await.is_empty());
        storage.store.delete(&child("two")).await.unwrap();
        // A full prefix is remembered for one second.
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(chat.ask(kind, &child("three"), "u0").await.unwrap(), "a0");
    }
}
