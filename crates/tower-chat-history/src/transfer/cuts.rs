//! The cuts in stored compactions.

use tower_chat_history_core::{Compaction, ConversationId, Cuts, Profile, StoreError};

/// Reads the cuts in the compaction of a profile. An error says that the compaction is corrupt.
pub(crate) fn read(compaction: &Compaction, id: &ConversationId, profile: &Profile) -> Result<Cuts, StoreError> {
    Cuts::read(compaction).map_err(|error| StoreError::CorruptCompaction {
        conversation: id.clone(),
        profile: profile.clone(),
        source: Box::new(error),
    })
}
