//! Sealed exchanges.
//!
//! The record of the exchange is sealed as one text. The records of its recalled messages and of its provenance are
//! sealed as texts of their own, because stores remove those alone. The sealed texts take the places in which stores
//! look for them.

use tower_chat_history_core::{
    Citation, ConversationId, Exchange, Origin, Positions, PromptDigests, Provenance, Recalled, Recorded, Seq,
    StoreError, backend::ExchangeRecords,
};

use super::Opener;
use crate::encryption::{cipher::Cipher, error::OpenError, item::Item};

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
    let id = || exchange.id.clone();
    let record = exchange.encode().map_err(StoreError::backend)?;
    let text = cipher.seal_text(&Item::Exchange(id(), seq), record.as_bytes())?;
    let mut sealed = exchange.sealed_as(text).map_err(StoreError::backend)?;
    if let Some(recalled) = &exchange.recalled {
        let record = recalled.encode().map_err(StoreError::backend)?;
        let text = cipher.seal_text(&Item::Recalled(id(), seq), record.as_bytes())?;
        sealed.recalled = Some(carry_recalled(recalled, conversation, text));
    }
    if let Some(provenance) = &exchange.provenance {
        let record = provenance.encode().map_err(StoreError::backend)?;
        let text = cipher.seal_text(&Item::Provenance(id(), seq), record.as_bytes())?;
        sealed.provenance = Some(Box::new(carry_provenance(text)));
    }
    Ok(sealed)
}

/// Opens an exchange that was read from a store.
pub(crate) async fn open_exchange(opener: &mut Opener<'_>, recorded: &Recorded) -> Result<Recorded, OpenError> {
    let Recorded { seq, exchange: stored, .. } = recorded;
    let id = || stored.id.clone();
    let item = Item::Exchange(id(), *seq);
    let Some(sealed) = &stored.sealed else { return Err(OpenError::NotSealed { item }) };
    let (exchange, key) = opener.open_text(&item, sealed.text()).await?;
    let recalled = match &stored.recalled {
        Some(recalled) => Some(opener.open_text(&Item::Recalled(id(), *seq), &recalled.message.text()).await?.0),
        None => None,
    };
    let provenance = match &stored.provenance {
        Some(provenance) => {
            let text = provenance.origin.provider.as_deref().unwrap_or_default();
            Some(opener.open_text(&Item::Provenance(id(), *seq), text).await?.0)
        }
        None => None,
    };
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
    let least_cited = |exchange: &Exchange| exchange.recalled.as_ref().and_then(Recalled::least_cited);
    let sizes = |exchange: &Exchange| (exchange.message_count(), exchange.bytes());
    (&stored.id, stored.at, stored.continues) == (&opened.id, opened.at, opened.continues)
        && sizes(stored) == sizes(opened)
        && least_cited(stored) == least_cited(opened)
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
