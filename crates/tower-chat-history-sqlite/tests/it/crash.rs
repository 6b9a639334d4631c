//! Processes that are killed while they append.

use std::{
    env,
    io::{BufRead, BufReader},
};

use crate::support::{TestDatabase, child_test, conversation, say};
use tower_chat_history_core::{Append, Exchange, ExchangeId, Expect, HistoryStore, HistoryStoreExt, Message};
use tower_chat_history_sqlite::{SqliteOptions, Synchronous};

/// The environment variable with the path of the file, for the process that the test starts and kills.
const VICTIM: &str = "CHAT_HISTORY_VICTIM";
const ACKNOWLEDGED: &str = "acknowledged ";

#[tokio::test]
async fn acknowledged_appends_survive_a_killed_process() {
    let id = conversation("a");
    if let Ok(path) = env::var(VICTIM) {
        let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(path).await.unwrap();
        for turn in 0.. {
            let messages = [Message::user(format!("{turn}")), Message::assistant("x".repeat(turn % 9_000))];
            let exchange = Exchange::new(ExchangeId::generate(), messages);
            let name = exchange.id.to_string();
            store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
            println!("{ACKNOWLEDGED}{name}");
        }
    }
    let database = TestDatabase::new();
    let mut acknowledged: Vec<String> = Vec::new();
    for enough in [1, 20, 150, 400] {
        // The count of acknowledged appends shows that the child has run this test.
        let test = "crash::acknowledged_appends_survive_a_killed_process";
        let mut victim = child_test(env::current_exe().unwrap(), test).env(VICTIM, &database.path).spawn().unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut seen = 0;
        for line in lines {
            if let Some((_, name)) = line.split_once(ACKNOWLEDGED) {
                acknowledged.push(name.into());
                seen += 1;
            }
            if seen == enough {
                // The lines that it writes before it dies are also read.
                victim.kill().unwrap();
            }
        }
        victim.wait().unwrap();
        assert!(seen >= enough);

        let store = database.open().await;
        let log = store.conversation(&id).exchanges().await.unwrap();
        let stored: Vec<_> = log.iter().map(|recorded| recorded.exchange.id.as_str()).collect();
        assert!(acknowledged.iter().all(|name| stored.contains(&name.as_str())));
        assert!(log.iter().enumerate().all(|(index, recorded)| recorded.seq.get() == index as u64));
        assert!(log.iter().all(|recorded| recorded.exchange.messages.len() == 2), "whole or not at all");
        assert_eq!(say(&store, &id, "next").await.seq.get(), log.len() as u64, "and the log goes on");
        store.close().await.unwrap();
    }
}
