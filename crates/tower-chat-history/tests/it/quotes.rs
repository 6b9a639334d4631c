//! The erasure of quotes, beside conversations for which it fails.

use tower_chat_history::{
    ConversationId, Exchange, HistoryStore as _, HistoryStoreExt as _, MemoryStore, Message,
    store::{Append, Citation, ExchangeId, Expect, Prefix, Recalled, Seq, erase_quotes},
};
use tower_chat_history_test::{Fault, FaultStore, Op};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn id(name: &str) -> ConversationId {
    ConversationId::new(["ann", name]).unwrap()
}

/// Returns three conversations that quote another one.
async fn quoting() -> FaultStore<MemoryStore> {
    let store = FaultStore::new(MemoryStore::new());
    for name in NAMES {
        let mut exchange = Exchange::new(ExchangeId::new(name).unwrap(), [Message::user("u"), Message::assistant("a")]);
        let citation = Citation::new(Seq::FIRST, 0..1).of(id("erased"));
        exchange.recalled = Some(Recalled::new("You said: secret.", vec![citation]));
        store.append(&id(name), Append::new(Expect::Absent, exchange)).await.unwrap();
    }
    store
}

async fn has_quote(store: &FaultStore<MemoryStore>, name: &str) -> bool {
    let log = store.conversation(&id(name)).exchanges().await.unwrap();
    log.iter().any(|recorded| recorded.exchange.recalled.is_some())
}

#[tokio::test]
async fn a_conversation_that_cannot_be_pruned_keeps_no_quotes_of_others() {
    let store = quoting().await;
    store.fail(Op::Prune, 1, Fault::Backend);
    let run = erase_quotes(&store, &Prefix::all(), None, 0).await.unwrap();
    assert_eq!((run.examined, run.changed, run.failed), (1, 0, 1));
    assert_eq!(run.first_failure.unwrap().id, id("a"));
    let run = erase_quotes(&store, &Prefix::all(), run.next.as_ref(), 100).await.unwrap();
    assert_eq!((run.examined, run.changed, run.failed, run.next), (2, 2, 0, None));
    assert!(has_quote(&store, "a").await && !has_quote(&store, "b").await && !has_quote(&store, "c").await);
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_ends_the_run_where_it_continues() {
    let store = quoting().await;
    store.pass(Op::Prune, 1);
    store.fail(Op::Prune, 1, Fault::Unavailable);
    let error = erase_quotes(&store, &Prefix::all(), None, 100).await.unwrap_err();
    assert_eq!((error.done.examined, error.done.changed, error.done.failed), (1, 1, 0));
    let run = erase_quotes(&store, &Prefix::all(), error.done.next.as_ref(), 100).await.unwrap();
    assert_eq!((run.examined, run.changed), (2, 2));
    for name in NAMES {
        assert!(!has_quote(&store, name).await, "{name}");
    }
}

#[tokio::test]
async fn a_fork_has_no_quotes_of_other_conversations() {
    let store = quoting().await;
    let copy = ConversationId::new(["bob", "copy"]).unwrap();
    store.conversation(&id("a")).fork(Seq::new(1), &copy).await.unwrap();
    let log = store.conversation(&copy).exchanges().await.unwrap();
    assert_eq!((log.len(), log[0].exchange.recalled.clone()), (1, None));
}
