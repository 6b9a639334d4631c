//! Opening a store: what it accepts, and what it creates.

use futures_util::future::join_all;
use libtest_mimic::Trial;
use test_servers::{postgres, trials};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_postgres::{Config, NoTls, config::SslMode};
use tower_chat_history_core::{HistoryStore, Load};
use tower_chat_history_postgres::{OpenError, PostgresError};

use crate::settings::use_all;
use crate::support::{connect, conversation, database, patient, say, single, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        replicas_that_start_together_migrate_once,
        a_newer_schema_is_refused,
        a_newer_schema_that_is_still_readable_is_used,
        replicas_of_two_schema_versions_share_a_database,
        the_error_of_a_missing_database_names_it,
        another_applications_schema_is_refused,
        nothing_is_created_if_the_options_forbid_it,
        a_failed_commit_reports_its_cause,
        schemas_share_a_database,
        a_role_without_the_right_to_create_is_sufficient,
        an_encoding_that_loses_text_is_refused,
        a_pool_of_the_application_is_used,
        statements_work_without_preparation,
        a_missing_password_is_distinguished_from_a_wrong_one,
        a_server_without_tls_is_distinguished_from_a_missing_one,
        a_missing_server_is_a_retryable_error,
    ]
}

async fn replicas_that_start_together_migrate_once() {
    let url = database().await;
    let replicas = join_all((0..16).map(|_| single(&url))).await;
    let client = connect(&url).await;
    let versions = client.query("select version from chat_history.schema_version", &[]).await.unwrap();
    assert_eq!(versions.len(), 1);
    let id = conversation("a");
    for (number, replica) in replicas.iter().enumerate() {
        say(replica, &id, &number.to_string()).await;
    }
    assert_eq!(texts(&replicas[0], &id).await.len(), 16);
}

async fn a_newer_schema_is_refused() {
    let url = database().await;
    drop(single(&url).await);
    connect(&url).await.batch_execute("insert into chat_history.schema_version values (99, 99)").await.unwrap();
    let refused = patient().connect(&url).await.unwrap_err();
    assert!(matches!(refused, OpenError::NewerSchema { found: 99, .. }), "{refused:?}");
    assert!(!refused.is_retryable());
    // A later step does not make the schema readable again.
    connect(&url).await.batch_execute("insert into chat_history.schema_version values (100, 1)").await.unwrap();
    let refused = patient().connect(&url).await.unwrap_err();
    assert!(matches!(refused, OpenError::NewerSchema { found: 100, .. }), "{refused:?}");
}

async fn a_newer_schema_that_is_still_readable_is_used() {
    let url = database().await;
    let id = conversation("a");
    say(&single(&url).await, &id, "one").await;
    let newer = "insert into chat_history.schema_version values (98, 1), (99, 1)";
    connect(&url).await.batch_execute(newer).await.unwrap();
    let store = single(&url).await;
    say(&store, &id, "two").await;
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn another_applications_schema_is_refused() {
    for theirs in ["conversation", "exchange", "compaction", "erasure", "epoch", "schema_version"] {
        let url = database().await;
        let client = connect(&url).await;
        let table = format!("create schema chat_history create table {theirs} (version int)");
        client.batch_execute(&table).await.unwrap();
        let refused = patient().connect(&url).await.unwrap_err();
        assert!(matches!(refused, OpenError::Foreign), "{theirs}: {refused:?}");
        let tables = "select 1 from pg_catalog.pg_tables where schemaname = 'chat_history'";
        assert_eq!(client.query(tables, &[]).await.unwrap().len(), 1, "nothing was added");
    }
}

async fn nothing_is_created_if_the_options_forbid_it() {
    let url = database().await;
    let options = || patient().schema("chat").create_schema(false);
    let refused = options().connect(&url).await.unwrap_err();
    assert!(matches!(&refused, OpenError::NoSchema { schema } if schema == "chat"), "{refused:?}");
    let schemas = "select 1 from pg_catalog.pg_namespace where nspname = 'chat'";
    assert!(connect(&url).await.query(schemas, &[]).await.unwrap().is_empty());
    patient().schema("chat").connect(&url).await.unwrap();
    options().connect(&url).await.unwrap();
}

async fn a_failed_commit_reports_its_cause() {
    let url = database().await;
    let client = connect(&url).await;
    // For example, the disk may be full at the commit.
    let full = "create schema chat_history; \
                create table chat_history.schema_version (version int primary key, readable_from int not null); \
                create function public.fails() returns trigger language plpgsql as \
                    $$ begin raise exception using errcode = '53100'; end $$; \
                create constraint trigger fails after insert on chat_history.schema_version \
                    deferrable initially deferred for each row execute function public.fails()";
    client.batch_execute(full).await.unwrap();
    let refused = patient().connect(&url).await.unwrap_err();
    let OpenError::Postgres { source: PostgresError::Sql { code, .. }, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!((code.code(), refused.is_retryable()), ("53100", false));
    client.batch_execute("drop function public.fails() cascade").await.unwrap();
    say(&single(&url).await, &conversation("a"), "one").await;
}

async fn schemas_share_a_database() {
    let url = database().await;
    let client = connect(&url).await;
    client.batch_execute("create table conversation (x int); create table exchange (x int)").await.unwrap();
    let open = |schema: &str| patient().schema(schema).connect(&url);
    let (one, two) = (open("one").await.unwrap(), open("two").await.unwrap());
    let id = conversation("a");
    say(&one, &id, "in one").await;
    assert!(two.load(&id, Load::new()).await.unwrap().is_absent());
    say(&two, &id, "in two").await;
    assert_eq!(texts(&one, &id).await, ["in one"]);
    one.delete(&id).await.unwrap();
    assert_eq!(texts(&two, &id).await, ["in two"]);
    assert!(client.query("select 1 from exchange", &[]).await.unwrap().is_empty());
}

async fn a_role_without_the_right_to_create_is_sufficient() {
    let url = database().await;
    drop(single(&url).await);
    connect(&url)
        .await
        .batch_execute(
            "create role app login; revoke create on schema public from public; \
             grant usage on schema chat_history to app; \
             grant select, insert, update, delete on all tables in schema chat_history to app",
        )
        .await
        .unwrap();
    let store = single(&url.replace("user=test", "user=app")).await;
    let id = conversation("a");
    say(&store, &id, "one").await;
    assert_eq!(texts(&store, &id).await, ["one"]);
    store.delete(&id).await.unwrap();
}

async fn an_encoding_that_loses_text_is_refused() {
    let server = postgres::shared();
    let client = connect(&server.url("postgres")).await;
    client.batch_execute("create database latin template template0 encoding 'LATIN1' locale 'C'").await.unwrap();
    let refused = patient().connect(&server.url("latin")).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Encoding { encoding } if encoding == "LATIN1"), "{refused:?}");
}

async fn a_pool_of_the_application_is_used() {
    let url = database().await;
    let pool = single(&url).await.pool().clone();
    let store = patient().schema("other").with_pool(pool.clone()).await.unwrap();
    let id = conversation("a");
    say(&store, &id, "one").await;
    assert_eq!(texts(&store, &id).await, ["one"]);
    assert_eq!(pool.status().size, 1);
    pool.close();
    assert!(!store.load(&id, Load::new()).await.unwrap_err().is_retryable());
}

async fn statements_work_without_preparation() {
    let url = database().await;
    let store = patient().connections(1).prepare(false).connect(&url).await.unwrap();
    let id = conversation("a");
    say(&store, &id, "one").await;
    assert_eq!(texts(&store, &id).await, ["one"]);
    let client = store.pool().get().await.unwrap();
    assert!(client.query_typed("select 1 from pg_prepared_statements", &[]).await.unwrap().is_empty());
}

/// Starts a server that gives the same answer to every first message. Returns its URL.
async fn answering(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let length = client.read_u32().await.unwrap() as usize;
            client.read_exact(&mut vec![0; length - 4]).await.unwrap();
            client.write_all(answer).await.unwrap();
            drop(client.read_u8().await);
        }
    });
    format!("postgres://user@127.0.0.1:{port}/x")
}

async fn a_missing_password_is_distinguished_from_a_wrong_one() {
    let url = answering(b"R\0\0\0\x08\0\0\0\x03").await;
    let missing = patient().connect(&url).await.unwrap_err();
    assert!(matches!(missing, OpenError::NoPassword), "{missing:?}");
    assert!(!missing.is_retryable());
    let url = answering(b"E\0\0\0\x1aSFATAL\0C28P01\0Mwrong\0\0").await;
    let wrong = patient().connect(&url).await.unwrap_err();
    let OpenError::Postgres { source: PostgresError::Sql { code, .. }, .. } = &wrong else { panic!("{wrong:?}") };
    assert_eq!((code.code(), wrong.is_retryable()), ("28P01", false));
}

async fn a_server_without_tls_is_distinguished_from_a_missing_one() {
    let mut config: Config = answering(b"N").await.parse().unwrap();
    config.ssl_mode(SslMode::Require);
    let without = patient().connect_with(config, NoTls).await.unwrap_err();
    assert!(matches!(without, OpenError::ServerWithoutTls), "{without:?}");
    assert!(!without.is_retryable());
}

async fn a_missing_server_is_a_retryable_error() {
    let options = patient().retry_for(std::time::Duration::ZERO);
    let refused = options.connect("postgres:///x?host=%2Fnot%2Fthere&user=x").await.unwrap_err();
    assert!(refused.is_retryable(), "{refused:?}");
    let OpenError::Postgres { source, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(refused.to_string(), format!("the database x could not be opened: {source}"));
    let missing = std::io::Error::from_raw_os_error(2);
    assert_eq!(source.to_string(), format!("there is no connection to PostgreSQL at /not/there:5432: {missing}"));
}

async fn the_error_of_a_missing_database_names_it() {
    let url = postgres::shared().url("nowhere");
    let refused = patient().connect(&url).await.unwrap_err();
    let OpenError::Postgres { source, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(refused.to_string(), format!("the database nowhere could not be opened: {source}"));
    assert_eq!(source.to_string(), "PostgreSQL failed with SQLSTATE 3D000");
    assert!(!refused.is_retryable());
}

/// A step to a version that does not exist yet, as a later library would make it. The functions that the
/// older library calls stay.
const NEXT_STEP: &str = "
    alter table chat_history.conversation add column title text not null default '';
    create table chat_history.label (conversation bigint primary key, text text not null);
    create function chat_history.load_2(a_key text) returns bigint language sql as
        'select len from chat_history.conversation where key = a_key';
    insert into chat_history.schema_version values (2, 1)";

async fn replicas_of_two_schema_versions_share_a_database() {
    let url = database().await;
    let (running, id) = (single(&url).await, conversation("a"));
    say(&running, &id, "before").await;
    connect(&url).await.batch_execute(&format!("begin; {NEXT_STEP}; commit")).await.unwrap();
    say(&running, &id, "during").await;
    use_all(&running).await;
    // The older library can also be started again after the step.
    let started = single(&url).await;
    say(&started, &id, "after").await;
    use_all(&started).await;
    assert_eq!(texts(&running, &id).await, ["before", "during", "after"]);
    let len = connect(&url).await.query_one("select chat_history.load_2('test/a')", &[]).await.unwrap();
    assert_eq!(len.get::<_, i64>(0), 3, "the newer library works at the same time");
}
