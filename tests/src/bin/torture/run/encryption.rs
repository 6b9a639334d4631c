//! The keys of an encrypted run, which are replaced again and again while the workers use them.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tempfile::TempDir;
use tokio::{runtime::Runtime, time::interval};
use tower_chat_history::{BoxError, encryption::KeyError, store::Prefix};

use crate::{exchange::conversation_id, people::Person, store};

/// The time between two rotations.
const PAUSE: Duration = Duration::from_millis(20);

/// The numbers of chats, of workers, and of their people whose keys are replaced. The keys of others stay.
const CHATS: u32 = 4;
const WORKERS: u32 = 4;
const PEOPLE: u32 = 4;

pub(super) struct Encryption {
    vault: TempDir,
    rotations: Arc<AtomicU64>,
    has_ended: Arc<AtomicBool>,
}

impl Encryption {
    /// Creates a vault, and begins to replace the keys of people.
    pub(super) fn start(runtime: &Runtime) -> Self {
        let vault = tempfile::tempdir().unwrap();
        let (rotations, has_ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let rotating = rotate(vault.path().to_owned(), Arc::clone(&rotations), Arc::clone(&has_ended));
        runtime.spawn(async { rotating.await.unwrap() });
        Self { vault, rotations, has_ended }
    }

    /// Returns the URL of the encrypted store.
    pub(super) fn url(&self, url: &str) -> String {
        store::encrypted(self.vault.path(), url)
    }

    /// Ends the rotations. Returns their number.
    pub(super) fn stop(&self) -> u64 {
        self.has_ended.store(true, Relaxed);
        self.rotations.load(Relaxed)
    }
}

async fn rotate(
    vault: impl AsRef<Path> + Send,
    rotations: Arc<AtomicU64>,
    has_ended: Arc<AtomicBool>,
) -> Result<(), BoxError> {
    let (keys, mut pause) = (store::keys(vault.as_ref())?, interval(PAUSE));
    for number in 0.. {
        pause.tick().await;
        if has_ended.load(Relaxed) {
            break;
        }
        let person = Person { worker: number % WORKERS, number: number / WORKERS % PEOPLE };
        let chat = Prefix::from(&conversation_id(number % CHATS)?);
        for of in [person.prefix()?, chat] {
            match keys.rotate(&of).await {
                Ok(is_rotated) => rotations.fetch_add(u64::from(is_rotated), Relaxed),
                // An id with fewer parts than others have has no key before its conversation begins.
                Err(KeyError::Prefix { .. }) => continue,
                // A stalled worker can hold the lock for long.
                Err(error) if error.is_retryable() => continue,
                Err(error) => return Err(error.into()),
            };
        }
    }
    Ok(())
}
