//! Stores that are filled quickly, and then used with the durability of production.

use std::{sync::Arc, time::Duration};

use tempfile::TempDir;
use test_servers::{postgres, redis as redis_server};
use tokio_postgres::{Client, NoTls};
use tower_chat_history::HistoryStore;
use tower_chat_history_postgres::PostgresStore;
use tower_chat_history_redis::RedisStore;
use tower_chat_history_sqlite::{SqliteOptions, Synchronous};

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
        let files = |synchronous| Self::Sqlite(tempfile::tempdir_in(directory).unwrap(), 0, synchronous);
        match store {
            "sqlite" => return Some(files(Synchronous::Full)),
            "sqlite-normal" => return Some(files(Synchronous::Normal)),
            "postgres" if postgres::is_available() => {
                return Some(Self::Postgres(postgres::Server::start(postgres::Durability::Full), None));
            }
            "postgres" => test_servers::left_out(postgres::NAME),
            _ if redis_server::is_available() => return Some(Self::Redis(Vec::new())),
            _ => test_servers::left_out(redis_server::NAME),
        }
        None
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
                let micros = ["eval", "evalsha", "fcall"].map(|command| {
                    let stats: Option<String> = info.get(&format!("cmdstat_{command}"));
                    let fields = stats.as_deref().unwrap_or_default().split(',');
                    fields.filter_map(|field| field.strip_prefix("usec=")?.parse::<u64>().ok()).sum::<u64>()
                });
                [Duration::from_micros(micros.iter().sum()), Duration::ZERO]
            }
        }
    }
}

async fn info(url: &str, section: &str) -> redis::InfoDict {
    let mut connection = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    redis::cmd("INFO").arg(section).query_async(&mut connection).await.unwrap()
}
