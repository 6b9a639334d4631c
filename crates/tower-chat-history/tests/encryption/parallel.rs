//! Appends at the same time.

use std::{collections::HashSet, sync::Arc};

use tower_chat_history_core::{Append, Expect, HistoryStore, HistoryStoreExt, Seq};

use crate::support::{TestDatabase, append, id, in_memory, turn};

const TASKS: usize = 64;

/// Lets 64 tasks append to one conversation through these handles. Checks that all exchanges open, in order.
async fn all_land(handles: Vec<Arc<dyn HistoryStore>>) {
    let id = id("acme/anna/1");
    let before = handles[0].append(&id, Append::new(Expect::AnyOrCreate, turn("first"))).await.unwrap();
    let incarnation = before.revision.incarnation();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, id) = (Arc::clone(&handles[task % handles.len()]), id.clone());
            let expect = if task % 2 == 0 { Expect::AnyOrCreate } else { Expect::AnyIn(incarnation) };
            tokio::spawn(async move {
                store.append(&id, Append::new(expect, turn(&format!("task {task}")))).await.unwrap().seq
            })
        })
        .collect();
    let mut seqs = HashSet::from([Seq::FIRST]);
    for task in tasks {
        assert!(seqs.insert(task.await.unwrap()), "two exchanges have one position");
    }
    let log = handles[0].conversation(&id).exchanges().await.unwrap();
    assert_eq!(log.len(), TASKS + 1);
    assert!(log.iter().zip(0..).all(|(recorded, seq)| recorded.seq == Seq::new(seq)));
    let texts: HashSet<_> = log.iter().map(|recorded| recorded.exchange.messages[0].text().into_owned()).collect();
    assert_eq!(texts.len(), TASKS + 1, "no exchange is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_on_one_conversation_all_land_in_order() {
    all_land(vec![Arc::new(in_memory())]).await;
    all_land(vec![Arc::new(TestDatabase::new().open().await)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_several_processes_all_land_in_order() {
    let database = TestDatabase::new();
    let mut handles: Vec<Arc<dyn HistoryStore>> = Vec::new();
    for _ in 0..4 {
        handles.push(Arc::new(database.open().await));
    }
    all_land(handles).await;
}

#[tokio::test]
async fn an_append_without_condition_follows_a_conversation_that_was_created_again() {
    let database = TestDatabase::new();
    let (store, other, id) = (database.open().await, database.open().await, id("acme/anna/1"));
    append(&store, &id, turn("before")).await;
    append(&store, &id, turn("before, too")).await;
    other.delete(&id).await.unwrap();
    assert_eq!(append(&store, &id, turn("after")).await.seq, Seq::FIRST);
    other.delete(&id).await.unwrap();
    append(&other, &id, turn("of the other")).await;
    assert_eq!(append(&store, &id, turn("after that")).await.seq, Seq::new(1));
    assert_eq!(other.conversation(&id).messages().await.unwrap().len(), 4);
}
