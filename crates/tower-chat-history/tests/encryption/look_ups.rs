//! The number of calls of the vault and of the master keys.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::{sync::Barrier, task::yield_now};
use tower_chat_history::{
    MemoryStore,
    encryption::{EncryptedStore, KeyError, KeyRing, Keys, MasterKeys, MemoryVault, Secret, WrappedKey},
};
use tower_chat_history_core::{HistoryStoreExt as _, Labels, LabelsVersion, List as _, Prefix};

use crate::support::{append, id, ring, turn};

/// A service of master keys that counts its calls, and lets others run during them.
#[derive(Clone, Debug)]
struct Counted {
    ring: KeyRing,
    unwrapped: Arc<AtomicUsize>,
    /// Each call waits until so many run.
    together: Option<Arc<Barrier>>,
}

impl Counted {
    fn new() -> Self {
        Self { ring: ring("m", 1), unwrapped: Arc::default(), together: None }
    }

    fn store(&self, inner: &MemoryStore, vault: &MemoryVault) -> EncryptedStore<MemoryStore> {
        EncryptedStore::new(inner.clone(), Keys::new(self.clone(), vault.clone(), 2))
    }

    fn take(&self) -> usize {
        self.unwrapped.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl MasterKeys for Counted {
    async fn wrap(&self, key: &Secret, context: &[u8]) -> Result<WrappedKey, KeyError> {
        self.ring.wrap(key, context).await
    }

    async fn unwrap(&self, wrapped: &WrappedKey, context: &[u8]) -> Result<Secret, KeyError> {
        self.unwrapped.fetch_add(1, Ordering::Relaxed);
        match &self.together {
            Some(together) => {
                together.wait().await;
            }
            None => yield_now().await,
        }
        self.ring.unwrap(wrapped, context).await
    }
}

#[tokio::test]
async fn calls_that_need_one_key_at_the_same_time_unwrap_it_once() {
    let (master, inner, vault) = (Counted::new(), MemoryStore::new(), MemoryVault::new());
    let ids: Vec<_> = (0..32).map(|n| id(&format!("acme/anna/{n}"))).collect();
    for id in &ids {
        append(&master.store(&inner, &vault), id, turn("a")).await;
    }
    master.take();
    let store = master.store(&inner, &vault);
    let reads = ids.iter().map(|id| async { store.conversation(id).messages().await.unwrap().len() });
    assert!(join_all(reads).await.into_iter().all(|messages| messages == 2));
    assert_eq!(master.take(), 1);
}

#[tokio::test]
async fn the_labels_of_a_page_are_opened_side_by_side() {
    let (mut master, inner, vault) = (Counted::new(), MemoryStore::new(), MemoryVault::new());
    for user in 0..16 {
        let (store, id) = (master.store(&inner, &vault), id(&format!("acme/{user}/1")));
        let incarnation = append(&store, &id, turn("a")).await.revision.incarnation();
        let labels = Labels::new([("title", "title")]).unwrap();
        store.set_labels(&id, incarnation, LabelsVersion::NONE, labels).await.unwrap();
    }
    master.take();
    // One after the other, the calls would wait forever.
    master.together = Some(Arc::new(Barrier::new(16)));
    let page = master.store(&inner, &vault).list(&Prefix::all(), None, 100).await.unwrap();
    assert!(page.conversations.iter().all(|listed| listed.labels.get("title") == Some("title")));
    assert_eq!((page.len(), master.take()), (16, 16));
}
