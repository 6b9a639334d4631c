//! The events of an audit.

use std::sync::Arc;

use serde::Serialize;
use tower_chat_history_core::{
    Appended, Attachments, ByStore, CompactOutcome, ConversationId, ErasedPage, LabelsOutcome, Listed, Listing, Loaded,
    Page, Prefix, Pruned, Removed, Scrubbed, Timestamp, Truncated,
};

/// A call of a store. An event that is [recorded](super::Audit::record) is about a call that has ended. One that is to be
/// [admitted](super::Audit::admit) is about a call that has not begun: it has no exchanges, is not done and has no error.
/// It is serialized as a flat JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditEvent {
    /// The time at which the call began.
    pub at: Timestamp,
    /// Who made the call.
    pub actor: Arc<str>,
    /// The purpose of the call, if the handle has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Arc<str>>,
    /// The action.
    pub action: Action,
    /// The conversations that the call concerns.
    #[serde(flatten)]
    pub subject: Subject,
    /// The number of exchanges that the call returned, stored, removed or counted. For a deletion it is 0, because a
    /// store does not return it.
    pub exchanges: u64,
    /// `true` if the call succeeded and did what it was asked. `false` with no error means that it had no effect: a
    /// repeated append, a compaction, labels or an encrypted form that others had replaced before, or a conversation
    /// that was not erased because it has another revision.
    pub done: bool,
    /// The [kind](tower_chat_history_core::StoreError::kind) of error, `cancelled` if the caller dropped the call,
    /// `panicked` if the call panicked, or `None` if the call succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
}

/// The conversations that a call concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// One conversation.
    Conversation(ConversationId),
    /// All conversations under a prefix.
    Under(Prefix),
}

/// The actions that are recorded. Each is a method of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// A window was loaded, usually to call the model.
    Load,
    /// An exchange was appended.
    Append,
    /// A compaction was stored.
    Compact,
    /// A page of the log was read, by its beginning or by positions.
    Read,
    /// The conversation was deleted.
    Delete,
    /// The end of the log was removed.
    Truncate,
    /// The beginning of the log was removed.
    Prune,
    /// The encrypted form of an exchange was replaced.
    Reseal,
    /// Attachments were stored or removed.
    Attach,
    /// Attachments were read.
    ReadAttachments,
    /// Conversations were listed.
    List,
    /// The entry of one conversation was read, with its labels.
    Describe,
    /// Labels were replaced.
    SetLabels,
    /// An erasure was begun.
    Bar,
    /// Conversations were erased.
    Erase,
    /// The stored things were counted.
    Count,
    /// Files were cleaned.
    Scrub,
}

/// The answer of a call that succeeded.
pub(super) trait Outcome {
    /// Returns the number of exchanges that the answer stands for.
    fn exchanges(&self) -> u64;

    /// Returns `false` if the call had no effect.
    fn is_done(&self) -> bool {
        true
    }
}

impl Outcome for Appended {
    fn exchanges(&self) -> u64 {
        u64::from(!self.duplicate)
    }

    fn is_done(&self) -> bool {
        !self.duplicate
    }
}

impl Outcome for CompactOutcome {
    fn exchanges(&self) -> u64 {
        0
    }

    fn is_done(&self) -> bool {
        matches!(self, Self::Stored(_))
    }
}

impl Outcome for LabelsOutcome {
    fn exchanges(&self) -> u64 {
        0
    }

    fn is_done(&self) -> bool {
        matches!(self, Self::Stored(_))
    }
}

/// The answer of a replacement of an exchange's encrypted form.
impl Outcome for bool {
    fn exchanges(&self) -> u64 {
        u64::from(*self)
    }

    fn is_done(&self) -> bool {
        *self
    }
}

impl Outcome for Option<Removed> {
    fn exchanges(&self) -> u64 {
        self.as_ref().map_or(0, |removed| removed.exchanges)
    }

    fn is_done(&self) -> bool {
        self.is_some()
    }
}

macro_rules! exchanges {
    ($($type:ty: |$answer:pat_param| $exchanges:expr;)+) => {
        $(impl Outcome for $type {
            fn exchanges(&self) -> u64 {
                let $answer = self;
                $exchanges
            }
        })+
    };
}

exchanges! {
    (): |()| 0;
    Loaded: |loaded| match loaded {
        Loaded::Absent(_) | Loaded::Unchanged => 0,
        Loaded::AlreadyRecorded(_) => 1,
        Loaded::Added(added) => added.exchanges.len() as u64,
        Loaded::Window(window) => window.exchanges.len() as u64,
    };
    Page: |page| page.exchanges.len() as u64;
    Truncated: |truncated| truncated.removed;
    Pruned: |pruned| pruned.removed;
    Attachments: |_| 0;
    Listing: |_| 0;
    Option<Listed>: |_| 0;
    ErasedPage: |page| page.removed.total().exchanges;
    ByStore: |counted| counted.total().exchanges;
    Scrubbed: |_| 0;
}
