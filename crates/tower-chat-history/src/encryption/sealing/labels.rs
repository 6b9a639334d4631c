//! Sealed labels: all names and values of a conversation's labels as one text.

use tower_chat_history_core::{Labels, StoreError};

use super::Opener;
use crate::encryption::{
    cipher::{Cipher, SealedBytes},
    error::OpenError,
    fields,
    item::Item,
};

/// Seals labels.
pub(crate) fn seal_labels(cipher: &Cipher, labels: &Labels) -> Result<Labels, StoreError> {
    let mut plain = Vec::new();
    for (name, value) in labels.iter() {
        fields::push(&mut plain, name.as_bytes());
        fields::push(&mut plain, value.as_bytes());
    }
    Labels::sealed(cipher.seal_text(&Item::Labels, &plain)?).map_err(StoreError::backend)
}

/// Opens labels that were read from a store.
pub(crate) async fn open_labels(opener: &mut Opener<'_>, labels: &Labels) -> Result<Labels, OpenError> {
    if labels.is_empty() {
        return Ok(Labels::default());
    }
    let item = Item::Labels;
    let Some(text) = labels.as_sealed() else { return Err(OpenError::NotSealed { item }) };
    let sealed = SealedBytes::from_text(&item, text)?;
    let plain = opener.open(&item, &sealed).await?;
    let labels = pairs(&plain).and_then(|pairs| Labels::new(pairs).ok());
    labels.ok_or(OpenError::Damaged { item, key: Some(sealed.key()) })
}

/// Reads names and values.
fn pairs(mut plain: &[u8]) -> Option<Vec<(&str, &str)>> {
    let mut pairs = Vec::new();
    while !plain.is_empty() {
        let (name, rest) = fields::take(plain)?;
        let (value, rest) = fields::take(rest)?;
        pairs.push((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?));
        plain = rest;
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::ConversationId;

    use super::*;
    use crate::encryption::{
        key::{KeyId, Secret},
        keys::Keys,
        master::KeyRing,
        vault::MemoryVault,
    };

    #[tokio::test]
    async fn the_largest_labels_have_room() {
        let keys = Keys::new(KeyRing::new("m", Secret::random().unwrap()), MemoryVault::new(), 1);
        let id: ConversationId = "a".parse().unwrap();
        let names = (0..Labels::MAX_LABELS).map(|n| format!("{n:x}"));
        let labels =
            Labels::new(names.map(|name| (name, "\u{0}".repeat(Labels::MAX_BYTES / Labels::MAX_LABELS - 1)))).unwrap();
        assert_eq!(labels.bytes(), Labels::MAX_BYTES);
        let cipher = keys.current_or_new(&id).await.unwrap();
        let sealed = seal_labels(&cipher, &labels).unwrap();
        assert_eq!(sealed.len(), 1, "the number of labels is not visible");
        assert_eq!(open_labels(&mut Opener::new(&keys, &id), &sealed).await.unwrap(), labels);
        let other = Cipher::new(KeyId::random().unwrap(), &Secret::random().unwrap(), &id).unwrap();
        let unknown = seal_labels(&other, &labels).unwrap();
        let error = open_labels(&mut Opener::new(&keys, &id), &unknown).await.unwrap_err();
        assert!(error.to_string().contains(&other.key().to_string()), "{error}");
    }
}
