//! Trust in other roles. Roles that may create objects in the store's schema cannot read or do anything
//! through the store, and a schema of a role that is not trusted is not used.

use libtest_mimic::Trial;
use test_servers::trials;
use tokio_postgres::Client;
use tower_chat_history_core::{HistoryStore, StoreError};
use tower_chat_history_postgres::{OpenError, PostgresError};

use crate::{
    settings::use_all,
    support::{append, connect, conversation, database, patient, say, single, texts},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        functions_planted_next_to_those_of_the_store_are_not_called,
        an_equally_good_function_makes_calls_fail_and_is_not_called,
        a_schema_of_another_role_is_refused,
        a_store_that_another_role_made_is_refused,
        tables_and_functions_of_another_role_are_refused,
        a_schema_of_a_group_of_the_current_role_is_used,
        a_shared_schema_is_used_if_the_owner_of_the_database_is_trusted,
    ]
}

/// A database with two roles that can log in and create schemas.
struct Roles {
    url: String,
    admin: Client,
    app: String,
    mallory: String,
}

impl Roles {
    async fn new() -> Self {
        let url = database().await;
        let admin = connect(&url).await;
        let name: String = admin.query_one("select current_database()::text", &[]).await.unwrap().get(0);
        let (app, mallory) = (format!("app_{name}"), format!("mallory_{name}"));
        let roles = format!(
            "create role {app} login; create role {mallory} login; grant create on database {name} to {app}, {mallory}"
        );
        admin.batch_execute(&roles).await.unwrap();
        Self { url, admin, app, mallory }
    }

    /// Returns the URL of the database for a role.
    fn url_of(&self, role: &str) -> String {
        self.url.replace("user=test", &format!("user={role}"))
    }

    async fn assert_refused(&self, url: &str, object: Option<&str>, owner: &str) {
        let refused = patient().connect(url).await.unwrap_err();
        let OpenError::Owner { schema, object: found, owner: found_owner } = &refused else { panic!("{refused:?}") };
        assert_eq!((schema.as_str(), found.as_deref(), found_owner.as_str()), ("chat_history", object, owner));
        let shown = refused.to_string();
        assert!(shown.contains("chat_history") && shown.contains(owner), "{shown}");
        assert!(!refused.is_retryable());
        patient().schema_owner(owner).connect(url).await.unwrap();
    }
}

/// The parameters of the store's functions, in order.
const FUNCTIONS: [(&str, &str); 11] = [
    ("load_1", "text text text uuid bigint bigint bigint text bigint bigint bigint int"),
    ("read_1", "text bigint bigint bigint"),
    (
        "append_1",
        "int text int uuid bigint bigint bigint uuid text bigint bigint bigint bigint bigint text bigint \
         text text text bigint bigint bytea bytea",
    ),
    ("compact_1", "text uuid uuid text bigint bigint bytea bytea"),
    ("fork_1", "text uuid text uuid bigint bigint bigint text text bigint bytea bytea"),
    ("list_1", "text text text bigint"),
    ("set_labels_1", "text uuid bigint uuid text"),
    ("delete_1", "text uuid"),
    ("bar_1", "text"),
    ("erased_1", "text bigint"),
    ("put_compaction_1", "bigint uuid text bigint bigint bytea bytea"),
];

/// Returns the SQL of a function with this name. Its call raises an error that nothing else raises.
fn overload(name: &str, parameters: &[&str]) -> String {
    format!(
        "do $do$ begin create function chat_history.{name}({}) returns text language plpgsql as \
         $$ begin raise exception using errcode = 'P0666'; end $$; \
         exception when duplicate_function or invalid_function_definition or feature_not_supported then null; end $do$",
        parameters.join(", ")
    )
}

/// Returns every function with the same name that PostgreSQL might prefer: with texts instead of other
/// parameters, one by one and all together, with wider types, and with any number of parameters.
fn overloads() -> Vec<String> {
    let mut overloads = Vec::new();
    for (name, parameters) in FUNCTIONS {
        let types: Vec<&str> = parameters.split(' ').collect();
        let mut lists = vec![
            vec!["text"; types.len()],
            types.iter().map(|of| if matches!(*of, "int" | "bigint") { "numeric" } else { of }).collect(),
            types.iter().map(|of| if *of == "text" { "varchar" } else { of }).collect(),
            types.iter().map(|of| if *of == "int" { "bigint" } else { of }).collect(),
            types.iter().map(|of| if of.ends_with("[]") { "anyarray" } else { of }).collect(),
            types.iter().map(|of| if *of == "text[]" { "varchar[]" } else { of }).collect(),
            vec!["variadic text[]"],
            vec!["variadic \"any\""],
        ];
        for at in 0..types.len() {
            let mut list = types.clone();
            list[at] = "text";
            lists.push(list);
        }
        overloads.extend(lists.iter().filter(|list| **list != types).map(|list| overload(name, list)));
    }
    overloads
}

async fn functions_planted_next_to_those_of_the_store_are_not_called() {
    let roles = Roles::new().await;
    let app = roles.url_of(&roles.app);
    let running = single(&app).await;
    use_all(&running).await;
    let grant = format!("grant all on schema chat_history to {}", roles.mallory);
    connect(&app).await.batch_execute(&grant).await.unwrap();
    let mallory = connect(&roles.url_of(&roles.mallory)).await;
    assert!(mallory.query("select 1 from chat_history.exchange", &[]).await.is_err(), "it may not read");
    for overload in overloads() {
        mallory.batch_execute(&overload).await.unwrap();
    }
    let count = "select count(*) from pg_proc where pronamespace = 'chat_history'::regnamespace";
    let planted = roles.admin.query_one(count, &[]).await.unwrap().get::<_, i64>(0);
    assert!(planted > 60, "{planted}");
    use_all(&running).await;
    // Also on connections without prepared statements, and in a store that is opened now.
    drop(running.pool().retain(|_, _| false));
    use_all(&running).await;
    use_all(&single(&app).await).await;
    let unprepared = patient().prepare(false).connect(&app).await.unwrap();
    use_all(&unprepared).await;
    // Batched calls use other statements.
    let id = conversation("together");
    let store = single(&app).await;
    let held = store.pool().get().await.unwrap();
    let calls = futures_util::future::join_all((0..8).map(|_| say(&store, &id, "x")));
    let (calls, ()) = futures_util::future::join(calls, async {
        tokio::task::yield_now().await;
        drop(held);
    })
    .await;
    assert_eq!(calls.len(), 8);
    assert_eq!(texts(&store, &id).await.len(), 8);
}

/// A function with an additional optional parameter matches as well as the store's own. PostgreSQL then calls
/// neither.
async fn an_equally_good_function_makes_calls_fail_and_is_not_called() {
    let roles = Roles::new().await;
    let app = roles.url_of(&roles.app);
    let (store, id) = (single(&app).await, conversation("a"));
    let grant = format!("grant all on schema chat_history to {}", roles.mallory);
    connect(&app).await.batch_execute(&grant).await.unwrap();
    let mallory = connect(&roles.url_of(&roles.mallory)).await;
    for (name, parameters) in FUNCTIONS {
        let types: Vec<&str> = parameters.split(' ').chain(["text default ''"]).collect();
        mallory.batch_execute(&overload(name, &types)).await.unwrap();
    }
    let failed = store.append(&id, append("one")).await.unwrap_err();
    let StoreError::Backend { source } = &failed else { panic!("{failed:?}") };
    let Some(PostgresError::Sql { code, .. }) = source.downcast_ref() else { panic!("{failed:?}") };
    assert_eq!(code.code(), "42725", "ambiguous_function");
}

async fn a_schema_of_another_role_is_refused() {
    let roles = Roles::new().await;
    let mallory = connect(&roles.url_of(&roles.mallory)).await;
    mallory.batch_execute("create schema chat_history; grant all on schema chat_history to public").await.unwrap();
    roles.assert_refused(&roles.url_of(&roles.app), None, &roles.mallory).await;
    // A superuser is not a member of other roles, although it may do everything.
    let roles = Roles::new().await;
    let mallory = connect(&roles.url_of(&roles.mallory)).await;
    mallory.batch_execute("create schema chat_history").await.unwrap();
    roles.assert_refused(&roles.url, None, &roles.mallory).await;
}

async fn a_store_that_another_role_made_is_refused() {
    let roles = Roles::new().await;
    drop(single(&roles.url_of(&roles.mallory)).await);
    roles.assert_refused(&roles.url, None, &roles.mallory).await;
    use_all(&patient().schema_owner(&roles.mallory).connect(&roles.url).await.unwrap()).await;
}

async fn tables_and_functions_of_another_role_are_refused() {
    for (change, object) in [
        ("alter function chat_history.delete_1(text, uuid) owner to", "the function delete_1"),
        ("alter table chat_history.exchange owner to", "the table exchange"),
        ("alter table chat_history.schema_version owner to", "the table schema_version"),
    ] {
        let roles = Roles::new().await;
        drop(single(&roles.url).await);
        roles.admin.batch_execute(&format!("{change} {}", roles.mallory)).await.unwrap();
        roles.assert_refused(&roles.url, Some(object), &roles.mallory).await;
    }
}

async fn a_schema_of_a_group_of_the_current_role_is_used() {
    let roles = Roles::new().await;
    let Roles { app, mallory, .. } = &roles;
    let group = format!("group_{app}");
    // The role is a member through another group.
    let grants = format!(
        "create role {group}; create role outer_{group}; grant outer_{group} to {group}; grant {group} to {app}; \
         create schema chat_history authorization outer_{group}; grant all on schema chat_history to {mallory}"
    );
    roles.admin.batch_execute(&grants).await.unwrap();
    let id = conversation("a");
    say(&single(&roles.url_of(app)).await, &id, "one").await;
    let refused = patient().connect(&roles.url_of(mallory)).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Owner { owner, .. } if *owner == format!("outer_{group}")), "{refused:?}");
}

async fn a_shared_schema_is_used_if_the_owner_of_the_database_is_trusted() {
    let roles = Roles::new().await;
    let Roles { app, mallory, .. } = &roles;
    let name: String = roles.admin.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    let owner = format!("alter database {name} owner to {app}; grant all on schema public to {mallory}");
    roles.admin.batch_execute(&owner).await.unwrap();
    let options = || patient().schema("public");
    // Up to PostgreSQL 14, a superuser owns this schema. In later versions, the owner of the database owns
    // it.
    let store = options().connect(&roles.url_of(app)).await.unwrap();
    say(&store, &conversation("a"), "one").await;
    let refused = options().connect(&roles.url_of(mallory)).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Owner { owner, .. } if owner == app), "{refused:?}");
}
