//! Opening the items of one conversation.

use tower_chat_history_core::ConversationId;

use crate::encryption::{
    cipher::{Cipher, SealedBytes},
    error::OpenError,
    item::Item,
    key::KeyId,
    keys::Keys,
};

/// Opens the items of one conversation during one call. It derives the key for each data key once.
pub(crate) struct Opener<'a> {
    keys: &'a Keys,
    conversation: &'a ConversationId,
    ciphers: Vec<Cipher>,
}

impl<'a> Opener<'a> {
    pub(crate) const fn new(keys: &'a Keys, conversation: &'a ConversationId) -> Self {
        Self { keys, conversation, ciphers: Vec::new() }
    }

    /// Opens an item whose sealed form is a text. Returns it with the id of its key.
    pub(super) async fn open_text(&mut self, item: &Item, text: &str) -> Result<(String, KeyId), OpenError> {
        let sealed = SealedBytes::from_text(item, text)?;
        let (opened, key) = (self.open(item, &sealed).await?, sealed.key());
        let opened = String::from_utf8(opened);
        opened.map(|text| (text, key)).map_err(|_| OpenError::Damaged { item: item.clone(), key: Some(key) })
    }

    /// Opens an item under the key that it names.
    pub(super) async fn open(&mut self, item: &Item, sealed: &SealedBytes) -> Result<Vec<u8>, OpenError> {
        let key = sealed.key();
        let opened = match self.ciphers.iter().find(|cipher| cipher.key() == key) {
            Some(cipher) => cipher.open(item, sealed),
            None => {
                let cipher = self.keys.named(self.conversation, key).await;
                let cipher = cipher.map_err(|source| OpenError::Key { item: item.clone(), key, source })?;
                let opened = cipher.open(item, sealed);
                self.ciphers.push(cipher);
                opened
            }
        };
        opened.ok_or_else(|| OpenError::Changed { item: item.clone(), key })
    }
}
