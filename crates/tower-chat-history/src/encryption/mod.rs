//! Encryption at rest around any store (feature `encryption`).
//!
//! An [`EncryptedStore`] wraps any store. It seals messages, replies, recalled messages, provenances, summaries
//! and labels before the store gets them, and opens them when they are read. Each person, or each other prefix of ids,
//! has a data key of its own. If it is destroyed, nothing of this person can be read any more, also not in backups of
//! the database.
//!
//! # Example
//!
//! ```
//! use tower_chat_history::{ConversationId, HistoryStoreExt, MemoryStore, Message};
//! use tower_chat_history::encryption::{DirectoryVault, EncryptedStore, KeyRing, Keys};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let vault_directory = directory.path();
//! # let lines = "2026-11 c2l4dGVlbiBieXRlcyBhbmQgc2l4dGVlbiBtb3JlISE=";
//! // In a service: `KeyRing::from_env("CHAT_HISTORY_KEYS")`, `KeyRing::from_file(..)` or a `KeyService`.
//! let master = KeyRing::parse(lines)?;
//! let vault = DirectoryVault::open(vault_directory)?;
//! // The ids are `tenant/user/conversation`, so two parts name a person.
//! let store = EncryptedStore::new(MemoryStore::new(), Keys::new(master, vault, 2));
//!
//! let id = ConversationId::new(["acme", "user-42", "support-7"])?;
//! store.conversation(&id).import([Message::user("Hi!"), Message::assistant("Hello!")]).await?;
//! assert_eq!(store.conversation(&id).messages().await?.len(), 2);
//! // Without the wrapper, it is an error.
//! assert!(store.inner().conversation(&id).messages().await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! In a service, pass the wrapper to the [layer](crate::ChatHistoryLayer). Put caches around it, not into it:
//! `CachedStore::new(EncryptedStore::new(..))` opens each item once. The wrapper works with every async runtime.
//!
//! # Pages
//!
//! | page | contents |
//! |---|---|
//! | [protection](guide::protection) | the sealed and the visible parts, the changes that are noticed and those that are not |
//! | [keys](guide::keys) | master keys, the vault, rotation, destruction of a person's keys |

mod cipher;
mod fork;
mod item;
mod key;
mod keys;
mod master;
mod queue;
mod sealing;
mod store;
mod vault;

pub use self::{
    item::{Item, OpenError},
    key::{KeyError, KeyId, Secret},
    keys::{Keys, RewrapError, RewrapRun},
    master::{KeyRing, KeyService, MasterKeys, WrappedKey},
    store::EncryptedStore,
    vault::{DataKey, DirectoryVault, EntryId, MemoryVault, Vault},
};

pub mod guide {
    //! The guide to encryption.

    #[doc = include_str!("../../docs/encryption/protection.md")]
    pub mod protection {}

    #[doc = include_str!("../../docs/encryption/keys.md")]
    pub mod keys {}
}
