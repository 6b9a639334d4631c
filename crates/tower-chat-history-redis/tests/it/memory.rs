//! Servers whose memory is full.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    CompactionVersion, Derived, Fork, ForkTo, HistoryStore, HistoryStoreExt, PruneTo, Seq, StoreError,
};
use tower_chat_history_redis::OpenError;

use crate::support::{TestServer, append, compact, conversation, patient, say, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_full_server_stores_nothing_and_loses_nothing,
        room_can_be_made_on_a_full_server,
        a_server_that_evicts_is_refused_by_option,
    ]
}

async fn a_full_server_stores_nothing_and_loses_nothing() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    let first = say(&test.store, &id, "one").await;
    test.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let compact = compact(CompactionVersion::NONE, 0, Some("s"));
    for error in [
        test.store.append(&id, append("two")).await.unwrap_err(),
        test.store.append(&conversation("new"), append("one")).await.unwrap_err(),
        test.store.append(&id, append("three").compact(compact.clone())).await.unwrap_err(),
        test.store.compact(&id, first.revision.incarnation(), compact).await.unwrap_err(),
        test.store
            .fork(&id, first.revision.incarnation(), ForkTo::new(conversation("copy"), Seq::new(9)))
            .await
            .unwrap_err(),
    ] {
        let reported = matches!(error, StoreError::Full { used, requested, limit: 1 } if used > 1 && requested > 0);
        assert!(reported, "{error:?}");
    }
    assert_eq!(texts(&test.store, &id).await, ["one"]);
    assert_eq!(test.conversation_keys(), 4);
    test.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(say(&test.store, &id, "two").await.seq, Seq::new(1));
}

async fn room_can_be_made_on_a_full_server() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    for n in 0..10 {
        say(&test.store, &id, &n.to_string()).await;
    }
    let other = conversation("b");
    say(&test.store, &other, "one").await;
    test.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let store = test.store.clone();
    assert_eq!(store.conversation(&other).truncate(Seq::FIRST).await.unwrap().removed, 1);
    assert_eq!(store.conversation(&id).keep_last_turns(8).await.unwrap(), 2);
    assert_eq!(store.conversation(&id).prune(PruneTo::LastTurns(6), Derived::Erase).await.unwrap().unwrap().removed, 2);
    assert_eq!(store.conversation(&id).truncate(Seq::new(6)).await.unwrap().removed, 4);
    assert_eq!(texts(&store, &id).await, ["4", "5"]);
    store.delete(&id).await.unwrap();
    assert_eq!(test.conversation_keys(), 0);
}

async fn a_server_that_evicts_is_refused_by_option() {
    let mut test = TestServer::new().await;
    let require = || patient().require_noeviction(true);
    require().connect(test.server.url()).await.unwrap();
    test.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let refused = require().connect(test.server.url()).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Evicts { policy } if policy == "allkeys-lru"), "{refused}");
    patient().connect(test.server.url()).await.unwrap();
}
