//! Conversation ids that are chosen to collide.

use std::collections::HashSet;

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{ConversationId, HistoryStore};
use tower_chat_history_redis::{OpenError, RedisStore};

use crate::support::{TestServer, cluster, conversation, patient, say, shared, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        colliding_ids_are_kept_apart,
        colliding_ids_are_kept_apart_in_a_cluster,
        prefixes_are_kept_apart,
        a_password_is_not_shown,
    ]
}

async fn colliding_ids_are_kept_apart() {
    apart(patient().connect(shared().url()).await.unwrap()).await;
}

async fn colliding_ids_are_kept_apart_in_a_cluster() {
    apart(patient().connect_cluster(cluster().urls()).await.unwrap()).await;
}

async fn apart(store: RedisStore) {
    let long = "x".repeat(1_024);
    let parts: &[&[&str]] = &[
        &["a"],
        &["a", "b"],
        &["a/b"],
        &["a", "b", "c"],
        &["ab"],
        &["a", ":log"],
        &["a:log"],
        &["a}:log"],
        &["a}", ":log"],
        &["{a}"],
        &["{", "a"],
        &["{}"],
        &["}{"],
        &["}"],
        &["{"],
        &["a%2Fb"],
        &["a\0"],
        &["a\r\nDEL a"],
        &["A"],
        &["chat:{a}"],
        &[&long],
        &[&long[1..]],
        &[&long[..1_022], "y"],
        &[&long[..1_022], "z"],
        &["é"],
        &["e\u{301}"],
    ];
    let ids: HashSet<ConversationId> = parts.iter().map(|parts| ConversationId::new(*parts).unwrap()).collect();
    assert_eq!(ids.len(), parts.len());
    for round in ["one", "two"] {
        for id in &ids {
            say(&store, id, &format!("{round} {id}")).await;
        }
    }
    for id in &ids {
        assert_eq!(texts(&store, id).await, [format!("one {id}"), format!("two {id}")]);
    }
    let mut left: Vec<_> = ids.iter().collect();
    while let Some(id) = left.pop() {
        store.delete(id).await.unwrap();
        for other in &left {
            assert_eq!(texts(&store, other).await.len(), 2, "{id} took {other} along");
        }
    }
}

async fn prefixes_are_kept_apart() {
    let server = shared();
    let mut stores = Vec::new();
    for prefix in ["one:", "one", "", ":"] {
        stores.push((prefix, patient().prefix(prefix).connect(server.url()).await.unwrap()));
    }
    let id = conversation("prefixes");
    for (prefix, store) in &stores {
        say(store, &id, prefix).await;
    }
    for (prefix, store) in &stores {
        assert_eq!(texts(store, &id).await, [*prefix]);
    }
    let refused = patient().prefix("{x}").connect(server.url()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Prefix), "{refused}");
}

async fn a_password_is_not_shown() {
    let mut test = TestServer::new().await;
    test.run::<()>(&["CONFIG", "SET", "requirepass", "secret"]);
    let address = test.server.url().replace("unix:", "redis+unix:");
    let store = patient().connect(format!("{address}?pass=secret")).await.unwrap();
    assert!(!format!("{store:?}").contains("secret"), "{store:?}");
    let refused = patient().connect(format!("{address}?pass=another-secret")).await.unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains("secret"), "{refused:?}");
}
