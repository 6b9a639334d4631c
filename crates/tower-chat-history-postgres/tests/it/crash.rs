//! A server that crashes.

use std::time::Duration;

use libtest_mimic::Trial;
use test_servers::{
    postgres::{Durability, Server},
    trials,
};
use tower_chat_history_core::{ExchangeId, HistoryStore, Load, Loaded, Seq, StoreError};

use crate::support::{append, conversation, patient, say};

pub(crate) fn tests() -> Vec<Trial> {
    trials![acknowledged_appends_survive_a_crash]
}

async fn acknowledged_appends_survive_a_crash() {
    let mut server = Server::start(Durability::Full);
    let url = server.database().await;
    let options = patient().connections(4).retry_for(Duration::from_millis(100));
    let store = options.connect(&url).await.unwrap();
    let id = conversation("a");
    say(&store, &id, "first").await;

    // The writers continue until the server is down, and note what was acknowledged.
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (store, id) = (store.clone(), id.clone());
            tokio::spawn(async move {
                let mut acknowledged: Vec<ExchangeId> = Vec::new();
                loop {
                    let next = append("x");
                    let exchange = next.exchange.id.clone();
                    match store.append(&id, next).await {
                        Ok(_) => acknowledged.push(exchange),
                        Err(error) => return (acknowledged, exchange, error),
                    }
                }
            })
        })
        .collect();
    let is_short = |loaded: Loaded| matches!(loaded, Loaded::Window(window) if window.exchanges.len() < 50);
    while store.load(&id, Load::new()).await.is_ok_and(is_short) {}
    tokio::task::block_in_place(|| server.crash());
    let mut acknowledged = Vec::new();
    let mut open = Vec::new();
    for writer in writers {
        let (mut ids, last, error) = writer.await.unwrap();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        acknowledged.append(&mut ids);
        open.push(last);
    }
    assert!(store.load(&id, Load::new()).await.unwrap_err().is_retryable());

    tokio::task::block_in_place(|| server.restart());
    // The store may still find connections that the crash has ended.
    let page = loop {
        match store.read(&id, Seq::FIRST, usize::MAX).await {
            Ok(page) => break page,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    };
    let stored: Vec<_> = page.exchanges.iter().map(|recorded| recorded.exchange.id.clone()).collect();
    assert!(acknowledged.len() > 10);
    for id in &acknowledged {
        assert!(stored.contains(id), "an acknowledged exchange is lost");
    }
    // An unacknowledged append is stored completely or not at all.
    let more = stored.iter().filter(|id| !acknowledged.contains(id)).count();
    assert!(more <= 1 + open.len(), "{more}");
    assert!(!say(&store, &id, "next").await.duplicate);
}
