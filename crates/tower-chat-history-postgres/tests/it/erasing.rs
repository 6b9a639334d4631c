//! Erasure of conversations: lost answers, interruptions, and the bounds of a page.

use std::time::Duration;

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{ConversationId, Cursor, Erase, List, Prefix, Removed, StoreError};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    cost::long_log,
    proxy::Proxy,
    support::{connect, conversation, database, patient, say, single, texts},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        an_erasure_whose_commit_is_unknown_is_not_repeated,
        a_page_is_bounded_by_the_number_of_exchanges,
        an_interrupted_erasure_continues_when_it_is_repeated,
        damaged_conversations_are_erased,
    ]
}

pub(crate) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// Records an erasure, and erases everything under a prefix. Returns what was removed.
pub(crate) async fn erase_all(store: &PostgresStore, under: &Prefix) -> Removed {
    store.bar(under).await.unwrap();
    erase_pages(store, under).await
}

/// Erases everything under a prefix, in small pages.
pub(crate) async fn erase_pages(store: &PostgresStore, under: &Prefix) -> Removed {
    let (mut removed, mut after) = (Removed::default(), None);
    loop {
        let page = store.erase(under, after.as_ref(), 7).await.unwrap();
        removed += page.removed.total();
        if page.next.is_none() {
            return removed;
        }
        after = page.next;
    }
}

async fn an_erasure_whose_commit_is_unknown_is_not_repeated() {
    let (url, proxy) = (database().await, Proxy::new());
    let (store, other) = (single(&proxy.url(&url)).await, single(&url).await);
    // The cursor leaves out the page of the prefix itself.
    let (under, after) = (prefix("test"), Cursor::after("test".parse().unwrap()));
    let (mut requests, id) = (0, conversation("a"));
    // The second time, the statements are prepared.
    for _ in 0..2 {
        say(&other, &id, "one").await;
        proxy.trips();
        store.erase(&under, Some(&after), 9).await.unwrap();
        requests = proxy.trips().cast_signed();
    }
    // The last answer is that of the commit.
    for nth in 1..=requests {
        say(&other, &id, "one").await;
        proxy.lose(nth);
        let erased = store.erase(&under, Some(&after), 9).await;
        assert!(proxy.has_lost());
        assert!(other.list(&under, None, 9).await.unwrap().conversations.is_empty());
        if nth < requests {
            assert_eq!(erased.unwrap().removed.total().exchanges, 1, "repeated after answer {nth}");
        } else {
            assert!(erased.unwrap_err().is_retryable());
        }
        // The next connection prepares the statements.
        say(&other, &id, "one").await;
        store.erase(&under, Some(&after), 9).await.unwrap();
    }
}

async fn a_page_is_bounded_by_the_number_of_exchanges() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let [small, long, last] = ["a", "b", "c"].map(conversation);
    say(&store, &long, "x").await;
    long_log(&client).await;
    for id in [&small, &last] {
        say(&store, id, "x").await;
    }
    let under = prefix("test");
    let after = Cursor::after("test".parse().unwrap());
    let (mut after, mut pages) = (Some(after), Vec::new());
    while let Some(cursor) = after {
        let page = store.erase(&under, Some(&cursor), 100).await.unwrap();
        let removed = page.removed.total();
        pages.push((removed.conversations, removed.exchanges));
        after = page.next;
    }
    assert_eq!(pages, [(1, 1), (1, 100_000), (1, 1)]);
}

/// Sessions are ended by the server, and calls are dropped, at any time during an erasure.
async fn an_interrupted_erasure_continues_when_it_is_repeated() {
    const CONVERSATIONS: usize = 60;
    let url = database().await;
    let store = patient().connections(2).retry_for(Duration::from_secs(60)).connect(&url).await.unwrap();
    // Its calls are repeated only once, so that the end of their sessions interrupts them.
    let interrupted = patient().connections(2).retry_for(Duration::ZERO).connect(&url).await.unwrap();
    let client = connect(&url).await;
    let (under, kept) = (prefix("test"), ConversationId::new(["test-2", "kept"]).unwrap());
    say(&store, &kept, "kept").await;
    for round in 0..20 {
        for number in 0..CONVERSATIONS {
            let id = conversation(&number.to_string());
            say(&store, &id, "one").await;
            say(&store, &id, "two").await;
        }
        let erasing = interrupted.clone();
        let of_call = under.clone();
        let erasure = tokio::spawn(async move {
            let mut after = None;
            loop {
                let page = erasing.erase(&of_call, after.as_ref(), 4).await?;
                after = page.next;
                if after.is_none() {
                    return Ok::<_, StoreError>(());
                }
            }
        });
        // The erasure is interrupted at another point in each round.
        let left = "select count(*) from chat_history.conversation";
        while client.query_one(left, &[]).await.unwrap().get::<_, i64>(0) > (CONVERSATIONS - 3 * round) as i64
            && !erasure.is_finished()
        {}
        if round % 2 == 0 {
            let end = "select pg_terminate_backend(pid) from pg_stat_activity \
                       where datname = current_database() and pid <> pg_backend_pid()";
            client.batch_execute(end).await.unwrap();
        } else {
            erasure.abort();
        }
        drop(erasure.await);
        // The server may still execute the last request of the interrupted call.
        let busy = "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() \
                    and state <> 'idle' and backend_type = 'client backend'";
        while !client.query(busy, &[]).await.unwrap().is_empty() {}
        let whole = "select count(*) from chat_history.conversation c where c.len <> \
                     (select count(*) from chat_history.exchange e where e.conversation = c.id)";
        assert_eq!(
            client.query_one(whole, &[]).await.unwrap().get::<_, i64>(0),
            0,
            "each is erased whole or not at all"
        );
        erase_all(&store, &under).await;
        assert!(store.count(&under).await.unwrap().total().is_nothing());
        let rows = "select count(*) from chat_history.exchange";
        assert_eq!(client.query_one(rows, &[]).await.unwrap().get::<_, i64>(0), 1);
        assert_eq!(texts(&store, &kept).await, ["kept"]);
    }
}

/// Records that cannot be read do not prevent an erasure.
async fn damaged_conversations_are_erased() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    let damage = "update chat_history.exchange set body = 'no record', bytes = 7; \
                  insert into chat_history.compaction \
                  select id, profile, -1, 0, gen_random_uuid(), '', derived from chat_history.conversation, \
                  (values ('default', 'derived text'::bytea), ('other', null)) compactions (profile, derived)";
    client.batch_execute(damage).await.unwrap();
    let counted = store.count(&prefix("test")).await.unwrap().total();
    assert_eq!((counted.exchanges, counted.bytes), (1, 7));
    assert_eq!((counted.compactions, counted.summaries), (2, 1));
    assert_eq!(erase_all(&store, &prefix("test")).await, counted);
    assert!(store.count(&Prefix::all()).await.unwrap().total().is_nothing());
}
