//! Copies of a log, which not every store supports.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Compact, HistoryStore, StoreError};
use crate::{
    conversation_id::ConversationId,
    exchange::Timestamp,
    labels::Labels,
    seq::{Epoch, Incarnation, Revision, Seq},
};

/// A store that can copy the beginning of a conversation's log into a new conversation, to try another continuation.
///
/// # Contract
///
/// - **In one step.** The exchanges, the compaction and the labels of the copy appear together. They are those of the
///   log at one time during the call. If the caller drops the future, there is the whole copy or none. Only a wrapper
///   that has to write each exchange anew may do it in several steps, and says so.
/// - **The same log.** Each copied exchange has the position, the id, the time and the bytes of the original, with its
///   [provenance](crate::Exchange::provenance). The copy of a [pruned](crate::Prune) log begins where that log begins.
///   [Recalled messages](crate::Exchange::recalled) are not copied if they [cite](crate::Recalled::least_cited) a
///   pruned exchange or another conversation, because the copy may be of another person.
/// - **A conversation of its own.** The copy is in a new incarnation. It continues independently, it is listed, and
///   deleting one of the two does not change the other.
/// - **Erasures.** A fork is refused if an erasure covers the copy and began after [`ForkTo::since`]. An erasure does
///   not follow copies: if it covers only the log, the copy stays. The label [`forked_from`](Labels::forked_from) finds
///   it. A fork that begins while an [erasure](crate::Erase::bar) of both is running may still find the log, and make
///   a copy in a part that the erasure has passed. [`erase_all`](crate::EraseExt::erase_all) counts what is left, and
///   erases it, too. So the copy must not appear after the log was removed. A prune that
///   [erases](crate::Derived::Erase) ends the incarnation, so a later fork of it is refused. If both run at the same
///   time, the copy can have what the prune removes.
/// - **Conditional.** The log is copied only in the given incarnation, and only if the copy does not exist yet.
/// - **Any position.** A position within a turn leaves the copy's turn open. A position after the end copies the whole
///   log. If there is no exchange before the position, nothing is copied and no conversation is created.
/// - **Repeatable.** An error other than a refusal leaves the outcome open. If the copy exists already in
///   [`ForkTo::incarnation`], an earlier attempt has made it, and the call succeeds.
///
/// For such a store, [`Conversation`](crate::Conversation) has the method `fork`. The trait can be used as
/// `Arc<dyn Fork>`. To test it with the conformance suite, add the store to the handle with `Handle::fork`.
#[async_trait]
pub trait Fork: HistoryStore {
    /// Copies the exchanges before [`ForkTo::before`] into the conversation [`ForkTo::id`], if the log is in this
    /// incarnation.
    ///
    /// Checks in this order: if the copy exists, an [erasure](ForkTo::since), the incarnation of the log.
    ///
    /// # Errors
    ///
    /// - [`Conflict`](StoreError::Conflict) if the copy exists already, also if it is the same conversation.
    /// - [`Gone`](StoreError::Gone) if the incarnation has ended, if there is no such conversation, or if the copy was
    ///   erased.
    /// - [`Full`](StoreError::Full) if the store has a limit and the copy would exceed it.
    /// - Another error if the store cannot be written.
    ///
    /// If the call is refused, nothing was copied.
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError>;
}

/// The copy to make.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ForkTo {
    /// The conversation to create.
    pub id: ConversationId,
    /// The incarnation of the copy. A new fork needs a new one, and a repeated call the same one.
    pub incarnation: Incarnation,
    /// The position of the first exchange that is not copied.
    pub before: Seq,
    /// The epoch after which the copy must not have been erased, as in [`Append::since`](crate::Append::since). If it
    /// is `None`, nothing is checked.
    pub since: Option<Epoch>,
    /// The time of the fork. The copy is [listed](crate::Listed) as created and updated at this time.
    pub at: Timestamp,
    /// The labels of the copy, which get the [first](crate::LabelsVersion::next) version if there is one.
    pub labels: Labels,
    /// The compaction of the copy. It is stored as the first one of its profile, whatever it
    /// [replaces](Compact::replaces). The caller made it from a compaction of the log, as
    /// [`Cuts::truncated_to`](crate::Cuts::truncated_to) does.
    pub compact: Option<Compact>,
}

impl ForkTo {
    /// Creates the request for a copy of the exchanges before this position, without labels and compaction. Its time is
    /// now.
    #[must_use]
    pub fn new(id: ConversationId, before: Seq) -> Self {
        Self {
            id,
            incarnation: Incarnation::random(),
            before,
            since: None,
            at: Timestamp::now(),
            labels: Labels::default(),
            compact: None,
        }
    }

    /// Sets the epoch after which the copy must not have been erased. The default is `None`: it may have been.
    #[must_use]
    pub const fn since(mut self, epoch: Option<Epoch>) -> Self {
        self.since = epoch;
        self
    }

    /// Sets the labels. The default is no label.
    #[must_use]
    pub fn labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// Sets the compaction. The default is `None`.
    #[must_use]
    pub fn compact(mut self, compact: Option<Compact>) -> Self {
        self.compact = compact;
        self
    }
}

/// The result of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forked {
    /// The revision of the copy, or `None` if nothing was copied. An earlier attempt may have made the copy, and others
    /// may have written to it since.
    pub revision: Option<Revision>,
    /// The number of exchanges in the copy.
    pub copied: u64,
}

impl Forked {
    /// Reports that the copy is at this revision.
    #[must_use]
    pub fn new(revision: Option<Revision>) -> Self {
        Self { revision, copied: revision.map_or(0, |revision| revision.len()) }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Fork + ?Sized> Fork for Arc<S> {
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        (**self).fork(id, incarnation, to).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trait_is_dyn_compatible() {
        fn usable(_: Option<Arc<dyn Fork>>, _: Option<&dyn Fork>) {}
        fn is_store<S: Fork + HistoryStore>() {}
        usable(None, None);
        is_store::<Arc<dyn Fork>>();
    }
}
