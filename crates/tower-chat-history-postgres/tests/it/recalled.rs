//! Recalled messages: damaged columns, and their erasure.

use libtest_mimic::Trial;
use test_servers::trials;
use tokio_postgres::Client;
use tower_chat_history_core::{
    Append, Citation, ConversationId, Derived, ExchangeId, Expect, HistoryStore, Load, Prune, PruneTo, Recalled, Seq,
    StoreError,
};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    no_text::shown,
    support::{compact_with, connect, conversation, database, exchange, say, single, texts, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![damaged_recalled_messages_are_corrupt, a_damaged_recalled_message_is_erased, no_row_contains_erased_text,]
}

/// Appends an exchange whose recalled messages have this text and cite a position.
async fn recall(store: &PostgresStore, id: &ConversationId, text: &str, cited: u64) -> ExchangeId {
    let mut exchange = exchange("asks");
    exchange.recalled = Some(Recalled::new(text, vec![Citation::new(Seq::new(cited), 0..1)]));
    let exchange_id = exchange.id.clone();
    store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    exchange_id
}

async fn damaged_recalled_messages_are_corrupt() {
    for damage in [
        "recalled = 'secret'",
        "recalled = ''",
        "recalled = body",
        "recalled = '{\"v\":9,\"secret\":1}'",
        "recalled = '{\"v\":1,\"message\":{\"role\":\"secret\"}}'",
    ] {
        let url = database().await;
        let (store, client, id) = (single(&url).await, connect(&url).await, conversation("a"));
        for text in ["one", "two"] {
            say(&store, &id, text).await;
        }
        let asked = recall(&store, &id, "recalled", 1).await;
        say(&store, &id, "four").await;
        let change = format!("update chat_history.exchange set {damage} where seq = 2");
        assert_eq!(client.execute(&change, &[]).await.unwrap(), 1, "{damage}");
        for error in [
            store.load(&id, Load::new()).await.unwrap_err(),
            store.load(&id, Load::new().exchange(asked)).await.unwrap_err(),
            store.read(&id, Seq::FIRST, 9).await.unwrap_err(),
        ] {
            let right = matches!(&error, StoreError::Corrupt { conversation, seq, .. } if *conversation == id && seq.get() == 2);
            assert!(right, "{damage}: {error:?}");
            assert!(!shown(&error).contains("secret"), "{error:?}");
        }
    }
}

async fn a_damaged_recalled_message_is_erased() {
    let url = database().await;
    let (store, client, id) = (single(&url).await, connect(&url).await, conversation("a"));
    let incarnation = say(&store, &id, "one").await.revision.incarnation();
    recall(&store, &id, "recalled", 0).await;
    client.batch_execute("update chat_history.exchange set recalled = 'secret' where seq = 1").await.unwrap();
    store.prune(&id, incarnation, PruneTo::LastTurns(1), Derived::Erase).await.unwrap();
    assert_eq!(window(&store, &id).await.exchanges[0].exchange.recalled, None);
}

/// Returns the names of the tables with a row that contains the word `secret`.
async fn tables_with_secrets(client: &Client) -> Vec<String> {
    let names = "select tablename::text from pg_tables where schemaname = 'chat_history' order by 1";
    let mut found = Vec::new();
    for row in client.query(names, &[]).await.unwrap() {
        let name: String = row.get(0);
        // The text form of a row has bytes as hexadecimal digits.
        let secrets = format!(
            "select count(*) from chat_history.{name} t \
             where t::text like '%secret%' or t::text like '%' || encode('secret', 'hex') || '%'"
        );
        if client.query_one(&secrets, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            found.push(name);
        }
    }
    found
}

async fn no_row_contains_erased_text() {
    for kept_first in [false, true] {
        let url = database().await;
        let (store, client, id) = (single(&url).await, connect(&url).await, conversation("a"));
        let incarnation = say(&store, &id, "the secret").await.revision.incarnation();
        say(&store, &id, "two").await;
        recall(&store, &id, "shows the secret \u{0}", 0).await;
        recall(&store, &id, "shows two", 1).await;
        store.compact(&id, incarnation, compact_with("secret", 1)).await.unwrap();
        assert_eq!(tables_with_secrets(&client).await, ["compaction", "exchange"]);
        let keep = PruneTo::From(Seq::new(1));
        if kept_first {
            store.prune(&id, incarnation, keep, Derived::Keep).await.unwrap();
            assert_eq!(tables_with_secrets(&client).await, ["compaction", "exchange"]);
        }
        let pruned = store.prune(&id, incarnation, keep, Derived::Erase).await.unwrap();
        assert_eq!((pruned.removed, tables_with_secrets(&client).await), (u64::from(!kept_first), vec![]));
        assert_eq!(texts(&store, &id).await, ["two", "asks", "asks"]);
        let recalled: Vec<_> =
            window(&store, &id).await.exchanges.iter().map(|one| one.exchange.recalled.is_some()).collect();
        assert_eq!(recalled, [false, false, true]);
    }
}
