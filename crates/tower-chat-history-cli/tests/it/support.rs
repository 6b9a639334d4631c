//! A database and the program.

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;
use tower_chat_history_core::{
    Append, Exchange, ExchangeId, Expect, HistoryStore as _, Labels, List as _, Message, Timestamp,
};
use tower_chat_history_sqlite::SqliteStore;

/// A folder with a database.
pub(crate) struct Place {
    folder: TempDir,
}

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).unwrap()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Place {
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Creates a database with conversations of three users.
    pub(crate) fn filled() -> Self {
        let place = Self::empty();
        for (id, exchanges) in [("acme/user-1/a", 3), ("acme/user-1/b", 1), ("acme/user-10", 2), ("other/user-1", 1)] {
            for number in 0..exchanges {
                let messages = [
                    Message::user(format!("question {number} of {id}")),
                    Message::assistant(format!("answer {number}")),
                ];
                place.append(id, &format!("{id}-{number}"), 1_735_689_600_000 + number * 1_000, messages);
            }
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Does this with the store in `chat.db`.
    pub(crate) fn with_store<T>(&self, work: impl AsyncFnOnce(&SqliteStore) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(self.path("chat.db")).await.unwrap();
            let result = work(&store).await;
            store.close().await.unwrap();
            result
        })
    }

    pub(crate) fn append(&self, id: &str, exchange: &str, at: u64, messages: impl IntoIterator<Item = Message>) {
        let mut exchange = Exchange::new(ExchangeId::new(exchange).unwrap(), messages);
        exchange.at = Timestamp::from_unix_millis(at);
        let append = Append::new(Expect::AnyOrCreate, exchange);
        self.with_store(async |store| store.append(&id.parse().unwrap(), append).await.unwrap());
    }

    pub(crate) fn label(&self, id: &str, name: &str, value: &str) {
        self.set_labels(id, Labels::new([(name, value)]).unwrap());
    }

    pub(crate) fn set_labels(&self, id: &str, labels: Labels) {
        let id = id.parse().unwrap();
        self.with_store(async |store| {
            let listed = store.describe(&id).await.unwrap().unwrap();
            store.set_labels(&id, listed.revision.incarnation(), listed.labels_version, labels).await.unwrap();
        });
    }

    /// Returns a command of the program for a database in the folder.
    pub(crate) fn command(&self, database: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chat-history"));
        command.env("CHAT_HISTORY_STORE", format!("sqlite:{}", self.path(database).display()));
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        command
    }

    /// Runs the program for `chat.db`.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.command("chat.db", args).output().unwrap().into()
    }

    /// Runs the program with this standard input.
    pub(crate) fn run_with(&self, database: &str, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(database, args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output.into()
    }
}
