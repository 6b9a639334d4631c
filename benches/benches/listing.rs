//! The cost of a page of a listing among 1,000,000 conversations, compared with the same page among 1,000.
//!
//! Each store has two databases, with 1,000 and with 1,000,000 conversations of users with 100 conversations each. All
//! of them are appended through the store, with one exchange of 500 bytes of text. For each store, a run compares the
//! two databases, with pages of 50 conversations:
//!
//! - `of a user`: the first page under the prefix of one user;
//! - `of a tenant`: a page under the prefix of all users, from a conversation on.
//!
//! Users and conversations are chosen in an order that is not sequential. The databases alternate, and the median time
//! of each is printed. A page of the larger one should take at most 3 times as long.
//!
//! Run it with `cargo bench -p benches --bench listing`. It starts the servers from the installed programs, and needs 6
//! GB of memory and 5 GB on the disk of the target directory. A server that is not installed is left out, and a line
//! reports that. To measure only one store, name it: `-- sqlite`, `-- postgres` or `-- redis`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{hint::black_box, path::Path, time::Instant};

use benches::{
    contest::{Circle, Contestant, paired},
    fill_all_as, text,
};
use test_servers::{left_out, postgres, redis as redis_server};
use tokio::runtime::Runtime;
use tower_chat_history::{
    ConversationId,
    store::{Cursor, List, Prefix},
};
use tower_chat_history_postgres::PostgresStore;
use tower_chat_history_redis::RedisStore;
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore, Synchronous};

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
const OF_A_USER: usize = 100;
const PAGE: usize = 50;
const ROUNDS: usize = 2_000;

/// Returns the id of the conversation with this number.
fn conversation(number: usize) -> ConversationId {
    let user = format!("user-{}", number / OF_A_USER);
    let thread = format!("support-{}", number % OF_A_USER);
    ConversationId::new(["acme", &user, &thread]).unwrap()
}

/// A store with this number of conversations.
struct Filled<S> {
    store: S,
    len: usize,
    pages: Circle,
}

impl<S: List> Filled<S> {
    async fn new(store: S, len: usize) -> Self {
        let start = Instant::now();
        fill_all_as(&store, 0..len, 1, conversation).await;
        println!("{len} conversations were appended in {:.1} s", start.elapsed().as_secs_f64());
        Self { store, len, pages: Circle::new(0, len) }
    }

    async fn page_of_a_user(&self) {
        let user = format!("user-{}", self.pages.next() / OF_A_USER);
        let page = self.store.list(&Prefix::new(["acme", &user]).unwrap(), None, PAGE).await.unwrap();
        assert_eq!(black_box(page).conversations.len(), PAGE);
    }

    async fn page_of_a_tenant(&self) {
        // In the order of ids, these are followed by far more than a page.
        let after = Cursor::after(conversation(self.pages.next() % (self.len / 2)));
        let page = self.store.list(&Prefix::new(["acme"]).unwrap(), Some(&after), PAGE).await.unwrap();
        assert_eq!(black_box(page).conversations.len(), PAGE);
    }
}

fn compare<S: List>(name: &str, runtime: &Runtime, few: &Filled<S>, many: &Filled<S>) {
    let contest = vec![
        Contestant::of("1,000", runtime, || few.page_of_a_user()),
        Contestant::of("1,000,000", runtime, || many.page_of_a_user()),
    ];
    paired(&format!("{name}/of a user"), ROUNDS, contest);

    let contest = vec![
        Contestant::of("1,000", runtime, || few.page_of_a_tenant()),
        Contestant::of("1,000,000", runtime, || many.page_of_a_tenant()),
    ];
    paired(&format!("{name}/of a tenant"), ROUNDS, contest);
}

/// Prints the size of the larger database.
fn print_size(name: &str, what: &str, bytes: u64) {
    println!("{name}: {what}: {} MB, {} bytes per conversation", bytes / 1_000_000, bytes / MANY as u64);
}

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Runtime::new().unwrap();
    assert!(text().len() * 2 == 500);
    if is_selected("sqlite") {
        bench_sqlite(&runtime);
    }

    if is_selected("postgres") {
        if postgres::is_available() {
            bench_postgres(&runtime);
        } else {
            left_out(postgres::NAME);
        }
    }

    if is_selected("redis") {
        if redis_server::is_available() {
            bench_redis(&runtime);
        } else {
            left_out(redis_server::NAME);
        }
    }
}

fn bench_sqlite(runtime: &Runtime) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let large_file = directory.path().join("many.db");
    let few = runtime.block_on(filled_sqlite(&directory.path().join("few.db"), FEW));
    let many = runtime.block_on(filled_sqlite(&large_file, MANY));

    compare("sqlite", runtime, &few, &many);
    runtime.block_on(async {
        few.store.close().await.unwrap();
        many.store.close().await.unwrap();
    });
    print_size("sqlite", "file", large_file.metadata().unwrap().len());
}

async fn filled_sqlite(path: &Path, len: usize) -> Filled<SqliteStore> {
    let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(path).await.unwrap();
    Filled::new(store, len).await
}

fn bench_postgres(runtime: &Runtime) {
    let server = postgres::Server::start(postgres::Durability::None);
    let (few, _) = runtime.block_on(filled_postgres(&server, FEW));
    let (many, size) = runtime.block_on(filled_postgres(&server, MANY));

    compare("postgres", runtime, &few, &many);
    print_size("postgres", "database", size as u64);
}

/// Returns a store of a new database, and the size of the database.
async fn filled_postgres(server: &postgres::Server, len: usize) -> (Filled<PostgresStore>, i64) {
    let url = server.database().await;
    let store = Filled::new(PostgresStore::connect(&url).await.unwrap(), len).await;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);

    // The server does this by itself some time after many changes.
    client.batch_execute("vacuum analyze").await.unwrap();
    let size = client.query_one("select pg_database_size(current_database())", &[]).await.unwrap();
    (store, size.get(0))
}

fn bench_redis(runtime: &Runtime) {
    // Each has its own server, because it is filled by itself in production, too.
    let servers = [redis_server::Server::start(), redis_server::Server::start()];
    let few = runtime.block_on(filled_redis(&servers[0], FEW));
    let many = runtime.block_on(filled_redis(&servers[1], MANY));

    compare("redis", runtime, &few, &many);
    let (all, registry) = runtime.block_on(redis_memory(&servers[1].url()));
    print_size("redis", "memory of everything", all);
    print_size("redis", "memory of the registry", registry);
}

async fn filled_redis(server: &redis_server::Server, len: usize) -> Filled<RedisStore> {
    Filled::new(RedisStore::connect(server.url()).await.unwrap(), len).await
}

/// Returns the memory of a server, and of the registry's keys.
async fn redis_memory(url: &str) -> (u64, u64) {
    let mut connection = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    let info: redis::InfoDict = redis::cmd("INFO").arg("memory").query_async(&mut connection).await.unwrap();
    let mut registry = 0;
    for slot in 0..16 {
        for part in ["names", "registered", "erasures", "epochs"] {
            let key = format!("chat:{{!{slot}}}:{part}");
            // It counts every element, and not a sample. A key that does not exist has no memory.
            let usage = redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).to_owned();
            registry += usage.query_async::<Option<u64>>(&mut connection).await.unwrap().unwrap_or_default();
        }
    }
    (info.get("used_memory").unwrap(), registry)
}
