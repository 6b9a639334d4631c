//! The data keys of conversations.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use quick_cache::sync::Cache;
use tower_chat_history_core::{ConversationId, Prefix};

use crate::{
    cipher::Cipher,
    fields,
    key::{KeyError, KeyId, Secret},
    master::MasterKeys,
    vault::{DataKey, Vault},
};

/// The number of prefixes whose data keys are kept in memory.
const CACHED_PREFIXES: usize = 10_000;

/// The number of times that a data key is made for a prefix whose keys others destroy at the same time.
const MAX_ATTEMPTS: usize = 3;

/// The purpose of a wrapped key, for its context.
const PURPOSE: &[u8] = b"tower-chat-history data key 1";

/// The data keys of all conversations: one or more for each prefix, such as a person.
///
/// A prefix gets its first data key when its first conversation begins. Each conversation has a key of its own, which
/// is derived from the data key. All clones share one cache.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    master: Arc<dyn MasterKeys>,
    vault: Arc<dyn Vault>,
    parts: usize,
    lifetime: Duration,
    cache: Cache<Box<str>, Arc<Known>>,
    /// The number of changes by this process. Keys that were read before a change are not kept.
    changes: AtomicU64,
}

/// The keys of a prefix, as they were read from the vault.
struct Known {
    read_at: Instant,
    keys: Vec<KnownKey>,
}

struct KnownKey {
    stored: DataKey,
    /// The key itself, after its first use.
    secret: OnceLock<Secret>,
}

impl Keys {
    /// The default of [`with_lifetime`](Self::with_lifetime).
    pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(5 * 60);

    /// Creates the data keys for prefixes of `parts` parts. For ids such as `acme/user-42/support-7`, 2 means a data
    /// key for each user, and 0 means a single data key for everything. An id with fewer parts has a data key of its
    /// own.
    ///
    /// Never change the number for a database that has conversations: they could not be opened any more.
    pub fn new(master: impl MasterKeys, vault: impl Vault, parts: usize) -> Self {
        Self(Arc::new(Inner {
            master: Arc::new(master),
            vault: Arc::new(vault),
            parts,
            lifetime: Self::DEFAULT_LIFETIME,
            cache: Cache::new(CACHED_PREFIXES),
            changes: AtomicU64::new(0),
        }))
    }

    /// Sets the time for which data keys are kept in memory. The default is 5 minutes, for at most 10,000 prefixes.
    /// Until then, a process may still use a key that another process has destroyed, or seal with a key that another
    /// process has replaced. The result has an empty cache of its own.
    #[must_use]
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        let Inner { master, vault, parts, .. } = &*self.0;
        let (master, vault, parts) = (Arc::clone(master), Arc::clone(vault), *parts);
        let (cache, changes) = (Cache::new(CACHED_PREFIXES), AtomicU64::new(0));
        Self(Arc::new(Inner { master, vault, parts, lifetime, cache, changes }))
    }

    /// Returns the prefix whose data keys seal this conversation.
    #[must_use]
    pub fn prefix_of(&self, id: &ConversationId) -> Prefix {
        // A beginning of an id is a prefix.
        self.text_of(id).parse().unwrap_or_else(|_| Prefix::from(id))
    }

    fn text_of<'i>(&self, id: &'i ConversationId) -> &'i str {
        Prefix::containing(id).take(self.0.parts).last().unwrap_or_default()
    }

    /// Adds a data key to a prefix that has one. From now on, this process seals with the new key, and other processes
    /// do within the [lifetime](Self::with_lifetime) of their keys. The old keys still open what they sealed. Returns
    /// `false` if the prefix has no key, or if another call replaced it at the same time.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault or the master keys cannot be used.
    pub async fn rotate(&self, of: &Prefix) -> Result<bool, KeyError> {
        self.check(of)?;
        let Some(current) = self.0.vault.read(of).await?.last().map(|key| key.id) else { return Ok(false) };
        let added = self.add(of, Some(current)).await;
        self.forget(of);
        added
    }

    /// Wraps the data keys of a prefix with the current master key, if another master key wrapped them. Nothing that is
    /// stored in the database changes. Returns the number of keys that were wrapped again.
    ///
    /// After this was done for all prefixes, the old master key is not needed any more, except for old copies of the
    /// vault.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault or the master keys cannot be used. Repeat the call then.
    pub async fn rewrap(&self, of: &Prefix) -> Result<usize, KeyError> {
        self.check(of)?;
        let mut again = 0;
        for stored in self.0.vault.read(of).await? {
            let context = context(of.as_str(), stored.id);
            let secret = self.0.master.unwrap(&stored.wrapped, &context).await?;
            let wrapped = self.0.master.wrap(&secret, &context).await?;
            if wrapped.master != stored.wrapped.master {
                let replaced = self.0.vault.replace(of, &stored, &DataKey::new(stored.id, wrapped)).await?;
                again += usize::from(replaced);
            }
        }
        Ok(again)
    }

    /// Destroys the data keys of a prefix for good: nothing that they sealed can be opened again, also not in backups
    /// of the database. Returns `false` if there was no key.
    ///
    /// The prefix must have exactly the number of parts that [`new`](Self::new) was given. First
    /// [erase](tower_chat_history_core::EraseExt::erase_all) its conversations. Otherwise they stay in the store, and
    /// cannot be read.
    ///
    /// Other processes may use the keys until their [lifetime](Self::with_lifetime) ends. Items that they store in this
    /// time cannot be opened afterwards.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be written. Repeat the call then.
    pub async fn destroy(&self, of: &Prefix) -> Result<bool, KeyError> {
        self.check(of)?;
        let destroyed = self.0.vault.destroy(of).await;
        self.forget(of);
        destroyed
    }

    /// Returns the cipher that seals the items of a conversation. Makes a data key if its prefix has none.
    pub(crate) async fn current(&self, id: &ConversationId) -> Result<Cipher, KeyError> {
        let prefix = self.text_of(id);
        let mut known = self.known(prefix, id).await?;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(key) = known.keys.last() {
                return self.cipher(prefix, key, id).await;
            }
            // If another call has added a key, that one is used.
            self.add(&self.prefix_of(id), None).await?;
            known = self.read(prefix, id).await?;
        }
        Err(KeyError::unavailable(Contended))
    }

    /// Returns the cipher that opens what was sealed under this data key.
    pub(crate) async fn named(&self, id: &ConversationId, key: KeyId) -> Result<Cipher, KeyError> {
        let prefix = self.text_of(id);
        let mut known = self.known(prefix, id).await?;
        if known.find(key).is_none() {
            // Another process may have added it since.
            known = self.read(prefix, id).await?;
        }
        let found = known.find(key).ok_or(KeyError::Missing { key })?;
        self.cipher(prefix, found, id).await
    }

    /// Returns the newest data key of a conversation's prefix and the older ones, as they are in the vault now. Returns
    /// `None` if there is none.
    pub(crate) async fn newest(&self, id: &ConversationId) -> Result<Option<(Cipher, Vec<KeyId>)>, KeyError> {
        let prefix = self.text_of(id);
        let known = self.read(prefix, id).await?;
        let Some((newest, older)) = known.keys.split_last() else { return Ok(None) };
        let older = older.iter().map(|key| key.stored.id).collect();
        Ok(Some((self.cipher(prefix, newest, id).await?, older)))
    }

    /// Checks that a prefix can have data keys.
    fn check(&self, of: &Prefix) -> Result<(), KeyError> {
        let (parts, keyed) = (of.as_id().map_or(0, |id| id.parts().count()), self.0.parts);
        if parts > keyed {
            return Err(KeyError::Prefix { parts, keyed });
        }
        Ok(())
    }

    /// Forgets the keys of a prefix, also those that are being read.
    fn forget(&self, of: &Prefix) {
        self.0.changes.fetch_add(1, Ordering::SeqCst);
        self.0.cache.remove(of.as_str());
    }

    /// Returns the keys of a prefix from the cache, or reads them.
    async fn known(&self, prefix: &str, id: &ConversationId) -> Result<Arc<Known>, KeyError> {
        match self.0.cache.get(prefix).filter(|known| known.read_at.elapsed() < self.0.lifetime) {
            Some(known) => Ok(known),
            None => self.read(prefix, id).await,
        }
    }

    async fn read(&self, prefix: &str, id: &ConversationId) -> Result<Arc<Known>, KeyError> {
        let (read_at, changes) = (Instant::now(), self.0.changes.load(Ordering::SeqCst));
        let stored = self.0.vault.read(&self.prefix_of(id)).await?;
        let keys = stored.into_iter().map(|stored| KnownKey { stored, secret: OnceLock::new() }).collect();
        let known = Arc::new(Known { read_at, keys });
        self.0.cache.insert(prefix.into(), Arc::clone(&known));
        if self.0.changes.load(Ordering::SeqCst) != changes {
            // The keys may have been replaced or destroyed since.
            self.0.cache.remove(prefix);
        }
        Ok(known)
    }

    async fn cipher(&self, prefix: &str, key: &KnownKey, id: &ConversationId) -> Result<Cipher, KeyError> {
        let DataKey { id: key_id, wrapped } = &key.stored;
        if let Some(secret) = key.secret.get() {
            return Cipher::new(*key_id, secret, id);
        }
        let secret = self.0.master.unwrap(wrapped, &context(prefix, *key_id)).await?;
        Cipher::new(*key_id, key.secret.get_or_init(|| secret), id)
    }

    /// Makes a data key and adds it, if the current one has this id.
    async fn add(&self, of: &Prefix, current: Option<KeyId>) -> Result<bool, KeyError> {
        let (id, secret) = (KeyId::random()?, Secret::random()?);
        let wrapped = self.0.master.wrap(&secret, &context(of.as_str(), id)).await?;
        self.0.vault.add_if(of, current, &DataKey::new(id, wrapped)).await
    }
}

impl Known {
    fn find(&self, id: KeyId) -> Option<&KnownKey> {
        self.keys.iter().find(|key| key.stored.id == id)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { master, vault, parts, .. } = &*self.0;
        let mut out = f.debug_struct("Keys");
        out.field("master", master).field("vault", vault).field("parts", parts).finish_non_exhaustive()
    }
}

/// Returns what a wrapped key is bound to: its prefix and its id.
fn context(prefix: &str, id: KeyId) -> Vec<u8> {
    let mut context = Vec::new();
    for field in [PURPOSE, prefix.as_bytes(), id.as_bytes()] {
        fields::push(&mut context, field);
    }
    context
}

#[derive(Debug, thiserror::Error)]
#[error("the data keys of the prefix were destroyed while one was made")]
struct Contended;
