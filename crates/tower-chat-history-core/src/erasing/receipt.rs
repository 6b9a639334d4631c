//! The receipts of erasures.

use serde::{Deserialize, Serialize};

use crate::{
    prefix::Prefix,
    removed::ByStore,
    store::{Scrubbed, StoreError},
    timestamp::Timestamp,
};

/// The result of an erasure, to keep as JSON. It contains ids and numbers, and no message text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The prefix whose conversations were erased.
    pub under: Prefix,
    /// The database, in the words of the caller. A store does not know a name that is right outside of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The time at which the erasure began, by the clock of this process. In JSON, it is in milliseconds since the Unix
    /// epoch.
    pub started_at: Timestamp,
    /// The time at which the erasure ended or failed.
    pub ended_at: Timestamp,
    /// The numbers of things that were removed, by store.
    pub removed: ByStore,
    /// The numbers of things that were left after the last pass, by store. `None` if the erasure failed before they
    /// were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<ByStore>,
    /// The steps that removed the data from files, if the caller [asked](crate::Erase::scrub) for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrubbed: Option<Scrubbed>,
}

impl Receipt {
    pub(super) fn begin(under: Prefix) -> Self {
        let now = Timestamp::now();
        let (removed, remaining, scrubbed) = (ByStore::default(), None, None);
        Self { under, database: None, started_at: now, ended_at: now, removed, remaining, scrubbed }
    }

    /// Sets the name of the database. The default is `None`.
    #[must_use]
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.database = Some(name.into());
        self
    }

    /// Adds the steps that removed the data from files.
    #[must_use]
    pub fn scrubbed(mut self, scrubbed: Scrubbed) -> Self {
        self.scrubbed = Some(scrubbed);
        self
    }

    /// Returns `true` if the store was counted after the erasure and nothing was left.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.remaining.as_ref().is_some_and(|remaining| remaining.total().is_nothing())
    }
}

/// The error for an erasure that stopped.
#[derive(Debug, thiserror::Error)]
#[error("the erasure stopped after {} conversations: {source}", receipt.removed.total().conversations)]
#[non_exhaustive]
pub struct EraseError {
    /// The receipt of the conversations that were erased. If the outcome of the last call is unknown, for example
    /// because a connection broke, what that call removed is not in it: the numbers are then a lower bound.
    pub receipt: Box<Receipt>,
    /// The cause.
    pub source: StoreError,
}
