//! Servers whose memory is full.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Compact, CompactionVersion, Cut, Derived, HistoryStore, HistoryStoreExt, Profile, PruneTo, Seq, StoreError, Summary,
};
use tower_chat_history_redis::{OpenError, RedisOptions, RedisStore};

use crate::support::{Place, append, conversation, say, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_full_server_stores_nothing_and_loses_nothing,
        room_can_be_made_on_a_full_server,
        a_server_that_evicts_is_refused_if_asked_for,
    ]
}

async fn a_full_server_stores_nothing_and_loses_nothing() {
    let mut place = Place::new().await;
    let id = conversation("a");
    let first = say(&place.store, &id, "one").await;
    place.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut cut = Cut::default();
    cut.summary = Some(Summary::new("s", Seq::FIRST));
    let compact = Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut };
    for error in [
        place.store.append(&id, append("two")).await.unwrap_err(),
        place.store.append(&conversation("new"), append("one")).await.unwrap_err(),
        place.store.append(&id, append("three").compact(compact.clone())).await.unwrap_err(),
        place.store.compact(&id, first.revision.incarnation(), compact).await.unwrap_err(),
    ] {
        let told = matches!(error, StoreError::Full { used, requested, limit: 1 } if used > 1 && requested > 0);
        assert!(told, "{error:?}");
    }
    assert_eq!(texts(&place.store, &id).await, ["one"]);
    assert_eq!(place.run::<u64>(&["DBSIZE"]), 4);
    place.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(say(&place.store, &id, "two").await.seq, Seq::new(1));
}

async fn room_can_be_made_on_a_full_server() {
    let mut place = Place::new().await;
    let id = conversation("a");
    for n in 0..10 {
        say(&place.store, &id, &n.to_string()).await;
    }
    place.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let store = place.store.clone();
    assert_eq!(store.conversation(&id).keep_last_turns(8).await.unwrap(), 2);
    assert_eq!(store.conversation(&id).prune(PruneTo::LastTurns(6), Derived::Erase).await.unwrap().unwrap().removed, 2);
    assert_eq!(store.conversation(&id).truncate(Seq::new(6)).await.unwrap().removed, 4);
    assert_eq!(texts(&store, &id).await, ["4", "5"]);
    store.delete(&id).await.unwrap();
    assert_eq!(place.run::<u64>(&["DBSIZE"]), 0);
}

async fn a_server_that_evicts_is_refused_if_asked_for() {
    let mut place = Place::new().await;
    let require = || RedisOptions::new().require_noeviction(true);
    require().connect(place.server.url()).await.unwrap();
    place.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let refused = require().connect(place.server.url()).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Evicts { policy } if policy == "allkeys-lru"), "{refused}");
    RedisStore::connect(place.server.url()).await.unwrap();
}
