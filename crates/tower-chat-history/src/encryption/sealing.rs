//! The sealed forms of the values that a store keeps.
//!
//! The record of an exchange is sealed as one text. The records of its recalled messages and of its provenance are
//! sealed as texts of their own, because stores remove those alone. The sealed texts take the places in which stores
//! look for them. Of a compaction, only the text is sealed: versions, positions and the writer's state have no text.
//! The names and values of a conversation's labels are sealed as one text.
//!
//! # Decisions
//!
//! - **A sealed exchange has no messages**, only their number and size. Limits, listings and prunes are those of the
//!   plain log, and a reader without keys gets an error, not an empty history.

use std::sync::Arc;

use tower_chat_history_core::{
    Citation, Compact, Compaction, ConversationId, Exchange, Labels, Origin, Positions, Profile, PromptDigests,
    Provenance, Recalled, Recorded, Seq, StoreError, backend::ExchangeRecords,
};

use crate::encryption::{
    cipher::{Cipher, SealedBytes},
    item::{Item, OpenError, push_field, take_field},
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
    async fn open_text(&mut self, item: &Item, text: &str) -> Result<(String, KeyId), OpenError> {
        let sealed = SealedBytes::from_text(item, text)?;
        let key = sealed.key();
        match String::from_utf8(self.open(item, &sealed).await?) {
            Ok(text) => Ok((text, key)),
            Err(_) => Err(OpenError::Damaged { item: item.clone(), key: Some(key) }),
        }
    }

    /// Opens an item under the key that it names.
    async fn open(&mut self, item: &Item, sealed: &SealedBytes) -> Result<Vec<u8>, OpenError> {
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

/// Seals an exchange that gets this position.
pub(crate) fn seal_exchange(
    cipher: &Cipher,
    conversation: &ConversationId,
    exchange: &Exchange,
    seq: Seq,
) -> Result<Exchange, StoreError> {
    if exchange.sealed.is_some() {
        // Sealed twice, it could not be read.
        return Err(StoreError::Sealed { seq });
    }

    let id = &exchange.id;
    let record = exchange.encode().map_err(StoreError::backend)?;
    let text = cipher.seal_text(&Item::Exchange(id.clone(), seq), record.as_bytes())?;
    let mut sealed = exchange.sealed_as(text).map_err(StoreError::backend)?;

    if let Some(recalled) = &exchange.recalled {
        let record = recalled.encode().map_err(StoreError::backend)?;
        let text = cipher.seal_text(&Item::Recalled(id.clone(), seq), record.as_bytes())?;
        sealed.recalled = Some(carry_recalled(recalled, conversation, text));
    }

    if let Some(provenance) = &exchange.provenance {
        let record = provenance.encode().map_err(StoreError::backend)?;
        let text = cipher.seal_text(&Item::Provenance(id.clone(), seq), record.as_bytes())?;
        sealed.provenance = Some(carry_provenance(text));
    }
    Ok(sealed)
}

/// Opens an exchange that was read from a store.
pub(crate) async fn open_exchange(opener: &mut Opener<'_>, recorded: &Recorded) -> Result<Recorded, OpenError> {
    let Recorded { seq, exchange: stored, .. } = recorded;
    let id = &stored.id;
    let item = Item::Exchange(id.clone(), *seq);
    let Some(sealed) = &stored.sealed else { return Err(OpenError::NotSealed { item }) };
    let (exchange, key) = opener.open_text(&item, sealed.text()).await?;

    let mut recalled = None;
    if let Some(stored) = &stored.recalled {
        let item = Item::Recalled(id.clone(), *seq);
        recalled = Some(opener.open_text(&item, &stored.message.text()).await?.0);
    }

    let mut provenance = None;
    if let Some(stored) = &stored.provenance {
        let item = Item::Provenance(id.clone(), *seq);
        let text = stored.origin.provider.as_deref().unwrap_or_default();
        provenance = Some(opener.open_text(&item, text).await?.0);
    }

    let records =
        ExchangeRecords { exchange: &exchange, recalled: recalled.as_deref(), provenance: provenance.as_deref() };
    let opened = records.decode().map_err(|source| OpenError::Record { item: item.clone(), key, source })?;
    if same_clear_properties(stored, &opened) {
        Ok(Recorded::new(*seq, opened))
    } else {
        Err(OpenError::Mismatch { item, key })
    }
}

/// Returns `true` if the properties that are visible in the store are those of the opened exchange.
fn same_clear_properties(stored: &Exchange, opened: &Exchange) -> bool {
    let stored_cited = stored.recalled.as_ref().and_then(Recalled::least_cited);
    let opened_cited = opened.recalled.as_ref().and_then(Recalled::least_cited);

    stored.id == opened.id
        && stored.at == opened.at
        && stored.continues == opened.continues
        && stored.message_count() == opened.message_count()
        && stored.bytes() == opened.bytes()
        && stored.media_bytes() == opened.media_bytes()
        && stored_cited == opened_cited
}

/// Returns recalled messages whose text is the sealed text. They cite only what decides when a store removes them: the
/// first cited position, or another conversation. The other conversation is not named. Its place has the id of the
/// conversation itself.
fn carry_recalled(recalled: &Recalled, conversation: &ConversationId, text: String) -> Recalled {
    let citation = recalled.least_cited().map(|least| match u64::try_from(least) {
        Ok(seq) => Citation::new(Seq::new(seq), 0..0),
        Err(_) => Citation::new(Seq::FIRST, 0..0).of(conversation.clone()),
    });
    Recalled::new(text, citation.into_iter().collect())
}

/// Returns a provenance whose provider is the sealed text. Its digests are constant, because the real ones are of
/// prompts.
fn carry_provenance(text: String) -> Provenance {
    Provenance::new(0, Positions::default(), PromptDigests::default(), Origin::unknown().provider(text))
}

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

/// Seals labels.
pub(crate) fn seal_labels(cipher: &Cipher, labels: &Labels) -> Result<Labels, StoreError> {
    let mut plain = Vec::new();
    for (name, value) in labels.iter() {
        push_field(&mut plain, name.as_bytes());
        push_field(&mut plain, value.as_bytes());
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
        let (name, rest) = take_field(plain)?;
        let (value, rest) = take_field(rest)?;
        pairs.push((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?));
        plain = rest;
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::{key::Secret, master::KeyRing, vault::MemoryVault};

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
