//! The data keys of conversations.

mod known;
mod rewrap;

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_core::{ConversationId, Prefix};

use self::known::{Forgets, Known, KnownKey, KnownKeys};
pub use self::rewrap::{RewrapError, RewrapRun};
use crate::encryption::{
    cipher::Cipher,
    fields,
    key::{KeyError, KeyId, Secret},
    master::MasterKeys,
    vault::{DataKey, EntryId, Vault},
};

/// The number of times that a data key is made for a prefix whose keys others destroy at the same time.
const MAX_ATTEMPTS: usize = 3;

/// The purpose of a wrapped key, for its context.
const PURPOSE: &[u8] = b"tower-chat-history data key 1";

/// The data keys of all conversations: one or more for each prefix, such as a person.
///
/// A prefix gets its first data key when its first conversation begins. Each conversation has a key of its own, which
/// is derived from the data key.
///
/// Data keys are kept in memory for a [while](Self::with_lifetime). All clones share them. At the same time, at most one
/// call reads the keys of a prefix from the vault, and at most one unwraps a key. The others wait for it.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    master: Arc<dyn MasterKeys>,
    vault: Arc<dyn Vault>,
    parts: usize,
    known: KnownKeys,
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
        let known = KnownKeys::new(Self::DEFAULT_LIFETIME);
        Self(Arc::new(Inner { master: Arc::new(master), vault: Arc::new(vault), parts, known }))
    }

    /// Sets the time for which data keys in memory are used. The default is 5 minutes, for at most 10,000 prefixes.
    /// Until then, a process may still use a key that another process has destroyed, or seal with a key that another
    /// process has replaced. The result has no keys in memory at first.
    ///
    /// After that, a key is removed from memory within a quarter of this time if any keys are used. A process that uses
    /// no keys any more calls [`forget`](Self::forget).
    #[must_use]
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        let Inner { master, vault, parts, .. } = &*self.0;
        let (master, vault, parts) = (Arc::clone(master), Arc::clone(vault), *parts);
        Self(Arc::new(Inner { master, vault, parts, known: KnownKeys::new(lifetime) }))
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

    /// Removes the data keys of all prefixes under this one from memory. Calls that are running may still use them. The
    /// vault does not change, and later calls read it again.
    pub fn forget(&self, under: &Prefix) {
        self.0.known.forget(under);
    }

    /// Adds a data key to a prefix that has one. From now on, this process seals with the new key, and other processes
    /// do within the [lifetime](Self::with_lifetime) of their keys. The old keys still open what they sealed. Returns
    /// `false` if the prefix has no key, or if another call replaced it at the same time.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault or the master keys cannot be used, or if there is no key and no conversation could
    /// have one under [such a prefix](KeyError::Prefix).
    pub async fn rotate(&self, of: &Prefix) -> Result<bool, KeyError> {
        let _forgets = Forgets { keys: &self.0.known, under: of };
        match self.0.vault.read(&EntryId::of(of)).await?.last().map(|key| key.id) {
            Some(current) => self.add(&EntryId::of(of), Some(current)).await,
            None => self.check(of).map(|()| false),
        }
    }

    /// Destroys the data keys of a prefix for good: nothing that they sealed can be opened again, also not in backups
    /// of the database. Returns `false` if there was no key.
    ///
    /// First [erase](tower_chat_history_core::EraseExt::erase_all) its conversations. Otherwise they stay in the store,
    /// and cannot be read.
    ///
    /// Other processes may use the keys until their [lifetime](Self::with_lifetime) ends. Items that they store in this
    /// time cannot be opened afterwards.
    ///
    /// The first turn of a conversation that is in flight may make a new key. If the conversations were erased before,
    /// the store refuses that turn. See [the guide](crate::encryption::guide::keys#destroy-a-persons-keys).
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be written. Repeat the call then, and also if its future was dropped: the
    /// vault may destroy the keys later, and until then, this process may read them again.
    ///
    /// The error is [`Prefix`](KeyError::Prefix) if the prefix has no key and another number of parts than
    /// [`new`](Self::new) was given: the keys of all users of a tenant must be destroyed one by one. Only a conversation
    /// whose id has fewer parts has a key of such a prefix.
    pub async fn destroy(&self, of: &Prefix) -> Result<bool, KeyError> {
        let _forgets = Forgets { keys: &self.0.known, under: of };
        let destroyed = self.0.vault.destroy(&EntryId::of(of)).await?;
        if !destroyed {
            self.check(of)?;
        }
        Ok(destroyed)
    }

    /// Returns the cipher that seals the items of a conversation. Makes a data key if its prefix has none.
    pub(crate) async fn current_or_new(&self, id: &ConversationId) -> Result<Cipher, KeyError> {
        for attempt in 0..=MAX_ATTEMPTS {
            if let Some(cipher) = self.current(id).await? {
                return Ok(cipher);
            }
            if attempt < MAX_ATTEMPTS {
                // If another call has added a key, that one is used.
                self.add(&EntryId::of_text(self.text_of(id)), None).await?;
            }
        }
        Err(KeyError::unavailable(Contended))
    }

    /// Returns the cipher that seals the items of a conversation, or `None` if its prefix has no data key.
    pub(crate) async fn current(&self, id: &ConversationId) -> Result<Option<Cipher>, KeyError> {
        let known = self.known(id).await?;
        match known.keys.last() {
            Some(key) => self.cipher(key, id).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the cipher that opens what was sealed under this data key.
    pub(crate) async fn named(&self, id: &ConversationId, key: KeyId) -> Result<Cipher, KeyError> {
        let mut known = self.known(id).await?;
        if known.find(key).is_none() {
            // Another process may have added it since.
            known = self.read(id).await?;
        }
        let found = known.find(key).ok_or(KeyError::Missing { key })?;
        self.cipher(found, id).await
    }

    /// Checks that a prefix has the number of parts of those that have data keys.
    fn check(&self, of: &Prefix) -> Result<(), KeyError> {
        let (parts, keyed) = (of.as_id().map_or(0, |id| id.parts().count()), self.0.parts);
        if parts == keyed { Ok(()) } else { Err(KeyError::Prefix { parts, keyed }) }
    }

    /// Returns the keys of a conversation's prefix from memory, or reads them.
    async fn known(&self, id: &ConversationId) -> Result<Arc<Known>, KeyError> {
        let prefix = self.text_of(id);
        self.0.known.get(prefix, self.look_up(prefix)).await
    }

    /// Returns the keys of a conversation's prefix as they are in the vault now.
    async fn read(&self, id: &ConversationId) -> Result<Arc<Known>, KeyError> {
        let prefix = self.text_of(id);
        self.0.known.read(prefix, self.look_up(prefix)).await
    }

    async fn look_up(&self, prefix: &str) -> Result<Vec<DataKey>, KeyError> {
        self.0.vault.read(&EntryId::of_text(prefix)).await
    }

    async fn cipher(&self, key: &KnownKey, id: &ConversationId) -> Result<Cipher, KeyError> {
        let DataKey { id: key_id, wrapped } = &key.stored;
        let unwrap = || async {
            let context = context(&EntryId::of_text(self.text_of(id)), *key_id);
            self.0.master.unwrap(wrapped, &context).await
        };
        Cipher::new(*key_id, key.secret.get_or_try_init(unwrap).await?, id)
    }

    /// Makes a data key and adds it, if the current one has this id.
    async fn add(&self, of: &EntryId, current: Option<KeyId>) -> Result<bool, KeyError> {
        let (id, secret) = (KeyId::random()?, Secret::random()?);
        let wrapped = self.0.master.wrap(&secret, &context(of, id)).await?;
        self.0.vault.add_if(of, current, &DataKey::new(id, wrapped)).await
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { master, vault, parts, .. } = &*self.0;
        let mut out = f.debug_struct("Keys");
        out.field("master", master).field("vault", vault).field("parts", parts).finish_non_exhaustive()
    }
}

/// Returns what a wrapped key is bound to: its entry and its id.
fn context(of: &EntryId, id: KeyId) -> Vec<u8> {
    let mut context = Vec::new();
    for field in [PURPOSE, of.as_bytes(), id.as_bytes()] {
        fields::push(&mut context, field);
    }
    context
}

#[derive(Debug, thiserror::Error)]
#[error("the data keys of the prefix were destroyed while one was made")]
struct Contended;
