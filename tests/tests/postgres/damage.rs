//! Rows that somebody else wrote to: an error, and never a wrong history.

use libtest_mimic::Trial;
use tests::servers::test;
use tokio_postgres::Client;
use tower_chat_history_core::{ConversationId, Derived, HistoryStore, Load, Loaded, Prune, PruneTo, Seq, StoreError};
use tower_chat_history_postgres::PostgresStore;

use crate::support::{connect, conversation, database, exchange, say, single, texts, window};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("damage::a_record_of_another_exchange_is_corrupt", another_exchange),
        test("damage::a_record_of_another_exchange_answers_no_repeated_call", repeated_call),
        test("damage::counters_that_contradict_each_other_are_corrupt", counters),
        test("damage::counters_of_a_pruned_log_are_checked_too", pruned),
        test("damage::a_window_that_starts_beyond_the_log_is_corrupt", beyond),
    ]
}

/// A conversation of three turns of two exchanges, and another one.
async fn place() -> (PostgresStore, Client, ConversationId) {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("damaged");
    for turn in 0..3 {
        say(&store, &id, "question").await;
        let revision = window(&store, &id).await.revision;
        let more = exchange("more").continuing(Seq::new(2 * turn));
        let expect = tower_chat_history_core::Expect::Exactly(revision);
        store.append(&id, tower_chat_history_core::Append::new(expect, more)).await.unwrap();
    }
    say(&store, &conversation("whole"), "whole").await;
    (store, client, id)
}

fn is_corrupt<T: std::fmt::Debug>(answer: Result<T, StoreError>, id: &ConversationId, damage: &str) {
    let error = answer.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { conversation, .. } if conversation == id), "{damage}: {error:?}");
}

async fn another_exchange() {
    for damage in [
        // Two records in each other's place, and one of another conversation.
        "update chat_history.exchange e set body = o.body from chat_history.exchange o \
            where o.conversation = e.conversation and (e.seq, o.seq) in ((2, 4), (4, 2))",
        "update chat_history.exchange e set body = o.body from chat_history.exchange o, chat_history.conversation c \
            where e.seq = 2 and o.conversation = c.id and c.key = 'test/whole'",
        // Two rows in each other's place.
        "update chat_history.exchange e set id = o.id || 'x', body = replace(o.body, o.id, o.id || 'x'), bytes = o.bytes + 1 \
            from chat_history.exchange o where o.conversation = e.conversation and (e.seq, o.seq) in ((2, 4))",
    ] {
        let (store, client, id) = place().await;
        client.batch_execute(damage).await.unwrap();
        is_corrupt(store.load(&id, Load::new()).await, &id, damage);
        is_corrupt(store.read(&id, Seq::FIRST, 9).await, &id, damage);
        assert_eq!(texts(&store, &conversation("whole")).await, ["whole"]);
    }
}

async fn repeated_call() {
    let (store, client, id) = place().await;
    let asked = window(&store, &id).await.exchanges[1].exchange.id.clone();
    let damage = "update chat_history.exchange e set body = o.body from chat_history.exchange o \
                  where o.conversation = e.conversation and e.seq = 1 and o.seq = 3";
    client.batch_execute(damage).await.unwrap();
    is_corrupt(store.load(&id, Load::new().exchange(asked)).await, &id, damage);
}

async fn counters() {
    for damage in [
        "version = 5",
        "version = 7",
        "len = 5",
        "len = 7",
        "len = 0",
        "len = -1",
        "(version, len) = (4, 4)",
        "(version, len, opening) = (4, 4, 2)",
        "(version, len) = (7, 7)",
        "(version, len) = (-1, -1)",
        "first = 2",
        "first = 6",
        "first = 9",
        "first = -1",
        "opening = 2",
        "opening = 5",
        "opening = 6",
        "opening = -1",
        "messages = messages - 1",
        "messages = messages + 1",
        "bytes = bytes - 1",
        "bytes = 0",
    ] {
        let (store, client, id) = place().await;
        let change = format!("update chat_history.conversation set {damage} where key = 'test/damaged'");
        client.batch_execute(&change).await.unwrap();
        is_corrupt(store.load(&id, Load::new()).await, &id, damage);
        assert_eq!(texts(&store, &conversation("whole")).await, ["whole"]);
        store.delete(&id).await.unwrap();
        assert_eq!(store.load(&id, Load::new()).await.unwrap(), Loaded::Absent);
    }
    for damage in ["messages_before = messages_before + 1", "bytes_before = 0", "messages = 0", "bytes = bytes + 1"] {
        let (store, client, id) = place().await;
        let change = format!("update chat_history.exchange set {damage} where seq = 3");
        client.batch_execute(&change).await.unwrap();
        is_corrupt(store.load(&id, Load::new()).await, &id, damage);
        is_corrupt(store.read(&id, Seq::FIRST, 9).await, &id, damage);
    }
}

async fn pruned() {
    for damage in ["first = 1", "first = 3", "first = 4"] {
        let (store, client, id) = place().await;
        let incarnation = window(&store, &id).await.revision.incarnation();
        store.prune(&id, incarnation, PruneTo::LastTurns(2), Derived::Keep).await.unwrap();
        assert_eq!(window(&store, &id).await.exchanges.len(), 4);
        let change = format!("update chat_history.conversation set {damage} where key = 'test/damaged'");
        client.batch_execute(&change).await.unwrap();
        is_corrupt(store.load(&id, Load::new()).await, &id, damage);
        is_corrupt(store.read(&id, Seq::FIRST, 9).await, &id, damage);
    }
}

async fn beyond() {
    let (store, client, id) = place().await;
    for start in [6, 7, 99] {
        let change = format!(
            "delete from chat_history.compaction; insert into chat_history.compaction \
             select id, 'default', 1, {start}, 0, 0, 0, gen_random_uuid(), \
                '{{\"v\":1,\"window_start\":{start},\"rounds_start\":0,\"cleared_before\":0}}' \
             from chat_history.conversation where key = 'test/damaged'"
        );
        client.batch_execute(&change).await.unwrap();
        let error = store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{start}: {error:?}");
    }
}
