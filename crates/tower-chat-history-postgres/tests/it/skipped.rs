//! Triggers that skip rows of a removal without an error: the call fails and changes nothing.

use futures_util::future::BoxFuture;
use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, Citation, Compact, CompactionVersion, ConversationId, Cut, Derived, Erase, Expect, HistoryStore, Labels,
    LabelsVersion, List, Load, Prefix, Profile, Prune, PruneTo, Recalled, Revision, Seq, StoreError, Summary, Truncate,
};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    refused::{assert_swallowed, swallow},
    support::{append, compact, connect, conversation, database, exchange, say, single, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![a_removal_that_skips_a_row_changes_nothing, an_append_that_leaves_a_row_behind_changes_nothing]
}

type Call = for<'a> fn(&'a PostgresStore, &'a ConversationId, Revision) -> BoxFuture<'a, Result<(), StoreError>>;

fn delete<'a>(store: &'a PostgresStore, id: &'a ConversationId, _: Revision) -> BoxFuture<'a, Result<(), StoreError>> {
    store.delete(id)
}

fn truncate<'a>(
    store: &'a PostgresStore,
    id: &'a ConversationId,
    last: Revision,
) -> BoxFuture<'a, Result<(), StoreError>> {
    Box::pin(async move { store.truncate(id, last, Seq::new(2)).await.map(drop) })
}

fn truncate_all<'a>(
    store: &'a PostgresStore,
    id: &'a ConversationId,
    last: Revision,
) -> BoxFuture<'a, Result<(), StoreError>> {
    Box::pin(async move { store.truncate(id, last, Seq::FIRST).await.map(drop) })
}

fn prune<'a>(
    store: &'a PostgresStore,
    id: &'a ConversationId,
    last: Revision,
) -> BoxFuture<'a, Result<(), StoreError>> {
    let keep = PruneTo::From(Seq::new(1));
    Box::pin(async move { store.prune(id, last.incarnation(), keep, Derived::Keep).await.map(drop) })
}

fn erase<'a>(
    store: &'a PostgresStore,
    id: &'a ConversationId,
    last: Revision,
) -> BoxFuture<'a, Result<(), StoreError>> {
    let keep = PruneTo::From(Seq::new(1));
    Box::pin(async move { store.prune(id, last.incarnation(), keep, Derived::Erase).await.map(drop) })
}

fn erase_page<'a>(
    store: &'a PostgresStore,
    _: &'a ConversationId,
    _: Revision,
) -> BoxFuture<'a, Result<(), StoreError>> {
    Box::pin(async move { store.erase(&Prefix::all(), None, 9).await.map(drop) })
}

fn erase_if<'a>(
    store: &'a PostgresStore,
    id: &'a ConversationId,
    last: Revision,
) -> BoxFuture<'a, Result<(), StoreError>> {
    Box::pin(async move { store.erase_if(id, last).await.map(drop) })
}

fn label<'a>(
    store: &'a PostgresStore,
    id: &'a ConversationId,
    last: Revision,
) -> BoxFuture<'a, Result<(), StoreError>> {
    Box::pin(
        async move { store.set_labels(id, last.incarnation(), LabelsVersion::NONE, Labels::default()).await.map(drop) },
    )
}

fn bar<'a>(store: &'a PostgresStore, id: &'a ConversationId, _: Revision) -> BoxFuture<'a, Result<(), StoreError>> {
    Box::pin(async move { store.bar(&Prefix::from(id)).await })
}

async fn a_removal_that_skips_a_row_changes_nothing() {
    let removals = [("exchange", "delete"), ("compaction", "delete"), ("conversation", "delete")];
    let calls: [(&str, Call, &[(&str, &str)]); 9] = [
        ("erase a page", erase_page, &removals),
        ("erase if", erase_if, &removals),
        ("label", label, &[("conversation", "update")]),
        ("bar", bar, &[("epoch", "update")]),
        ("delete", delete, &[("exchange", "delete"), ("compaction", "delete"), ("conversation", "delete")]),
        (
            "truncate",
            truncate,
            &[("exchange", "delete"), ("compaction", "delete"), ("compaction", "update"), ("conversation", "update")],
        ),
        ("truncate all", truncate_all, &[("exchange", "delete"), ("compaction", "delete"), ("conversation", "delete")]),
        ("prune", prune, &[("exchange", "delete"), ("conversation", "update")]),
        (
            "erase",
            erase,
            &[
                ("exchange", "delete"),
                ("exchange", "update"),
                ("compaction", "delete"),
                ("compaction", "update"),
                ("conversation", "update"),
            ],
        ),
    ];
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    for (name, call, triggers) in calls {
        for (table, change) in triggers {
            let what = format!("{name}, {change} on {table}");
            fill(&store, &id).await;
            let before = window(&store, &id).await;
            swallow(&client, table, change).await;
            assert_swallowed(&call(&store, &id, before.revision).await.unwrap_err(), &what);
            client.batch_execute(&format!("drop trigger swallows on chat_history.{table}")).await.unwrap();
            assert_eq!(window(&store, &id).await, before, "{what}");
            // Without the trigger, the same call succeeds.
            call(&store, &id, before.revision).await.unwrap();
            store.delete(&id).await.unwrap();
            let left = "select (select count(*) from chat_history.exchange) + (select count(*) from chat_history.compaction) \
                        + (select count(*) from chat_history.conversation)";
            assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0, "{what}");
        }
    }
}

/// Creates a conversation of which each of the calls changes rows of each kind.
async fn fill(store: &PostgresStore, id: &ConversationId) {
    say(store, id, "one").await;
    let mut second = exchange("two");
    second.recalled = Some(Recalled::new("one", vec![Citation::new(Seq::FIRST, 0..1)]));
    second.provenance = Some(Box::default());
    store.append(id, Append::new(Expect::AnyOrCreate, second)).await.unwrap();
    let incarnation = say(store, id, "three").await.revision.incarnation();
    let none = CompactionVersion::NONE;
    let mut summarized = Cut::window_from(Seq::new(2));
    summarized.summary = Some(Summary::new("one and two", Seq::new(2)));
    for (profile, cut) in [(Profile::default(), Cut::window_from(Seq::FIRST)), (Profile::new("s").unwrap(), summarized)]
    {
        store.compact(id, incarnation, Compact::new(profile, none, cut)).await.unwrap();
    }
}

/// The first append of a conversation creates its row. If its compaction breaks a rule, it removes the row.
async fn an_append_that_leaves_a_row_behind_changes_nothing() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    swallow(&client, "conversation", "delete").await;
    let beyond = append("one").compact(compact(CompactionVersion::NONE, 99));
    assert!(store.append(&id, beyond).await.is_ok(), "the exchange is stored alone");
    client.batch_execute("drop trigger swallows on chat_history.conversation").await.unwrap();
    let loaded = window(&store, &id).await;
    assert_eq!((loaded.exchanges.len(), loaded.compaction), (1, None));
    store.delete(&id).await.unwrap();
    assert!(store.load(&id, Load::new()).await.unwrap().is_absent());
}
