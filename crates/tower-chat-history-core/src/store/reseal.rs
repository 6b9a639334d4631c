//! Replacement of the sealed form of an exchange, which not every store supports.

use std::sync::Arc;

use async_trait::async_trait;

use super::{HistoryStore, StoreError};
use crate::{conversation_id::ConversationId, exchange::Exchange, revision::Incarnation, seq::Seq};

/// A store that can replace the encrypted form of an exchange by another one of the same exchange, after its key was
/// replaced.
///
/// # Contract
///
/// - **The same exchange.** An exchange is replaced only by one that [`Exchange::is_resealed_as`] accepts. So nothing
///   that the store knows about the exchange changes.
/// - **Conditional and in one step.** The exchange is replaced only if its encrypted content is still the expected one.
///   If the caller drops the future, the exchange was replaced or it was not.
/// - **The log is not changed.** Neither its revision nor a [known state](crate::Load::known) changes. Calls in flight
///   are stored.
///
/// The trait can be used as `Arc<dyn Reseal>`.
#[async_trait]
pub trait Reseal: HistoryStore {
    /// Replaces the exchange at a position by `to`, together with its recalled messages and its provenance. Returns
    /// `false`, and changes nothing, if the exchange there has other encrypted content than `from`, if there is none,
    /// or if `to` is another exchange.
    ///
    /// # Errors
    ///
    /// - [`Gone`](StoreError::Gone) if the incarnation has ended or there is no conversation.
    /// - [`Full`](StoreError::Full) if the store has a limit and the new form would exceed it.
    /// - Another error if the store cannot be written.
    async fn reseal(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        seq: Seq,
        from: &Exchange,
        to: Exchange,
    ) -> Result<bool, StoreError>;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Reseal + ?Sized> Reseal for Arc<S> {
    async fn reseal(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        seq: Seq,
        from: &Exchange,
        to: Exchange,
    ) -> Result<bool, StoreError> {
        (**self).reseal(id, incarnation, seq, from, to).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trait_is_dyn_compatible() {
        fn usable(_: Option<Arc<dyn Reseal>>, _: Option<&dyn Reseal>) {}
        fn is_store<S: Reseal + HistoryStore>() {}
        usable(None, None);
        is_store::<Arc<dyn Reseal>>();
    }
}
