//! The number of conversations under a prefix.

use std::time::Duration;

use tower_chat_history::{
    CachedStore, CallOptions, Policies,
    limits::ConversationQuota,
    policy::OnLoadFailure,
    store::{List, Prefix},
};
use tower_chat_history_test::{Fault, FaultStore, Op};

use super::*;

fn quota(store: impl List) -> ConversationQuota {
    ConversationQuota::new(store).under(Prefix::all(), 1, 2)
}

fn limited(store: impl List + Clone) -> Engine {
    let quota = quota(store.clone());
    Engine::with_options(store, HistoryOptions::new().conversation_quota(quota))
}

#[tokio::test]
async fn only_new_conversations_count() {
    let engine = limited(MemoryStore::new());
    for _ in 0..3 {
        for conversation in ["a/1", "a/2", "b/1"] {
            ask(&engine, conversation, "u").await.unwrap();
        }
        let refused = ask(&engine, "a/3", "u").await.unwrap_err();
        assert_eq!((refused.kind, refused.limit, refused.found), (LimitKind::Conversations, 2, 3));
    }
    assert!(log(&engine, "a/3").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_conversation_makes_room_after_a_second() {
    let engine = limited(MemoryStore::new());
    for conversation in ["a/1", "a/2"] {
        ask(&engine, conversation, "u").await.unwrap();
    }
    assert!(ask(&engine, "a/3", "u").await.is_err());
    engine.store().delete(&id("a/1")).await.unwrap();
    assert!(ask(&engine, "a/3", "u").await.is_err());
    tokio::time::advance(Duration::from_secs(1)).await;
    ask(&engine, "a/3", "u").await.unwrap();
    assert!(ask(&engine, "a/1", "u").await.is_err());
}

#[tokio::test]
async fn a_call_that_stores_nothing_creates_no_conversation() {
    let engine = limited(MemoryStore::new());
    for conversation in ["a/1", "a/2"] {
        ask(&engine, conversation, "u").await.unwrap();
    }
    let input = TurnInput::new(id("a/3"), [Message::user("u")]).options(CallOptions::new().dont_store());
    call(&engine, input, Message::assistant("a")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_the_longest_prefix_applies_for_each_number_of_parts() {
    let store = MemoryStore::new();
    let quota = quota(store.clone()).under("big".parse().unwrap(), 1, 4).under("big".parse().unwrap(), 2, 3);
    let engine = Engine::with_options(store, HistoryOptions::new().conversation_quota(quota));
    for conversation in ["big/u/1", "big/u/2", "big/u/3", "big/v/1", "small/1", "small/2"] {
        ask(&engine, conversation, "u").await.unwrap();
    }
    for (conversation, parts, limit) in [("big/w/1", 1, 4), ("small/3", 1, 2)] {
        let refused = ask(&engine, conversation, "u").await.unwrap_err();
        assert_eq!((refused.parts, refused.limit), (Some(parts), limit));
    }
    engine.store().delete(&id("big/v/1")).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    let refused = ask(&engine, "big/u/4", "u").await.unwrap_err();
    assert_eq!((refused.parts, refused.limit), (Some(2), 3));
}

#[tokio::test]
async fn more_conversations_than_a_page_are_counted() {
    let store = MemoryStore::new();
    let unlimited = Engine::new(store.clone());
    for number in 0..1_100 {
        ask(&unlimited, &format!("a/{number}"), "u").await.unwrap();
    }
    for (limit, is_refused) in [(1_101, false), (1_100, true), (1_000, true), (0, true)] {
        let quota = ConversationQuota::new(store.clone()).under(Prefix::all(), 0, limit);
        let engine = Engine::with_options(store.clone(), HistoryOptions::new().conversation_quota(quota));
        assert_eq!(
            engine.begin(TurnInput::new(id("a/new"), [Message::user("u")])).await.is_err(),
            is_refused,
            "{limit}"
        );
    }
}

#[tokio::test]
async fn conversations_are_counted_through_other_stores() {
    let engine = limited(CachedStore::new(MemoryStore::new()));
    for conversation in ["a/1", "a/2"] {
        ask(&engine, conversation, "u").await.unwrap();
    }
    assert!(ask(&engine, "a/3", "u").await.is_err());
}

/// If the history cannot be loaded, it is not known if the conversation is new.
#[tokio::test]
async fn calls_without_history_are_limited_by_size_only() {
    let store = FaultStore::new(MemoryStore::new());
    let policies = Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory);
    let limits = Limits::new().max_exchanges(0).max_conversation_bytes(0).max_message_bytes(100);
    let options = HistoryOptions::new().policies(policies).limits(limits);
    let engine = Engine::with_options(store.clone(), options);
    assert_eq!(ask(&engine, "a/1", "u").await.unwrap_err().kind, LimitKind::Exchanges);
    store.fail(Op::Load, 1, Fault::Unavailable);
    ask(&engine, "a/1", "u").await.unwrap();
    assert_eq!(ask(&engine, "a/1", &"u".repeat(100)).await.unwrap_err().kind, LimitKind::MessageBytes);
}

#[tokio::test]
async fn a_conversation_with_a_short_id_is_not_measured_against_its_tenant() {
    let store = MemoryStore::new();
    for (conversation, conversations, is_refused) in [("a", 1, false), ("b", 0, true)] {
        let quota = ConversationQuota::new(store.clone()).under(Prefix::all(), 2, conversations);
        let engine = Engine::with_options(store.clone(), HistoryOptions::new().conversation_quota(quota));
        ask(&Engine::new(store.clone()), "a/u/1", "u").await.unwrap();
        assert_eq!(ask(&engine, conversation, "u").await.is_err(), is_refused);
    }
}

/// A tenant at its quota cannot make the store list its conversations again and again.
#[tokio::test(start_paused = true)]
async fn calls_over_a_quota_cost_one_listing_per_second() {
    let store = FaultStore::new(MemoryStore::new());
    let engine = limited(store.clone());
    for conversation in ["a/1", "a/2"] {
        ask(&engine, conversation, "u").await.unwrap();
    }
    let before = store.calls(Op::List);
    for number in 0..100 {
        assert!(ask(&engine, &format!("a/new{number}"), "u").await.is_err());
    }
    assert_eq!(store.calls(Op::List), before + 1);
}

#[tokio::test]
async fn a_call_that_is_invalid_costs_no_listing() {
    let store = FaultStore::new(MemoryStore::new());
    let engine = limited(store.clone());
    let unexpected = TurnInput::new(id("a/1"), [Message::tool("x", "r")]);
    assert!(matches!(engine.begin(unexpected).await, Err(HistoryError::Input(_))));
    assert_eq!(store.calls(Op::List), 0);
}

/// Calls that run at the same time do not see each other's conversations.
#[tokio::test]
async fn first_calls_at_the_same_time_may_exceed_a_quota() {
    let engine = limited(MemoryStore::new());
    let mut turns = Vec::new();
    for number in 0..4 {
        let input = TurnInput::new(id(&format!("a/{number}")), [Message::user("u")]);
        turns.push(engine.begin(input).await.unwrap());
    }
    for turn in turns {
        turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
    }
    assert_eq!(ask(&engine, "a/new", "u").await.unwrap_err().found, 3);
}
