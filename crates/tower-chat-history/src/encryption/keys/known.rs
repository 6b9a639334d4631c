//! The data keys that are in memory.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use quick_cache::sync::Cache;
use tokio::{sync::OnceCell, time::Instant};
use tower_chat_history_core::{ConversationId, Prefix};

use crate::encryption::{
    key::{KeyError, KeyId, Secret},
    queue::Queues,
    vault::DataKey,
};

/// The number of prefixes whose data keys are kept in memory.
const PREFIXES: usize = 10_000;

/// The keys of a prefix, as they were read from the vault.
pub(super) struct Known {
    /// The number of the look-up, from 1.
    number: u64,
    /// The beginning of the lifetime.
    since: Instant,
    pub(super) keys: Vec<KnownKey>,
}

pub(super) struct KnownKey {
    pub(super) stored: DataKey,
    /// The key itself, after its first use. Those who use it first at the same time wait for one of them.
    pub(super) secret: Arc<OnceCell<Secret>>,
}

/// The keys that were used last, by the text form of their prefix.
pub(super) struct KnownKeys {
    known: Cache<Box<str>, Arc<Known>>,
    lifetime: Duration,
    /// The number of look-ups that have begun.
    begun: AtomicU64,
    /// The number of times that keys were forgotten. Keys that were being read then are not kept.
    forgotten: AtomicU64,
    /// The look-ups that run, at most one for each prefix.
    queues: Queues<Box<str>>,
    /// The time at which keys whose lifetime has ended were last removed.
    swept: Mutex<Instant>,
}

impl KnownKeys {
    pub(super) fn new(lifetime: Duration) -> Self {
        Self {
            known: Cache::new(PREFIXES),
            lifetime,
            begun: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            queues: Queues::default(),
            swept: Mutex::new(Instant::now()),
        }
    }

    /// Returns the keys of a prefix. They are read by the future `look_up`, unless they are in memory.
    pub(super) async fn get(
        &self,
        prefix: &str,
        look_up: impl Future<Output = Result<Vec<DataKey>, KeyError>>,
    ) -> Result<Arc<Known>, KeyError> {
        self.sweep();
        match self.in_memory(prefix) {
            Some(known) => Ok(known),
            None => self.look_up(prefix, 0, look_up).await,
        }
    }

    /// Returns the keys of a prefix as they are in the vault now. They are read by the future `look_up`, unless another
    /// look-up has begun since this call.
    pub(super) async fn read(
        &self,
        prefix: &str,
        look_up: impl Future<Output = Result<Vec<DataKey>, KeyError>>,
    ) -> Result<Arc<Known>, KeyError> {
        self.sweep();
        self.look_up(prefix, self.begun.load(Ordering::SeqCst), look_up).await
    }

    /// Forgets the keys of all prefixes under this one, also those that are being read.
    pub(super) fn forget(&self, under: &Prefix) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.known.retain(|text, _| match text.parse::<ConversationId>() {
            Ok(id) => !under.contains(&id),
            // The prefix of all conversations.
            Err(_) => !under.is_all(),
        });
    }

    fn in_memory(&self, prefix: &str) -> Option<Arc<Known>> {
        self.known.get(prefix).filter(|known| self.is_alive(known))
    }

    fn is_alive(&self, known: &Known) -> bool {
        known.since.elapsed() < self.lifetime
    }

    /// Reads the keys of a prefix, unless a look-up with a number above this one has ended in the meantime.
    async fn look_up(
        &self,
        prefix: &str,
        above: u64,
        look_up: impl Future<Output = Result<Vec<DataKey>, KeyError>>,
    ) -> Result<Arc<Known>, KeyError> {
        let _turn = self.queues.enter(&prefix.into()).await;
        if let Some(known) = self.in_memory(prefix).filter(|known| known.number > above) {
            return Ok(known);
        }

        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let began = Instant::now();
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let stored = look_up.await?;

        let known = Arc::new(Known::new(number, began, stored, self.in_memory(prefix).as_deref()));
        if known.keys.is_empty() {
            // The prefix may get a key at any time.
            self.known.remove(prefix);
            return Ok(known);
        }

        self.known.insert(prefix.into(), Arc::clone(&known));
        if self.forgotten.load(Ordering::SeqCst) != forgotten {
            // The keys may have been replaced or destroyed since.
            self.known.remove(prefix);
        }
        Ok(known)
    }

    /// Removes the keys whose lifetime has ended, four times per lifetime.
    fn sweep(&self) {
        // Another call that has the lock sweeps.
        let Ok(mut swept) = self.swept.try_lock() else { return };
        if swept.elapsed() >= self.lifetime / 4 {
            *swept = Instant::now();
            self.known.retain(|_, known| self.is_alive(known));
        }
    }
}

impl Known {
    /// Creates the keys that were read. Those that are in memory in the same wrapped form are not unwrapped again, and
    /// do not live longer by this.
    fn new(number: u64, began: Instant, stored: Vec<DataKey>, earlier: Option<&Self>) -> Self {
        let mut since = began;
        let mut keys = Vec::with_capacity(stored.len());
        for stored in stored {
            let mut secret = Arc::default();
            if let Some(earlier) = earlier
                && let Some(same) = earlier.find(stored.id).filter(|key| key.stored == stored)
            {
                since = since.min(earlier.since);
                secret = Arc::clone(&same.secret);
            }
            keys.push(KnownKey { stored, secret });
        }
        Self { number, since, keys }
    }

    pub(super) fn find(&self, id: KeyId) -> Option<&KnownKey> {
        self.keys.iter().find(|key| key.stored.id == id)
    }
}

/// Forgets keys when it is dropped, also if a call ends before its time.
pub(super) struct ForgetGuard<'a> {
    pub(super) keys: &'a KnownKeys,
    pub(super) under: &'a Prefix,
}

impl Drop for ForgetGuard<'_> {
    fn drop(&mut self) {
        self.keys.forget(self.under);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::encryption::master::WrappedKey;

    const MINUTE: Duration = Duration::from_secs(60);

    fn stored() -> Vec<DataKey> {
        vec![DataKey::new(KeyId::from_bytes([1; 8]), WrappedKey::new("m", vec![1]))]
    }

    async fn none() -> Result<Vec<DataKey>, KeyError> {
        panic!("the vault is read")
    }

    #[tokio::test(start_paused = true)]
    async fn keys_whose_lifetime_has_ended_leave_the_memory_when_others_are_used() {
        let keys = KnownKeys::new(4 * MINUTE);
        keys.get("a", ready(Ok(stored()))).await.unwrap();
        tokio::time::advance(2 * MINUTE).await;
        keys.get("b", ready(Ok(stored()))).await.unwrap();
        tokio::time::advance(2 * MINUTE).await;
        assert_eq!(keys.known.len(), 2);
        keys.get("b", none()).await.unwrap();
        assert_eq!(keys.known.len(), 1, "only the other one is left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_in_the_same_form_is_not_unwrapped_again_and_lives_no_longer() {
        let keys = KnownKeys::new(4 * MINUTE);
        let secret = Secret::from_bytes(&[7; 32]).unwrap();
        keys.get("a", ready(Ok(stored()))).await.unwrap().keys[0].secret.set(secret).unwrap();
        tokio::time::advance(3 * MINUTE).await;
        let again = keys.read("a", ready(Ok(stored()))).await.unwrap();
        assert!(again.keys[0].secret.initialized());
        let mut other = stored();
        other[0].wrapped.bytes = vec![2];
        assert!(!keys.read("a", ready(Ok(other))).await.unwrap().keys[0].secret.initialized());
        keys.forget(&Prefix::all());
        keys.get("a", ready(Ok(stored()))).await.unwrap();
        tokio::time::advance(3 * MINUTE).await;
        keys.read("a", ready(Ok(stored()))).await.unwrap();
        tokio::time::advance(MINUTE).await;
        assert_eq!(keys.get("a", ready(Ok(Vec::new()))).await.unwrap().keys.len(), 0, "the lifetime has ended");
    }

    #[tokio::test]
    async fn the_keys_under_a_prefix_are_forgotten_also_while_they_are_read() {
        let keys = KnownKeys::new(MINUTE);
        for prefix in ["", "acme", "acme/anna", "acme-2/anna"] {
            keys.get(prefix, ready(Ok(stored()))).await.unwrap();
        }
        keys.forget(&"acme".parse().unwrap());
        assert_eq!((keys.known.len(), keys.in_memory("acme-2/anna").is_some()), (2, true));
        keys.forget(&Prefix::all());
        assert!(keys.known.is_empty());
        let read = async {
            keys.forget(&"other".parse().unwrap());
            Ok(stored())
        };
        keys.get("acme", read).await.unwrap();
        assert!(keys.known.is_empty());
    }
}
