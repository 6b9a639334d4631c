//! Provenances: damaged columns, their erasure, and the cost of an append with one.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, ConversationId, Cut, Derived, Digest, Exchange, Expect, HistoryStore, Load, Origin, PromptDigests,
    Provenance, Prune, PruneTo, Seq, StoreError,
};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    no_text::shown,
    proxy::Proxy,
    support::{connect, conversation, database, exchange, say, single, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        damaged_provenances_are_corrupt,
        all_provenances_are_erased_without_reading_them,
        an_append_with_a_provenance_is_one_round_trip,
    ]
}

/// Returns an exchange whose reply was made by this provider.
fn made_by(provider: &str) -> Exchange {
    let mut exchange = exchange("asks");
    let origin = Origin::unknown().provider(provider);
    let [head, prompt] = ["head", "prompt"].map(|text| Digest::of(text.as_bytes()));
    let cut = Cut::window_from(Seq::new(1)).positions;
    exchange.provenance = Some(Provenance::new(1, cut, PromptDigests::new(head, prompt), origin));
    exchange
}

async fn add(store: &PostgresStore, id: &ConversationId, provider: &str) {
    store.append(id, Append::new(Expect::AnyOrCreate, made_by(provider))).await.unwrap();
}

async fn damaged_provenances_are_corrupt() {
    for damage in ["'secret'", "''", "body", "'[9,\"secret\"]'", "'[1,\"secret\"]'"] {
        let url = database().await;
        let (store, client, id) = (single(&url).await, connect(&url).await, conversation("a"));
        say(&store, &id, "one").await;
        add(&store, &id, "p").await;
        say(&store, &id, "three").await;
        let asked = window(&store, &id).await.exchanges[1].exchange.id.clone();
        let change = format!("update chat_history.exchange set provenance = {damage} where seq = 1");
        assert_eq!(client.execute(&change, &[]).await.unwrap(), 1, "{damage}");
        for error in [
            store.load(&id, Load::new()).await.unwrap_err(),
            store.load(&id, Load::new().exchange(asked)).await.unwrap_err(),
            store.read(&id, Seq::FIRST, 9).await.unwrap_err(),
        ] {
            let right = matches!(&error, StoreError::Corrupt { conversation, seq, .. } if *conversation == id && seq.get() == 1);
            assert!(right, "{damage}: {error:?}");
            assert!(!shown(&error).contains("secret"), "{error:?}");
        }
    }
}

async fn all_provenances_are_erased_without_reading_them() {
    let url = database().await;
    let (store, client, id, other) =
        (single(&url).await, connect(&url).await, conversation("a"), conversation("other"));
    let incarnation = say(&store, &id, "one").await.revision.incarnation();
    add(&store, &id, "p").await;
    add(&store, &id, "p").await;
    add(&store, &other, "p").await;
    let before = window(&store, &other).await;
    client.batch_execute("update chat_history.exchange set provenance = 'secret' where seq = 1").await.unwrap();
    let keep = PruneTo::From(Seq::new(1));
    store.prune(&id, incarnation, keep, Derived::Keep).await.unwrap();
    let held = "select count(*) from chat_history.exchange where provenance is not null";
    assert_eq!(client.query_one(held, &[]).await.unwrap().get::<_, i64>(0), 3);
    store.prune(&id, incarnation, keep, Derived::Erase).await.unwrap();
    assert_eq!(client.query_one(held, &[]).await.unwrap().get::<_, i64>(0), 1);
    let loaded = window(&store, &id).await;
    assert_eq!(loaded.exchanges.len(), 2);
    assert!(loaded.exchanges.iter().all(|recorded| recorded.exchange.provenance.is_none()));
    assert_eq!(window(&store, &other).await, before);
}

async fn an_append_with_a_provenance_is_one_round_trip() {
    let (url, proxy) = (database().await, Proxy::new());
    let (store, id) = (single(&proxy.url(&url)).await, conversation("a"));
    say(&store, &id, "one").await;
    store.load(&id, Load::new()).await.unwrap();
    proxy.trips();
    add(&store, &id, "p").await;
    assert_eq!(proxy.trips(), 1, "an append");
    assert!(window(&store, &id).await.exchanges[1].exchange.provenance.is_some());
    assert_eq!(proxy.trips(), 1, "a load");
}
