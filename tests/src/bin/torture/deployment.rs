//! The storage of a run: a file, or a server that can be crashed and restarted with its data.

use std::{net::SocketAddr, path::PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;
use test_servers::{
    cluster::{Cluster, NODES},
    postgres, redis,
};
use tokio::runtime::Runtime;

use crate::{
    proxy::{Faults, Proxy, Rates},
    rng::SeededRng,
};

/// For PostgreSQL: a store has many connections, and each call sends and receives separate pieces.
const POSTGRES: Rates = Rates { cut: 500, delay: 100 };
/// For Redis: one connection carries everything, and one piece can contain many calls.
const REDIS: Rates = Rates { cut: 100, delay: 50 };

/// The stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    Redis,
    RedisCluster,
}

/// The storage of one run.
pub(crate) struct Deployment {
    server: Server,
    /// The proxies in front of the server. Each node of a cluster has its own.
    proxies: Vec<Proxy>,
    /// The URL for the parent, without a proxy.
    direct: String,
    /// The URL for the workers.
    through_proxy: String,
}

enum Server {
    File(TempDir),
    Postgres(postgres::Server),
    Redis(redis::Server),
    Cluster {
        cluster: Cluster,
        /// The index of the node that crashes next.
        next: u16,
    },
}

impl Deployment {
    /// Starts the server, and a proxy in front of it if there can be one. The server writes to disk before it
    /// answers.
    pub(crate) fn start(kind: Kind, with_proxy: bool, mut rng: SeededRng, runtime: &Runtime) -> Self {
        match kind {
            Kind::Sqlite => {
                let directory = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", directory.path().join("chat.db").display());
                Self { server: Server::File(directory), proxies: Vec::new(), direct: url.clone(), through_proxy: url }
            }
            Kind::Postgres => {
                let server = postgres::Server::start(postgres::Durability::Full);
                let direct = runtime.block_on(server.database());
                let socket = server.directory().join(".s.PGSQL.5432");
                let database = direct.trim_start_matches("postgres:///").split('?').next().unwrap_or_default();
                let url = |address| format!("postgres://test@{address}/{database}?sslmode=disable");
                let proxy = with_proxy.then(|| Proxy::start(socket, POSTGRES, rng, runtime));
                let through_proxy = proxy.as_ref().map_or_else(|| direct.clone(), |proxy| url(proxy.address()));
                Self { server: Server::Postgres(server), proxies: Vec::from_iter(proxy), direct, through_proxy }
            }
            Kind::Redis => {
                let server = redis::Server::durable();
                let direct = server.url();
                let socket = PathBuf::from(direct.trim_start_matches("unix://"));
                let url = |address: SocketAddr| format!("redis://{address}/");
                let proxy = with_proxy.then(|| Proxy::start(socket, REDIS, rng, runtime));
                let through_proxy = proxy.as_ref().map_or_else(|| direct.clone(), |proxy| url(proxy.address()));
                Self { server: Server::Redis(server), proxies: Vec::from_iter(proxy), direct, through_proxy }
            }
            Kind::RedisCluster => {
                // The nodes report their addresses to the workers, so they must report those of their
                // proxies.
                let mut proxies = Vec::new();
                let cluster = Cluster::durable(|socket| {
                    let proxy = with_proxy.then(|| Proxy::start(socket.to_owned(), REDIS, rng.fork(), runtime))?;
                    let port = proxy.address().port();
                    proxies.push(proxy);
                    Some(port)
                });
                let url = format!("redis+cluster:{}", cluster.urls().join(","));
                let server = Server::Cluster { cluster, next: 0 };
                Self { server, proxies, direct: url.clone(), through_proxy: url }
            }
        }
    }

    /// Returns the URL of the store for the parent.
    pub(crate) fn direct(&self) -> &str {
        &self.direct
    }

    /// Returns the URL of the store for the workers.
    pub(crate) fn through_proxy(&self) -> &str {
        &self.through_proxy
    }

    /// Returns what the proxies did, if there are any.
    pub(crate) fn faults(&self) -> Option<Faults> {
        if self.proxies.is_empty() { None } else { Some(self.proxies.iter().map(Proxy::faults).sum()) }
    }

    /// Stops faults on all connections.
    pub(crate) fn stop_faults(&self) {
        self.proxies.iter().for_each(Proxy::stop_faults);
    }

    /// Kills the server as a crash would, and restarts it. In a cluster, this is done to one node at a time,
    /// in turns, and the other nodes do not wait for it. Returns the number of restarted servers or nodes,
    /// which is 0 for SQLite.
    pub(crate) fn crash_and_restart(&mut self) -> u64 {
        match &mut self.server {
            Server::Postgres(server) => {
                server.crash();
                server.restart();
                1
            }
            Server::Redis(server) => {
                server.crash();
                server.restart();
                1
            }
            Server::Cluster { cluster, next } => {
                cluster.crash_and_restart(*next);
                *next = (*next + 1) % NODES;
                1
            }
            Server::File(_) => 0,
        }
    }

    /// Like `crash_and_restart`, for all nodes. It waits until they are up again.
    pub(crate) fn crash_and_restart_all(&mut self) -> u64 {
        let Server::Cluster { .. } = &self.server else { return self.crash_and_restart() };
        let restarts = (0..NODES).map(|_| self.crash_and_restart()).sum();
        if let Server::Cluster { cluster, .. } = &self.server {
            cluster.wait_until_complete();
        }
        restarts
    }

    /// Lets SQLite check its file. No other process may have the file open, so that the check reads the file
    /// as it is.
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
            Ok(found) => Err(format!("the file is damaged: {found}")),
            Err(error) => Err(format!("the file cannot be checked: {error}")),
        }
    }
}
