//! Invariant 5.

use proptest::prelude::*;
use tests::{
    BOTH_DOORS, Chat, Door, Storage, answer, asked, check, exchanges, kept_back, log, not_saved, over_every_store,
};
use tower_chat_history::{
    BoxError, ConversationId, ExchangeId, HistoryError, HistoryOptions, HistoryStore as _, Policies, SaveError,
    StoreError, policy::OnConflict,
};
use tower_chat_history_test::{Op, Reply};

over_every_store! {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    invariant_5_racing_callers_are_all_stored_under_rebase,
    invariant_5_one_of_racing_callers_is_stored_under_reject,
    invariant_5_what_is_in_flight_cannot_revive_what_was_deleted,
    invariant_5_an_exchange_id_is_stored_once,
}

/// Calls that all load before any of them is answered. Each model call is answered by its number.
async fn race(chat: &Chat, id: &ConversationId, doors: &[Door]) -> Vec<Result<String, BoxError>> {
    let before = chat.llm.requests().len();
    let held: Vec<_> = doors.iter().map(|_| chat.hold_reply()).collect();
    let calls: Vec<_> = doors
        .iter()
        .map(|door| {
            let (chat, id, door) = (chat.clone(), id.clone(), *door);
            tokio::spawn(async move { chat.ask(door, &id, "u").await })
        })
        .collect();
    chat.reached(before + doors.len()).await;
    drop(held);
    let mut said = Vec::new();
    for call in calls {
        said.push(call.await.unwrap());
    }
    said
}

fn doors() -> impl Strategy<Value = Vec<Door>> {
    prop::collection::vec(prop::sample::select(BOTH_DOORS.to_vec()), 2..6)
}

async fn invariant_5_racing_callers_are_all_stored_under_rebase(storage: Storage) {
    check(16, (doors(), any::<bool>()), async |(doors, first_turn): (Vec<Door>, bool)| {
        let replies: Vec<_> = (0..=doors.len()).map(|number| Reply::text(format!("a{number}"))).collect();
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        if !first_turn {
            chat.ask(Door::Unary, &id, "u").await.unwrap();
        }
        let mut said: Vec<_> = race(&chat, &id, &doors).await.into_iter().map(Result::unwrap).collect();
        said.sort();
        let stored = exchanges(&storage.store, &id).await;
        let mut replies: Vec<_> =
            stored[usize::from(!first_turn)..].iter().map(|r| r.exchange.messages[1].text().into_owned()).collect();
        replies.sort();
        assert_eq!(replies, said, "each once, whole, in whatever order");
        assert!(stored.iter().enumerate().all(|(at, recorded)| recorded.seq.get() == at as u64));
    });
}

async fn invariant_5_one_of_racing_callers_is_stored_under_reject(storage: Storage) {
    check(16, (doors(), any::<bool>()), async |(doors, first_turn): (Vec<Door>, bool)| {
        let options = HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Reject));
        let replies: Vec<_> = (0..=doors.len()).map(|number| Reply::text(format!("a{number}"))).collect();
        let (chat, id) = (Chat::with_options(&storage, replies, options), storage.conversation());
        if !first_turn {
            chat.ask(Door::Unary, &id, "u").await.unwrap();
        }
        let mut refused = 0;
        for (said, door) in race(&chat, &id, &doors).await.into_iter().zip(&doors) {
            let Err(error) = said else { continue };
            assert_eq!(*door, Door::Unary);
            let failed = not_saved(error);
            assert!(matches!(failed.reason(), SaveError::Store(StoreError::Conflict { .. })));
            assert!(answer(failed.response()).starts_with('a'));
            refused += 1;
        }
        let unary = doors.iter().filter(|door| **door == Door::Unary).count();
        assert!(refused == unary || refused + 1 == unary, "one wins");
        assert_eq!(exchanges(&storage.store, &id).await.len(), 1 + usize::from(!first_turn));
    });
}

async fn invariant_5_what_is_in_flight_cannot_revive_what_was_deleted(storage: Storage) {
    for comes_back in [false, true] {
        let replies: Vec<_> = (0..4).map(|number| Reply::text(format!("a{number}"))).collect();
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        chat.ask(Door::Unary, &id, "u").await.unwrap();
        let held = chat.hold_reply();
        let (slow, ()) = tokio::join!(chat.ask(Door::Unary, &id, "slow"), async {
            chat.reached(2).await;
            storage.store.delete(&id).await.unwrap();
            if comes_back {
                chat.ask(Door::Unary, &id, "again").await.unwrap();
            }
            drop(held);
        });
        assert!(matches!(not_saved(slow.unwrap_err()).reason(), SaveError::Store(StoreError::Gone)));
        let expected: &[&str] = if comes_back { &["user: again", "assistant: a2"] } else { &[] };
        assert_eq!(log(&storage.store, &id).await, expected);
    }
}

async fn invariant_5_an_exchange_id_is_stored_once(storage: Storage) {
    check(16, (2..5_usize, 0..3_usize), async |(callers, lost): (usize, usize)| {
        for door in BOTH_DOORS {
            let replies: Vec<_> = (0..callers).map(|number| Reply::text(format!("a{number}"))).collect();
            let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
            let call = || asked(&id, "u").exchange(ExchangeId::new("e-1").unwrap());
            // Answers that are lost make a save repeat itself.
            storage.store.lose_answers(Op::Append, lost);
            let held: Vec<_> = (0..callers).map(|_| chat.hold_reply()).collect();
            let calls: Vec<_> = (0..callers)
                .map(|_| {
                    let (chat, call) = (chat.clone(), call());
                    tokio::spawn(async move { chat.call(door, call).await.unwrap() })
                })
                .collect();
            chat.reached(callers).await;
            drop(held);
            let mut said = Vec::new();
            for call in calls {
                said.push(call.await.unwrap());
            }
            said.sort();
            said.dedup();
            assert_eq!(said.len(), callers, "each has its own response");
            let stored = exchanges(&storage.store, &id).await;
            assert_eq!(stored.len(), 1);
            let error = chat.call(door, call()).await.unwrap_err();
            let HistoryError::AlreadyRecorded(recorded) = kept_back(&error) else { panic!("{error}") };
            assert_eq!(*recorded, stored[0]);
            assert_eq!(chat.llm.requests().len(), callers);
            storage.store.mend();
        }
    });
}
