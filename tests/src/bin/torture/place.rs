//! Where the store is: a file, or a server that can be crashed and started again on its data.

use std::{net::SocketAddr, path::PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;
use tests::servers::{cluster::Cluster, postgres, redis};
use tokio::runtime::Runtime;

use crate::{
    chance::Chance,
    proxy::{Faults, Proxy, Rates},
};

/// A store has many connections to PostgreSQL, and each call two pieces of its own.
const POSTGRES: Rates = Rates { cut: 500, delay: 100 };
/// One connection to Redis carries everything, and many calls go in one piece.
const REDIS: Rates = Rates { cut: 100, delay: 50 };

/// The stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    Redis,
    RedisCluster,
}

/// A place of its own for a run.
pub(crate) struct Place {
    server: Server,
    proxy: Option<Proxy>,
    /// For the parent, which looks at the server itself.
    direct: String,
    /// For the workers.
    through_proxy: String,
}

enum Server {
    File(TempDir),
    Postgres(postgres::Server),
    Redis(redis::Server),
    /// It is not restarted, and its connections are not cut: its nodes tell each other's addresses to the workers.
    Cluster {
        _cluster: Cluster,
    },
}

impl Place {
    /// Starts the server with its data on disk before it answers, and a proxy in front of it, if there can be one.
    pub(crate) fn start(kind: Kind, with_proxy: bool, chance: Chance, runtime: &Runtime) -> Self {
        match kind {
            Kind::Sqlite => {
                let directory = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", directory.path().join("chat.db").display());
                Self { server: Server::File(directory), proxy: None, direct: url.clone(), through_proxy: url }
            }
            Kind::Postgres => {
                let server = postgres::Server::start(postgres::Durability::Full);
                let direct = runtime.block_on(server.database());
                let socket = server.directory().join(".s.PGSQL.5432");
                let database = direct.trim_start_matches("postgres:///").split('?').next().unwrap_or_default();
                let url = |address| format!("postgres://test@{address}/{database}?sslmode=disable");
                let proxy = with_proxy.then(|| Proxy::start(socket, POSTGRES, chance, runtime));
                let through_proxy = proxy.as_ref().map_or_else(|| direct.clone(), |proxy| url(proxy.address()));
                Self { server: Server::Postgres(server), proxy, direct, through_proxy }
            }
            Kind::Redis => {
                let server = redis::Server::durable();
                let direct = server.url();
                let socket = PathBuf::from(direct.trim_start_matches("unix://"));
                let url = |address: SocketAddr| format!("redis://{address}/");
                let proxy = with_proxy.then(|| Proxy::start(socket, REDIS, chance, runtime));
                let through_proxy = proxy.as_ref().map_or_else(|| direct.clone(), |proxy| url(proxy.address()));
                Self { server: Server::Redis(server), proxy, direct, through_proxy }
            }
            Kind::RedisCluster => {
                let cluster = Cluster::start();
                let url = format!("redis+cluster:{}", cluster.urls().join(","));
                let server = Server::Cluster { _cluster: cluster };
                Self { server, proxy: None, direct: url.clone(), through_proxy: url }
            }
        }
    }

    /// The store's URL for the parent.
    pub(crate) fn direct(&self) -> &str {
        &self.direct
    }

    /// The store's URL for the workers.
    pub(crate) fn through_proxy(&self) -> &str {
        &self.through_proxy
    }

    /// What the proxy did, if there is one.
    pub(crate) fn faults(&self) -> Option<Faults> {
        self.proxy.as_ref().map(Proxy::faults)
    }

    /// Ends the server as a crash would, and starts it again. Says whether there is one that can be.
    pub(crate) fn crash_and_restart(&mut self) -> bool {
        match &mut self.server {
            Server::Postgres(server) => {
                server.crash();
                server.restart();
                true
            }
            Server::Redis(server) => {
                server.crash();
                server.restart();
                true
            }
            Server::File(_) | Server::Cluster { .. } => false,
        }
    }

    /// Asks SQLite whether its file is sound. No other process may have it open, so that it is read as it is.
    pub(crate) fn check_file(&self) -> Result<(), String> {
        let Server::File(directory) = &self.server else { return Ok(()) };
        let path = directory.path().join("chat.db");
        if !path.exists() {
            return Ok(());
        }
        let found = Connection::open(path)
            .and_then(|connection| connection.query_row("PRAGMA quick_check", [], |row| row.get::<_, String>(0)));
        match found {
            Ok(found) if found == "ok" => Ok(()),
            Ok(found) => Err(format!("the file is not sound: {found}")),
            Err(error) => Err(format!("the file cannot be checked: {error}")),
        }
    }
}
