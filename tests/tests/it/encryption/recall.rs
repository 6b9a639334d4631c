//! Recall over encrypted conversations, with a cache around each handle.

use tests::{MASTER_KEY, Storage, over_every_store};
use tower_chat_history::encryption::{KeyRing, Keys, MemoryVault};

use crate::recall::{
    others::a_turn_recalls_from_conversations_of_the_same_user_only, same::a_search_returns_what_it_returns_in_memory,
};

over_every_store! {
    #[tokio::test]
    an_encrypted_search_returns_what_a_plain_one_returns,
    an_encrypted_turn_recalls_from_conversations_of_the_same_user_only,
}

/// Encrypts a store that keeps data. The tests of recall run over an encrypted memory store, too.
async fn encrypted(storage: Storage) -> Option<Storage> {
    storage.address()?;
    let keys = Keys::new(KeyRing::parse(MASTER_KEY).unwrap(), MemoryVault::new(), 2);
    Some(storage.with_keys(keys).await)
}

async fn an_encrypted_search_returns_what_a_plain_one_returns(storage: Storage) {
    if let Some(storage) = encrypted(storage).await {
        a_search_returns_what_it_returns_in_memory(storage).await;
    }
}

async fn an_encrypted_turn_recalls_from_conversations_of_the_same_user_only(storage: Storage) {
    if let Some(storage) = encrypted(storage).await {
        a_turn_recalls_from_conversations_of_the_same_user_only(storage).await;
    }
}
