//! The storages, with their files and the steps that their documentation leaves to the operator.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use async_trait::async_trait;
use tempfile::TempDir;
use test_servers::{
    postgres::{self, Durability},
    redis,
};
use tests::{FullStore, patient};

use super::search::secrets_in_files;

/// A storage.
#[async_trait]
pub(crate) trait Place {
    /// Opens the storage, as another process would.
    async fn open(&self) -> Arc<dyn FullStore>;

    /// Returns the directory of its files.
    fn directory(&self) -> PathBuf;

    /// Returns the secrets in its files.
    fn found(&self) -> Vec<String> {
        secrets_in_files(&self.directory())
    }

    /// Writes files that the storage writes only from time to time.
    fn write_all_files(&self) {}

    /// Removes what the storage keeps for an hour after a deletion. A scrub is for the time after that.
    fn an_hour_passes(&self) {}

    /// Does what the documentation of the store leaves to the operator, for the files of this storage.
    fn do_the_operators_steps(&self) {}

    /// Returns a dump, if the storage has a program for it.
    fn dump(&self) -> Option<Vec<u8>> {
        None
    }
}

/// A file of SQLite. There are no steps for the operator.
pub(crate) struct SqlitePlace(TempDir);

impl SqlitePlace {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

#[async_trait]
impl Place for SqlitePlace {
    async fn open(&self) -> Arc<dyn FullStore> {
        Arc::new(patient::sqlite().open(self.0.path().join("chat.db")).await.unwrap())
    }

    fn directory(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

/// A server of PostgreSQL.
pub(crate) struct PostgresPlace {
    server: postgres::Server,
    url: String,
}

impl PostgresPlace {
    pub(crate) fn is_available() -> bool {
        postgres::is_available()
    }

    pub(crate) async fn new() -> Self {
        let server = postgres::Server::start(Durability::None);
        let url = server.database().await;
        Self { server, url }
    }

    /// Runs one of PostgreSQL's programs on the database. Returns its output.
    fn run(&self, program: &str, arguments: &[&str]) -> Vec<u8> {
        let database = self.url.trim_start_matches("postgres:///").split('?').next().unwrap();
        let mut command = Command::new(postgres::program(program));
        command.args(["--host", self.server.directory().to_str().unwrap(), "--username", "test", "--dbname", database]);
        let ran = command.args(arguments).current_dir("/").output().unwrap();
        assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
        ran.stdout
    }
}

#[async_trait]
impl Place for PostgresPlace {
    async fn open(&self) -> Arc<dyn FullStore> {
        Arc::new(patient::postgres().connect(&self.url).await.unwrap())
    }

    fn directory(&self) -> PathBuf {
        self.server.directory().join("data")
    }

    fn do_the_operators_steps(&self) {
        let mut statements = vec!["alter system set wal_recycle = off", "select pg_reload_conf()"];
        statements.extend(["select pg_switch_wal()", "checkpoint"].repeat(2));
        for statement in statements {
            self.run("psql", &["--no-psqlrc", "--command", statement]);
        }
    }

    fn dump(&self) -> Option<Vec<u8>> {
        Some(self.run("pg_dump", &[]))
    }
}

/// A server of Redis that has an append-only file and makes snapshots, without compression.
pub(crate) struct RedisPlace(redis::Server);

impl RedisPlace {
    pub(crate) fn is_available() -> bool {
        redis::is_available()
    }

    pub(crate) fn new() -> Self {
        let settings = ["--appendonly", "yes", "--appendfsync", "no", "--save", "3600 1", "--rdbcompression", "no"];
        Self(redis::Server::with(&settings))
    }

    fn socket(&self) -> PathBuf {
        PathBuf::from(self.0.url().trim_start_matches("unix://"))
    }

    /// Sends a command. Returns the first line of the reply.
    fn run(&self, command: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        writeln!(stream, "{command}\r").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

#[async_trait]
impl Place for RedisPlace {
    async fn open(&self) -> Arc<dyn FullStore> {
        Arc::new(patient::redis().connect(self.0.url()).await.unwrap())
    }

    fn directory(&self) -> PathBuf {
        self.socket().parent().unwrap_or(Path::new("/")).to_owned()
    }

    fn write_all_files(&self) {
        assert_eq!(self.run("SAVE"), "+OK");
    }

    fn an_hour_passes(&self) {
        // The keys of deleted conversations have their ids, and expire after an hour.
        let expire = "for _, key in ipairs(redis.call('KEYS', '*:gone')) do \
                      assert(redis.call('PTTL', key) <= 3600000) redis.call('PEXPIRE', key, 0) end return 1";
        assert_eq!(self.run(&format!("EVAL \"{expire}\" 0")), ":1");
    }
}
