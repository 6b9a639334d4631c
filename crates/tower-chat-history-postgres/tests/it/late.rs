//! Requests that reach the server late, after their caller has left and the conversation has another
//! incarnation.

use futures_util::future::{BoxFuture, join_all};
use libtest_mimic::Trial;
use test_servers::trials;
use tokio::runtime;
use tower_chat_history_core::{
    Append, CompactionVersion, ConversationId, Derived, Epoch, Erase, Expect, Fork, ForkTo, HistoryStore, Labels,
    LabelsVersion, List, Load, Prune, PruneTo, Revision, Seq, Truncate,
};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    proxy::Proxy,
    support::{compact, connect, conversation, database, exchange, patient, say, single, texts, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        no_late_call_changes_the_next_incarnation,
        a_deletion_names_the_incarnation_that_it_deletes,
        a_deletion_also_deletes_an_incarnation_that_began_during_it,
        a_deletion_ends_even_if_the_conversation_is_created_again_each_time,
        deletions_among_first_turns_and_other_deletions_all_succeed,
    ]
}

type Made = for<'a> fn(&'a PostgresStore, &'a ConversationId, Revision) -> BoxFuture<'a, bool>;

async fn no_late_call_changes_the_next_incarnation() {
    let calls: [(&str, Made); 12] = [
        ("bar_1", |store, id, _| Box::pin(async move { store.delete(id).await.is_ok() })),
        ("set_labels_1", |store, id, last| {
            let labels = store.set_labels(id, last.incarnation(), LabelsVersion::NONE, Labels::default());
            Box::pin(async move { labels.await.is_ok() })
        }),
        ("for update", |store, id, last| Box::pin(async move { store.erase_if(id, last).await.is_ok() })),
        ("append_1", |store, id, _| {
            let first = Append::new(Expect::AnyOrCreate, exchange("late")).since(Some(Epoch::FIRST));
            Box::pin(async move { store.append(id, first).await.is_ok() })
        }),
        ("delete_1", |store, id, _| Box::pin(async move { store.delete(id).await.is_ok() })),
        ("for update", |store, id, last| {
            Box::pin(async move { store.truncate(id, last, Seq::new(1), None).await.is_ok() })
        }),
        ("for update", |store, id, last| {
            Box::pin(async move { store.truncate(id, last, Seq::FIRST, None).await.is_ok() })
        }),
        ("for update", |store, id, last| {
            let pruned =
                async move { store.prune(id, last.incarnation(), PruneTo::LastTurns(1), Derived::Erase).await.is_ok() };
            Box::pin(pruned)
        }),
        ("compact_1", |store, id, last| {
            let compact = compact(CompactionVersion::NONE, 1);
            Box::pin(async move { store.compact(id, last.incarnation(), compact).await.is_ok() })
        }),
        ("fork_1", |store, id, last| {
            let to = ForkTo::new(conversation("copy"), Seq::new(1));
            Box::pin(async move { store.fork(id, last.incarnation(), to).await.is_ok() })
        }),
        ("append_1", |store, id, last| {
            let append = Append::new(Expect::AnyIn(last.incarnation()), exchange("late"));
            Box::pin(async move { store.append(id, append).await.is_ok() })
        }),
        ("append_1", |store, id, last| {
            let append = Append::new(Expect::Exactly(last), exchange("late"));
            Box::pin(async move { store.append(id, append).await.is_ok() })
        }),
    ];
    let url = database().await;
    let other = single(&url).await;
    for (number, (text, call)) in calls.into_iter().enumerate() {
        let (id, proxy) = (conversation(&number.to_string()), Proxy::new());
        say(&other, &id, "old").await;
        let last = say(&other, &id, "old").await.revision;
        // Its connection ends with its runtime, but the sent request is still delivered.
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (behind, of_call) = (proxy.url(&url), id.clone());
        proxy.hold(text);
        runtime.spawn(async move {
            // Without preparation, requests have the texts of their statements.
            let options = patient().connections(1).prepare(false);
            let store = options.connect(&behind).await.unwrap();
            call(&store, &of_call, last).await
        });
        proxy.has_held().await;
        other.delete(&id).await.unwrap();
        for text in ["new", "newer"] {
            say(&other, &id, text).await;
        }
        let before = window(&other, &id).await;
        runtime.shutdown_background();
        proxy.release().await;
        assert_eq!(window(&other, &id).await, before, "call {number}: {text}");
        assert_eq!(texts(&other, &id).await, ["new", "newer"], "call {number}: {text}");
    }
    assert!(other.load(&conversation("copy"), Load::new()).await.unwrap().is_absent(), "a late fork");
}

async fn a_deletion_names_the_incarnation_that_it_deletes() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    let incarnation = async || {
        let row = client.query_one("select incarnation::text from chat_history.conversation", &[]).await.unwrap();
        row.get::<_, String>(0)
    };
    say(&store, &id, "one").await;
    let first = incarnation().await;
    let deletion = format!("select chat_history.delete_1('test/a', '{first}')::text");
    let delete = async || client.query_one(&deletion, &[]).await.unwrap().get::<_, Option<String>>(0);
    assert_eq!(delete().await, None);
    assert_eq!(delete().await, None, "it is deleted already");
    say(&store, &id, "two").await;
    assert_eq!(delete().await, Some(incarnation().await), "another incarnation is returned and not deleted");
    assert_eq!(texts(&store, &id).await, ["two"]);
}

/// Another incarnation begins between the two steps of the deletion. The deletion removes everything that
/// existed when it was called, and this incarnation too.
async fn a_deletion_also_deletes_an_incarnation_that_began_during_it() {
    let url = database().await;
    let (proxy, other) = (Proxy::new(), single(&url).await);
    let id = conversation("a");
    say(&other, &id, "old").await;
    let options = patient().connections(1).prepare(false);
    let store = options.connect(&proxy.url(&url)).await.unwrap();
    proxy.hold("delete_1");
    let of_call = id.clone();
    let deletion = tokio::spawn(async move { store.delete(&of_call).await });
    proxy.has_held().await;
    other.delete(&id).await.unwrap();
    say(&other, &id, "new").await;
    // The answer is lost together with the connection, so the call is repeated.
    proxy.release().await;
    deletion.await.unwrap().unwrap();
    assert!(texts(&other, &id).await.is_empty());
}

/// Whichever incarnation the deletion names, it has ended when the deletion arrives.
async fn a_deletion_ends_even_if_the_conversation_is_created_again_each_time() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let ids = [conversation("a"), conversation("b")];
    for id in &ids {
        say(&store, id, "one").await;
    }
    let begins = "alter function chat_history.delete_1(text, uuid) rename to delete_0; \
                  create function chat_history.delete_1(a_key text, a_incarnation uuid) \
                  returns uuid language plpgsql as $$ begin \
                    update chat_history.conversation set incarnation = gen_random_uuid() where key = a_key; \
                    return chat_history.delete_0(a_key, a_incarnation); \
                  end $$";
    client.batch_execute(begins).await.unwrap();
    store.delete(&ids[0]).await.unwrap();
    assert!(store.load(&ids[0], Load::new()).await.unwrap().is_absent());
    assert_eq!(texts(&store, &ids[1]).await, ["one"], "another conversation");
    let left = "select count(*) from chat_history.exchange";
    assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 1);
}

async fn deletions_among_first_turns_and_other_deletions_all_succeed() {
    const TASKS: usize = 8;
    const ROUNDS: usize = 25;
    let url = database().await;
    let store = patient().connections(TASKS).connect(&url).await.unwrap();
    let id = conversation("a");
    let churning = (0..TASKS).map(|_| {
        let (store, id) = (store.clone(), id.clone());
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                say(&store, &id, "again").await;
                store.delete(&id).await.unwrap();
            }
        })
    });
    for churned in join_all(churning).await {
        churned.unwrap();
    }
    assert!(texts(&store, &id).await.is_empty(), "each task ends with a deletion");
}
