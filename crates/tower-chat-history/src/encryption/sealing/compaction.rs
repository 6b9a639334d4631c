//! Sealed text of compactions. Versions, positions and the writer's state stay visible: they have no text.

use std::sync::Arc;

use tower_chat_history_core::{Compact, Compaction, Profile, StoreError};

use super::Opener;
use crate::encryption::{
    cipher::{Cipher, SealedBytes},
    error::OpenError,
    item::Item,
};

/// Seals the text of a compaction to store.
pub(crate) fn seal_compact(cipher: &Cipher, mut compact: Compact) -> Result<Compact, StoreError> {
    if let Some(derived) = &compact.derived {
        let item = Item::Derived(compact.profile.clone(), compact.window_start);
        compact.derived = Some(Arc::from(cipher.seal(&item, derived)?));
    }
    Ok(compact)
}

/// Opens the text of a compaction that was read from a store.
pub(crate) async fn open_compaction(
    opener: &mut Opener<'_>,
    profile: &Profile,
    mut compaction: Compaction,
) -> Result<Compaction, OpenError> {
    if let Some(derived) = &compaction.derived {
        let item = Item::Derived(profile.clone(), compaction.window_start);
        let sealed = SealedBytes::from_bytes(&item, derived.to_vec())?;
        compaction.derived = Some(Arc::from(opener.open(&item, &sealed).await?));
    }
    Ok(compaction)
}
