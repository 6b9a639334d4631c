//! Stores that are filled to a size, and turns over them. A store is filled quickly, and then used with the durability
//! of production.
#![allow(clippy::future_not_send)] // Benches block on these futures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use tempfile::TempDir;
use test_servers::{postgres, redis as redis_server};
use tokio_postgres::{Client, NoTls};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    CachedStore, ChatHistory, ChatHistoryLayer, ContextOptions, HistoryOptions, HistoryStore, InConversation,
    store::LoadLimit,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_postgres::PostgresStore;
use tower_chat_history_redis::RedisStore;
use tower_chat_history_sqlite::{SqliteOptions, Synchronous};

use crate::{Llm, WINDOW, contest::Circle, conversation, fill, fill_all, llm, question, text, turn};

/// The names of all kinds of stores. The first has the default options of SQLite.
pub const STORES: [&str; 4] = ["sqlite", "sqlite-normal", "postgres", "redis"];

/// The place of the databases of one kind of store. Each database is new.
#[allow(missing_debug_implementations)]
pub enum Base {
    /// Files in a directory, their number, and the setting of turns.
    Sqlite(TempDir, usize, Synchronous),
    /// Databases of one server, which flushes each commit, and a connection to the newest one.
    Postgres(postgres::Server, Option<Box<Client>>),
    /// A server for each database, which writes nothing to disk.
    Redis(Vec<redis_server::Server>),
}

impl Base {
    /// Returns a place for stores of this kind. Files are in a new directory within this one. Returns `None` and prints
    /// a line if the server is not installed.
    #[must_use]
    pub fn of(store: &str, directory: &str) -> Option<Self> {
        let synchronous = match store {
            "sqlite" => Synchronous::Full,
            "sqlite-normal" => Synchronous::Normal,
            "postgres" if postgres::is_available() => {
                return Some(Self::Postgres(postgres::Server::start(postgres::Durability::Full), None));
            }
            "redis" if redis_server::is_available() => return Some(Self::Redis(Vec::new())),
            _ => {
                test_servers::left_out(if store == "postgres" { postgres::NAME } else { redis_server::NAME });
                return None;
            }
        };
        Some(Self::Sqlite(tempfile::tempdir_in(directory).unwrap(), 0, synchronous))
    }

    /// Returns a store of a new database after it was filled.
    pub async fn filled(&mut self, fill: impl AsyncFn(&dyn HistoryStore)) -> Arc<dyn HistoryStore> {
        match self {
            Self::Sqlite(directory, number, synchronous) => {
                *number += 1;
                let path = directory.path().join(format!("{number}.db"));
                let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(&path).await.unwrap();
                fill(&store).await;
                store.close().await.unwrap();

                Arc::new(SqliteOptions::new().synchronous(*synchronous).open(&path).await.unwrap())
            }
            Self::Postgres(server, newest) => {
                let url = server.database().await;
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
                tokio::spawn(connection);

                let name: String = client.query_one("select current_database()::text", &[]).await.unwrap().get(0);

                // Connections that are opened from now on do not wait for the disk.
                let relaxed = format!("alter database {name} set synchronous_commit = off");
                client.batch_execute(&relaxed).await.unwrap();
                fill(&PostgresStore::connect(&url).await.unwrap()).await;

                let durable = format!("alter database {name} reset synchronous_commit");
                // The server does the others by itself some time after many changes.
                for statement in [&*durable, "vacuum analyze", "checkpoint"] {
                    client.batch_execute(statement).await.unwrap();
                }

                *newest = Some(Box::new(client));
                Arc::new(PostgresStore::connect(&url).await.unwrap())
            }
            Self::Redis(servers) => {
                let server = redis_server::Server::start();
                let store = RedisStore::connect(server.url()).await.unwrap();
                servers.push(server);
                fill(&store).await;
                Arc::new(store)
            }
        }
    }

    /// Makes PostgreSQL measure the times of functions and of flushes, for the newest database.
    pub async fn watch(&self) {
        let Self::Postgres(_, Some(client)) = self else { return };
        let settings = ["alter system set track_functions = 'all'", "alter system set track_wal_io_timing = on"];
        for statement in settings.into_iter().chain(["select pg_reload_conf()"]) {
            client.batch_execute(statement).await.unwrap();
        }
    }

    /// Returns the ids of the processes of the newest database's server.
    pub async fn processes(&self) -> Vec<u32> {
        match self {
            Self::Sqlite(..) => Vec::new(),
            Self::Postgres(_, client) => {
                let rows = client.as_ref().unwrap().query("select pid from pg_stat_activity", &[]).await.unwrap();
                rows.iter().map(|row| row.get::<_, i32>(0) as u32).collect()
            }
            Self::Redis(servers) => {
                let info = info(&servers.last().unwrap().url(), "server").await;
                vec![info.get("process_id").unwrap()]
            }
        }
    }

    /// Returns the times that the server reports: of functions or scripts, and of flushes.
    pub async fn reported(&self) -> [Duration; 2] {
        match self {
            Self::Sqlite(..) => [Duration::ZERO; 2],
            Self::Postgres(_, client) => {
                let sql = "select (select coalesce(sum(self_time), 0) from pg_stat_user_functions)::float8, \
                           (select wal_sync_time from pg_stat_wal)::float8";
                let row = client.as_ref().unwrap().query_one(sql, &[]).await.unwrap();
                [0, 1].map(|column| Duration::from_secs_f64(row.get::<_, f64>(column) / 1e3))
            }
            Self::Redis(servers) => {
                let info = info(&servers.last().unwrap().url(), "commandstats").await;

                let mut micros = 0;
                for command in ["eval", "evalsha", "fcall"] {
                    let stats: Option<String> = info.get(&format!("cmdstat_{command}"));
                    let fields = stats.as_deref().unwrap_or_default().split(',');
                    micros += fields.filter_map(|field| field.strip_prefix("usec=")?.parse::<u64>().ok()).sum::<u64>();
                }
                [Duration::from_micros(micros), Duration::ZERO]
            }
        }
    }
}

async fn info(url: &str, section: &str) -> redis::InfoDict {
    let mut connection = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    redis::cmd("INFO").arg(section).query_async(&mut connection).await.unwrap()
}

/// The forms of a turn: without and with a `CachedStore`.
pub const FORMS: [&str; 2] = ["plain", "cached"];

/// The number of conversations that cached turns use among many. Their windows are in the cache.
const ACTIVE: usize = 100;

/// The size of the cache in bytes, enough for all windows.
pub const CACHE_BYTES: usize = 1 << 30;

/// The order in which turns of one form use the conversations of a store.
#[derive(Debug)]
enum Order {
    /// As many turns as a log may grow by, in one conversation after the other.
    OneByOne { from: usize, copies: usize, turns_of_each: usize, turns: AtomicUsize },
    /// Every `step`th conversation, in an order that is not sequential.
    Spread { circle: Circle, step: usize },
}

impl Order {
    fn next(&self) -> usize {
        match self {
            Self::OneByOne { from, copies, turns_of_each, turns } => {
                from + turns.fetch_add(1, Relaxed) / turns_of_each % copies
            }
            Self::Spread { circle, step } => circle.next() * step,
        }
    }
}

/// The turns of one form over a store.
#[allow(missing_debug_implementations)]
pub struct Turns {
    chat: ChatHistory<Llm, OpenAi>,
    order: Order,
}

impl Turns {
    fn new(store: Arc<dyn HistoryStore>, form: &str, order: Order) -> Self {
        // With this limit, windows have 60 to 80 messages, because a compaction goes down to three quarters of it.
        let limit = LoadLimit::new(WINDOW * 4 / 3, 1 << 30).unwrap();
        let options = HistoryOptions::new().context(ContextOptions::new().load_limit(limit));
        let store: Arc<dyn HistoryStore> = match form {
            "cached" => Arc::new(CachedStore::with_limit(store, CACHE_BYTES)),
            _ => store,
        };
        Self { chat: ChatHistoryLayer::with_options(store, OpenAi::new(), options).layer(llm()), order }
    }

    /// Creates turns over the store as it is, in this many conversations.
    #[must_use]
    pub fn among(store: Arc<dyn HistoryStore>, conversations: usize) -> Self {
        Self::new(store, FORMS[0], Order::Spread { circle: Circle::new(0, conversations), step: 1 })
    }

    /// Makes a turn in the next conversation.
    pub async fn make(&self) {
        self.make_in(self.order.next()).await;
    }

    async fn make_in(&self, number: usize) {
        let call = InConversation::new(conversation(number), question());
        std::hint::black_box(self.chat.clone().oneshot(call).await.unwrap());
    }
}

/// Returns the turns of each form over a store with logs of this many messages. Each log grows by at most a fifth
/// within this number of turns, which both forms make, so there are several short logs. The forms share a long one.
pub async fn of_logs(base: &mut Base, messages: usize, turns: usize) -> [Turns; 2] {
    let turns_of_each = (messages / 10).max(1);
    let copies = turns.div_ceil(turns_of_each);
    let is_shared = FORMS.len() * turns <= turns_of_each;
    let starts = if is_shared { [0, 0] } else { [0, copies] };

    let store = base.filled(async |store| fill_logs(store, starts[1] + copies, messages / 2).await).await;
    let forms = [0, 1].map(|form| {
        let order = Order::OneByOne { from: starts[form], copies, turns_of_each, turns: AtomicUsize::new(0) };
        Turns::new(Arc::clone(&store), FORMS[form], order)
    });

    // The first turn costs more: it stores a compaction, and fills the cache.
    for (turns, start) in forms.iter().zip(starts) {
        for copy in 0..copies {
            turns.make_in(start + copy).await;
        }
    }
    forms
}

/// Returns the turns of each form over a store with this many conversations of one exchange each. Plain turns use all
/// of them, and cached turns use a hundred of them.
pub async fn of_conversations(base: &mut Base, conversations: usize) -> [Turns; 2] {
    let store = base.filled(async |store| fill_all(store, 0..conversations, 1).await).await;

    let step = conversations / ACTIVE;
    let cached = Turns::new(Arc::clone(&store), FORMS[1], Order::Spread { circle: Circle::new(0, ACTIVE), step });
    for active in 0..ACTIVE {
        cached.make_in(active * step).await;
    }
    [Turns::among(store, conversations), cached]
}

/// Returns the turns of each form over this many conversations with a full window. Each form has its own ones, and has
/// used each of them once.
pub async fn of_windows(base: &mut Base, conversations: usize) -> [Turns; 2] {
    let store = base.filled(async |store| fill_all(store, 0..2 * conversations, WINDOW / 2).await).await;
    let forms = [0, 1].map(|form| {
        let order = Order::Spread { circle: Circle::new(form * conversations, conversations), step: 1 };
        Turns::new(Arc::clone(&store), FORMS[form], order)
    });

    for turns in &forms {
        for _ in 0..conversations {
            turns.make().await;
        }
    }
    forms
}

/// Fills conversations with many exchanges each. The exchanges of one conversation are appended concurrently, too.
async fn fill_logs(store: &dyn HistoryStore, conversations: usize, exchanges: usize) {
    let turn = &turn(&text());
    for number in 0..conversations {
        let id = &conversation(number);
        // Alone, because only one append can create the conversation.
        fill(store, id, turn, 1).await;
        futures_util::stream::iter(1..exchanges).for_each_concurrent(64, |_| fill(store, id, turn, 1)).await;
    }
}
