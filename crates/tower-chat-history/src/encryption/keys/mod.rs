//! The data keys of conversations.
//!
//! # Decisions
//!
//! - **Only an append that may create a conversation makes a key**, so a call in flight makes none for a person whose
//!   keys were destroyed. A first turn can make one; the store then refuses the turn, and a second destruction removes
//!   the key.
//! - **Data keys are replaced by export and import**: it's rare, and every store would need a call for it.

mod known;

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_core::{ConversationId, Prefix};

use self::known::{ForgetGuard, Known, KnownKey, KnownKeys};
use crate::encryption::{
    cipher::Cipher,
    item::push_field,
    key::{KeyError, KeyId, Secret},
    master::MasterKeys,
    vault::{DataKey, EntryId, Vault},
};

/// The number of times that a data key is made for a prefix whose keys others destroy at the same time.
const MAX_ATTEMPTS: usize = 3;

/// The largest number of entries that are listed per call of the vault.
const PAGE: usize = 10_000;

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
        Self(Arc::new(Inner {
            master: Arc::clone(&self.0.master),
            vault: Arc::clone(&self.0.vault),
            parts: self.0.parts,
            known: KnownKeys::new(lifetime),
        }))
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
        let _guard = ForgetGuard { keys: &self.0.known, under: of };
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
        let _guard = ForgetGuard { keys: &self.0.known, under: of };
        let destroyed = self.0.vault.destroy(&EntryId::of(of)).await?;
        if !destroyed {
            self.check(of)?;
        }
        Ok(destroyed)
    }

    /// Wraps all data keys of the vault with the current master key, if another master key wrapped them. Nothing that
    /// is stored in the database changes.
    ///
    /// It learns the name of the current master key from the first key that it wraps. It skips the keys that this
    /// master key wrapped, and does not check that they can be unwrapped. For each other key, it calls the master keys
    /// twice.
    ///
    /// When no entry has [failed](RewrapRun::failed), and the [lifetime](Self::with_lifetime) of the keys in all
    /// processes has passed, the old master key is not needed any more, except for old copies of the vault. An entry
    /// that others add in the meantime is wrapped with the current master key of their process.
    ///
    /// # Errors
    ///
    /// Returns an error if the vault cannot be listed, or if it or the master keys are not
    /// [available](KeyError::Unavailable). [`RewrapError::run`] says what was done before. Repeat the call then: it
    /// begins again, and skips what was done.
    pub async fn rewrap_all(&self) -> Result<RewrapRun, RewrapError> {
        let all = Prefix::all();
        // Keys in memory have the old wrapped form.
        let _guard = ForgetGuard { keys: &self.0.known, under: &all };
        let mut run = RewrapRun::default();
        match self.rewrap_entries(&mut run).await {
            Ok(()) => Ok(run),
            Err(source) => Err(RewrapError { run: Box::new(run), source }),
        }
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
        Err(KeyError::unavailable(Contention))
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
        let parts = of.as_id().map_or(0, |id| id.parts().count());
        let keyed = self.0.parts;
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
        let secret = key.secret.get_or_try_init(|| self.unwrap(&key.stored, id)).await?;
        Cipher::new(key.stored.id, secret, id)
    }

    async fn unwrap(&self, key: &DataKey, id: &ConversationId) -> Result<Secret, KeyError> {
        let context = context(&EntryId::of_text(self.text_of(id)), key.id);
        self.0.master.unwrap(&key.wrapped, &context).await
    }

    /// Makes a data key and adds it, if the current one has this id.
    async fn add(&self, of: &EntryId, current: Option<KeyId>) -> Result<bool, KeyError> {
        let id = KeyId::random()?;
        let secret = Secret::random()?;
        let wrapped = self.0.master.wrap(&secret, &context(of, id)).await?;
        self.0.vault.add_if(of, current, &DataKey::new(id, wrapped)).await
    }

    async fn rewrap_entries(&self, run: &mut RewrapRun) -> Result<(), KeyError> {
        let mut current = None;
        let mut after = None;
        loop {
            let page = self.0.vault.list(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(*last);

            for entry in &page {
                match self.rewrap(entry, &mut current, &mut run.keys).await {
                    Ok(()) => {}
                    Err(error @ KeyError::Unavailable { .. }) => return Err(error),
                    Err(error) => {
                        run.failed += 1;
                        run.first_failure.get_or_insert((*entry, error));
                    }
                }
                run.entries += 1;
            }
        }
    }

    /// Wraps the keys of an entry again, and counts them. `current` is the name of the current master key, if it is
    /// known.
    async fn rewrap(&self, of: &EntryId, current: &mut Option<String>, keys: &mut u64) -> Result<(), KeyError> {
        for stored in self.0.vault.read(of).await? {
            if current.as_ref() == Some(&stored.wrapped.master) {
                continue;
            }

            let context = context(of, stored.id);
            let secret = self.0.master.unwrap(&stored.wrapped, &context).await?;
            let wrapped = self.0.master.wrap(&secret, &context).await?;
            *current = Some(wrapped.master.clone());
            if wrapped.master != stored.wrapped.master {
                let replaced = self.0.vault.replace(of, &stored, &DataKey::new(stored.id, wrapped)).await?;
                *keys += u64::from(replaced);
            }
        }
        Ok(())
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
        push_field(&mut context, field);
    }
    context
}

/// The numbers of one call of [`Keys::rewrap_all`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RewrapRun {
    /// The number of entries that the call looked at.
    pub entries: u64,
    /// The number of keys that were wrapped again.
    pub keys: u64,
    /// The number of entries that are damaged, or that have a key that must be wrapped again and cannot be unwrapped.
    pub failed: u64,
    /// The first of them.
    pub first_failure: Option<(EntryId, KeyError)>,
}

/// The error for a call of [`Keys::rewrap_all`] that stopped.
#[derive(Debug, thiserror::Error)]
#[error("the call stopped after {} entries, and not all data keys were wrapped again: {source}", run.entries)]
#[non_exhaustive]
pub struct RewrapError {
    /// The numbers so far.
    pub run: Box<RewrapRun>,
    /// The cause.
    pub source: KeyError,
}

#[derive(Debug, thiserror::Error)]
#[error("the data keys of the prefix were destroyed while one was made")]
struct Contention;
