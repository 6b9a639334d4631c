//! Invariant 5: appends are conditional.

use proptest::prelude::*;
use tests::{
    BOTH_KINDS, CallKind, Chat, Storage, check, exchanges, history_error, log, over_every_store, response_text,
    unsaved, user_call,
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
    invariant_5_a_call_in_flight_cannot_restore_a_deleted_conversation,
    invariant_5_an_exchange_id_is_stored_once,
}

/// Makes calls that all load before any of them gets a reply. Returns their results, in the order of the
/// calls.
async fn race(chat: &Chat, id: &ConversationId, kinds: &[CallKind]) -> Vec<Result<String, BoxError>> {
    let before = chat.llm.requests().len();
    let held: Vec<_> = kinds.iter().map(|_| chat.hold_reply()).collect();
    let calls: Vec<_> = kinds
        .iter()
        .map(|kind| {
            let (chat, id, kind) = (chat.clone(), id.clone(), *kind);
            tokio::spawn(async move { chat.ask(kind, &id, "u").await })
        })
        .collect();
    chat.reached(before + kinds.len()).await;
    drop(held);
    let mut reply = Vec::new();
    for call in calls {
        reply.push(call.await.unwrap());
    }
    reply
}

fn kinds() -> impl Strategy<Value = Vec<CallKind>> {
    prop::collection::vec(prop::sample::select(BOTH_KINDS.to_vec()), 2..6)
}

async fn invariant_5_racing_callers_are_all_stored_under_rebase(storage: Storage) {
    check(16, (kinds(), any::<bool>()), async |(kinds, first_turn): (Vec<CallKind>, bool)| {
        let replies: Vec<_> = (0..=kinds.len()).map(|number| Reply::text(format!("a{number}"))).collect();
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        if !first_turn {
            chat.ask(CallKind::Unary, &id, "u").await.unwrap();
        }
        let mut reply: Vec<_> = race(&chat, &id, &kinds).await.into_iter().map(Result::unwrap).collect();
        reply.sort();
        let stored = exchanges(&storage.store, &id).await;
        let mut replies: Vec<_> =
            stored[usize::from(!first_turn)..].iter().map(|r| r.exchange.messages[1].text().into_owned()).collect();
        replies.sort();
        assert_eq!(replies, reply, "each is stored once and completely, in any order");
        assert!(stored.iter().enumerate().all(|(at, recorded)| recorded.seq.get() == at as u64));
    });
}

async fn invariant_5_one_of_racing_callers_is_stored_under_reject(storage: Storage) {
    check(16, (kinds(), any::<bool>()), async |(kinds, first_turn): (Vec<CallKind>, bool)| {
        let options = HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Reject));
        let replies: Vec<_> = (0..=kinds.len()).map(|number| Reply::text(format!("a{number}"))).collect();
        let (chat, id) = (Chat::with_options(&storage, replies, options), storage.conversation());
        if !first_turn {
            chat.ask(CallKind::Unary, &id, "u").await.unwrap();
        }
        let mut refused = 0;
        for (reply, kind) in race(&chat, &id, &kinds).await.into_iter().zip(&kinds) {
            let Err(error) = reply else { continue };
            assert_eq!(*kind, CallKind::Unary);
            let failed = unsaved(error);
            assert!(matches!(failed.reason(), SaveError::Store(StoreError::Conflict { .. })));
            assert!(response_text(failed.response()).starts_with('a'));
            refused += 1;
        }
        let unary = kinds.iter().filter(|kind| **kind == CallKind::Unary).count();
        assert!(refused == unary || refused + 1 == unary, "one wins");
        assert_eq!(exchanges(&storage.store, &id).await.len(), 1 + usize::from(!first_turn));
    });
}

async fn invariant_5_a_call_in_flight_cannot_restore_a_deleted_conversation(storage: Storage) {
    for comes_back in [false, true] {
        let replies: Vec<_> = (0..4).map(|number| Reply::text(format!("a{number}"))).collect();
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        chat.ask(CallKind::Unary, &id, "u").await.unwrap();
        let held = chat.hold_reply();
        let (slow, ()) = tokio::join!(chat.ask(CallKind::Unary, &id, "slow"), async {
            chat.reached(2).await;
            storage.store.delete(&id).await.unwrap();
            if comes_back {
                chat.ask(CallKind::Unary, &id, "again").await.unwrap();
            }
            drop(held);
        });
        assert!(matches!(unsaved(slow.unwrap_err()).reason(), SaveError::Store(StoreError::Gone)));
        let expected: &[&str] = if comes_back { &["user: again", "assistant: a2"] } else { &[] };
        assert_eq!(log(&storage.store, &id).await, expected);
    }
}

async fn invariant_5_an_exchange_id_is_stored_once(storage: Storage) {
    check(16, (2..5_usize, 0..3_usize), async |(callers, lost): (usize, usize)| {
        for kind in BOTH_KINDS {
            let replies: Vec<_> = (0..callers).map(|number| Reply::text(format!("a{number}"))).collect();
            let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
            let call = || user_call(&id, "u").exchange(ExchangeId::new("e-1").unwrap());
            // After a lost answer, the save is repeated.
            storage.store.lose_answers(Op::Append, lost);
            let held: Vec<_> = (0..callers).map(|_| chat.hold_reply()).collect();
            let calls: Vec<_> = (0..callers)
                .map(|_| {
                    let (chat, call) = (chat.clone(), call());
                    tokio::spawn(async move { chat.call(kind, call).await.unwrap() })
                })
                .collect();
            chat.reached(callers).await;
            drop(held);
            let mut reply = Vec::new();
            for call in calls {
                reply.push(call.await.unwrap());
            }
            reply.sort();
            reply.dedup();
            assert_eq!(reply.len(), callers, "each has its own response");
            let stored = exchanges(&storage.store, &id).await;
            assert_eq!(stored.len(), 1);
            let error = chat.call(kind, call()).await.unwrap_err();
            let HistoryError::AlreadyRecorded(recorded) = history_error(&error) else { panic!("{error}") };
            assert_eq!(*recorded, stored[0]);
            assert_eq!(chat.llm.requests().len(), callers);
            storage.store.mend();
        }
    });
}
