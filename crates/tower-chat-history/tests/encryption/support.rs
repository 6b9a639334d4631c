//! Support for the tests of the encrypted store.

use std::{path::PathBuf, time::Duration};

use tempfile::TempDir;
use tower_chat_history::{
    MemoryStore,
    encryption::{EncryptedStore, KeyRing, Keys, MemoryVault, Secret},
};
use tower_chat_history_core::{
    Append, Appended, ConversationId, Exchange, ExchangeId, Expect, HistoryStore, Labels, LabelsVersion, List, Message,
    Seq, StoreError,
};
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore};

/// Returns a ring with one master key, whose bytes are all the same.
pub(crate) fn ring(name: &str, byte: u8) -> KeyRing {
    KeyRing::new(name, Secret::from_bytes(&[byte; 32]).unwrap())
}

/// Returns the keys of a vault, for prefixes of two parts.
pub(crate) fn keys(vault: &MemoryVault) -> Keys {
    Keys::new(ring("2026", 1), vault.clone(), 2)
}

/// An encrypted store in memory.
pub(crate) fn in_memory() -> EncryptedStore<MemoryStore> {
    EncryptedStore::new(MemoryStore::new(), keys(&MemoryVault::new()))
}

/// A temporary database, and a vault for its keys.
pub(crate) struct TestDatabase {
    directory: TempDir,
    vault: MemoryVault,
}

impl TestDatabase {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), vault: MemoryVault::new() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("chat.db")
    }

    /// Opens the store as another process would: with a connection and a cache of its own.
    pub(crate) async fn open(&self) -> EncryptedStore<SqliteStore> {
        // A busy machine may stall the holder of a lock for longer than the default timeout.
        let options = SqliteOptions::new().busy_timeout(Duration::from_secs(120));
        EncryptedStore::new(options.open(self.path()).await.unwrap(), keys(&self.vault))
    }

    /// Copies the files of the database, which must be closed. The copy has the same vault.
    pub(crate) fn back_up(&self) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for file in self.directory.path().read_dir().unwrap().map(|file| file.unwrap()) {
            std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
        }
        Self { directory, vault: self.vault.clone() }
    }

    /// Returns the bytes of all files of the database.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let files = self.directory.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
        files.flat_map(|path| std::fs::read(path).unwrap()).collect()
    }
}

pub(crate) fn id(text: &str) -> ConversationId {
    text.parse().unwrap()
}

/// Returns a turn of a question and an answer.
pub(crate) fn turn(text: &str) -> Exchange {
    let messages = [Message::user(text), Message::assistant(format!("re: {text}"))];
    Exchange::new(ExchangeId::generate(), messages)
}

pub(crate) async fn append<S: HistoryStore>(store: &S, id: &ConversationId, exchange: Exchange) -> Appended {
    store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap()
}

/// Begins a conversation with this title. Returns the result of its append.
pub(crate) async fn label<S: List>(store: &S, id: &ConversationId, title: &str) -> Appended {
    let appended = append(store, id, turn("a")).await;
    let labels = Labels::new([("title", title)]).unwrap();
    store.set_labels(id, appended.revision.incarnation(), LabelsVersion::NONE, labels).await.unwrap();
    appended
}

/// Reads the exchange at a position.
pub(crate) async fn read_at<S: HistoryStore>(store: &S, id: &ConversationId, seq: Seq) -> Result<Exchange, StoreError> {
    let page = store.read(id, seq, 1).await?;
    Ok((*page.exchanges[0].exchange).clone())
}
