//! The store that the command line names.

mod open;
mod url;

use tower_chat_history_core::{Erase, Prune};

#[cfg(feature = "redis")]
pub(crate) use self::open::install_crypto_provider;
pub(crate) use self::{
    open::{OpenStoreError, Settings},
    url::StoreUrl,
};

/// A store that this program can open. All of them list, erase and prune.
pub(crate) trait ManagedStore: Erase + Prune {}

impl<S: Erase + Prune> ManagedStore for S {}
