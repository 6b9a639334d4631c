//! The stores, each with two handles, as if two processes had opened it.

use std::sync::{Arc, OnceLock};

use tempfile::TempDir;
use test_servers::{cluster::Cluster, postgres, redis};
use tokio::sync::OnceCell;
use tower_chat_history::{
    CachedStore, MemoryStore,
    store::{Erase, Prune, Truncate},
};

use crate::patient;

/// A store that supports all operations.
pub(super) trait FullStore: Truncate + Prune + Erase {}
impl<S: Truncate + Prune + Erase> FullStore for S {}

/// A store under test.
pub(super) struct Opened {
    pub(super) name: &'static str,
    pub(super) handles: [Arc<dyn FullStore>; 2],
    /// The memory store, if it is one. It reports the space that it uses.
    pub(super) memory: Option<MemoryStore>,
    _place: Option<TempDir>,
}

impl Opened {
    fn of(name: &'static str, handles: [Arc<dyn FullStore>; 2]) -> Self {
        Self { name, handles, memory: None, _place: None }
    }

    pub(super) async fn local(number: u64) -> Self {
        match number % 4 {
            0 => {
                let place = tempfile::tempdir().unwrap();
                let path = place.path().join("chat.db");
                let open = async || Arc::new(patient::sqlite().open(&path).await.unwrap()) as Arc<dyn FullStore>;
                Self { _place: Some(place), ..Self::of("sqlite", [open().await, open().await]) }
            }
            1 => {
                let store = MemoryStore::new();
                let open = || Arc::new(CachedStore::new(store.clone())) as Arc<dyn FullStore>;
                Self::of("cached", [open(), open()])
            }
            _ => {
                let store = MemoryStore::new();
                let open = || Arc::new(store.clone()) as Arc<dyn FullStore>;
                Self { memory: Some(store.clone()), ..Self::of("memory", [open(), open()]) }
            }
        }
    }

    /// Opens a store on a server. Returns `None` if that server is not installed.
    pub(super) async fn remote(number: u64) -> Option<Self> {
        match number % 3 {
            0 if postgres::is_available() => {
                static URL: OnceCell<String> = OnceCell::const_new();
                let url = URL.get_or_init(|| async { postgres::shared().database().await }).await;
                let open = async || {
                    let options = patient::postgres().schema("random").connections(2);
                    Arc::new(options.connect(url).await.unwrap()) as Arc<dyn FullStore>
                };
                Some(Self::of("postgres", [open().await, open().await]))
            }
            1 if redis::is_available() => {
                static SERVER: OnceLock<redis::Server> = OnceLock::new();
                let url = SERVER.get_or_init(redis::Server::start).url();
                let open = async || {
                    Arc::new(patient::redis().prefix("random").connect(&url).await.unwrap()) as Arc<dyn FullStore>
                };
                Some(Self::of("redis", [open().await, open().await]))
            }
            2 if redis::is_available() => {
                static CLUSTER: OnceLock<Cluster> = OnceLock::new();
                let urls = CLUSTER.get_or_init(Cluster::start).urls();
                let open = async || {
                    Arc::new(patient::redis().prefix("random").connect_cluster(&urls).await.unwrap())
                        as Arc<dyn FullStore>
                };
                Some(Self::of("redis cluster", [open().await, open().await]))
            }
            _ => None,
        }
    }
}
