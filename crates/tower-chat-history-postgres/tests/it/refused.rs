//! Compactions that the database refuses. Their exchanges are stored without them.

use std::time::Duration;

use futures_util::future::join;
use libtest_mimic::Trial;
use test_servers::trials;
use tokio::time::timeout;
use tokio_postgres::Client;
use tower_chat_history_core::{
    Append, Appended, CompactOutcome, CompactionVersion, ConversationId, HistoryStore, Seq, StoreError,
};
use tower_chat_history_postgres::{PostgresError, PostgresStore};

use crate::support::{
    append, compact, connect, conversation, database, patient, say, single, texts, waits_for_a_lock, window,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_transient_refusal_prevents_no_exchange,
        a_single_refusal_prevents_no_compaction,
        a_lock_on_the_compactions_prevents_no_exchange,
        a_canceled_compaction_prevents_no_exchange,
        an_append_fails_if_its_exchange_is_refused,
        an_append_to_a_read_only_server_fails,
    ]
}

const NONE: CompactionVersion = CompactionVersion::NONE;

/// Makes the first `times` changes of a table fail with an SQLSTATE.
async fn refuse(client: &Client, table: &str, state: &str, times: i64) {
    let fails = format!(
        "create sequence if not exists public.tries; \
         create or replace function public.fails() returns trigger language plpgsql as $$ begin \
            if nextval('public.tries') <= {times} then raise exception using errcode = '{state}'; end if; return new; \
         end $$; \
         create or replace trigger fails before insert or update on chat_history.{table} \
            for each row execute function public.fails()"
    );
    client.batch_execute(&fails).await.unwrap();
}

/// Returns an append with a compaction.
fn compacting(text: &str) -> Append {
    append(text).compact(compact(NONE, 0))
}

/// Creates a store that retries for a short time only, another connection, and a conversation of one
/// exchange.
async fn setup() -> (PostgresStore, Client, ConversationId) {
    let url = database().await;
    let options = patient().connections(1).retry_for(Duration::ZERO);
    let (store, client) = (options.connect(&url).await.unwrap(), connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    (store, client, id)
}

/// Asserts that the exchange was stored as the second one without its compaction, and that the answer says
/// so.
async fn assert_stored_alone(store: &PostgresStore, id: &ConversationId, appended: &Appended, what: &str) {
    let said = (appended.seq, appended.duplicate, &appended.compaction);
    assert_eq!(said, (Seq::new(1), false, &Some(CompactOutcome::Kept(None))), "{what}");
    let window = window(store, id).await;
    assert_eq!((window.compaction, window.exchanges.len()), (None, 2), "{what}");
    assert_eq!(window.revision, appended.revision, "{what}");
}

/// Returns the SQLSTATE of a transient error.
fn state(error: &StoreError) -> &str {
    let StoreError::Unavailable { source } = error else { panic!("{error:?}") };
    let Some(PostgresError::Sql { code, .. }) = source.downcast_ref() else { panic!("{error:?}") };
    code.code()
}

async fn a_transient_refusal_prevents_no_exchange() {
    for refusal in ["40001", "40P01", "40003", "57014", "25006", "55P03", "55006", "53200", "53000", "58030", "25P04"] {
        let (store, client, id) = setup().await;
        refuse(&client, "compaction", refusal, i64::MAX).await;
        let append = compacting("two");
        let appended = store.append(&id, append.clone()).await.unwrap();
        assert_stored_alone(&store, &id, &appended, refusal).await;
        assert!(store.append(&id, append).await.unwrap().duplicate, "{refusal}");
        // The same for an append that creates a conversation.
        let appended = store.append(&conversation("b"), compacting("one")).await.unwrap();
        assert_eq!((appended.seq, appended.compaction), (Seq::FIRST, Some(CompactOutcome::Kept(None))), "{refusal}");
        // A compaction without an exchange fails.
        let incarnation = window(&store, &id).await.revision.incarnation();
        let error = store.compact(&id, incarnation, compact(NONE, 0)).await.unwrap_err();
        assert_eq!(state(&error), refusal);
    }
}

/// The append is retried first, like every call.
async fn a_single_refusal_prevents_no_compaction() {
    let (store, client, id) = setup().await;
    refuse(&client, "compaction", "40001", 1).await;
    let appended = store.append(&id, compacting("two")).await.unwrap();
    assert_eq!(appended.compaction, Some(CompactOutcome::Stored(NONE.next())));
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

/// The wait for the lock is shorter than the timeout of a caller, and shorter than the wait for another lock.
async fn a_lock_on_the_compactions_prevents_no_exchange() {
    let (store, client, id) = setup().await;
    client.batch_execute("alter function chat_history.append_1 set lock_timeout = '50s'").await.unwrap();
    client.batch_execute("begin; lock table chat_history.compaction in access exclusive mode").await.unwrap();
    let appended = timeout(Duration::from_secs(30), store.append(&id, compacting("two"))).await.unwrap().unwrap();
    client.batch_execute("commit").await.unwrap();
    assert_stored_alone(&store, &id, &appended, "locked").await;
}

async fn a_canceled_compaction_prevents_no_exchange() {
    let url = database().await;
    let (store, other, watcher) = (single(&url).await, connect(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    other.batch_execute("begin; lock table chat_history.compaction in access exclusive mode").await.unwrap();
    let canceling = async {
        let session = waits_for_a_lock(&watcher, &[]).await;
        watcher.query("select pg_cancel_backend($1)", &[&session]).await.unwrap();
    };
    let (appended, ()) = join(store.append(&id, compacting("two")), canceling).await;
    other.batch_execute("commit").await.unwrap();
    assert_stored_alone(&store, &id, &appended.unwrap(), "cancelled").await;
}

async fn an_append_fails_if_its_exchange_is_refused() {
    for (of_compaction, of_exchange) in [("40001", "40001"), ("23514", "53200")] {
        let (store, client, id) = setup().await;
        refuse(&client, "compaction", of_compaction, i64::MAX).await;
        let of_exchanges = format!(
            "create function public.refuses() returns trigger language plpgsql as \
             $$ begin raise exception using errcode = '{of_exchange}'; end $$; \
             create trigger refuses before insert on chat_history.exchange \
                for each row execute function public.refuses()"
        );
        client.batch_execute(&of_exchanges).await.unwrap();
        let error = store.append(&id, compacting("two")).await.unwrap_err();
        assert_eq!(state(&error), of_exchange, "the exchange may be stored later, so the error is retryable");
        client.batch_execute("drop function public.refuses() cascade").await.unwrap();
        assert_eq!(texts(&store, &id).await, ["one"]);
    }
}

/// It refuses the exchange and the compaction, like a primary that became a standby.
async fn an_append_to_a_read_only_server_fails() {
    let (store, client, id) = setup().await;
    let name: String = client.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    let only_reads = format!("alter database {name} set default_transaction_read_only = on");
    client.batch_execute(&only_reads).await.unwrap();
    // Close the connection that the store opened before.
    drop(store.pool().retain(|_, _| false));
    let error = store.append(&id, compacting("two")).await.unwrap_err();
    assert_eq!(state(&error), "25006");
    assert_eq!(texts(&store, &id).await, ["one"]);
}
