//! Erasure of everything under a prefix, with a receipt.

mod quotes;

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::quotes::{ErasedQuotes, erase_quotes};
use crate::{
    conversation_id::Prefix,
    exchange::Timestamp,
    management::TARGET,
    stopped::Stopped,
    store::{ByStore, Cursor, Erase, Scrubbed, StoreError},
};

/// The number of conversations that are erased per call of the store.
const PAGE: usize = 200;

/// The largest number of times that an erasure goes through the conversations.
const MAX_PASSES: u32 = 3;

/// Convenience methods for every store that [erases](Erase).
#[async_trait]
pub trait EraseExt: Erase {
    /// Erases all conversations under a prefix, and returns a [receipt](Receipt) to keep.
    ///
    /// First, it [records](Erase::bar) the erasure, so that calls in flight cannot begin one of the conversations
    /// again. Then it erases the conversations page by page, and [counts](Erase::count) what is left. If something is
    /// left, for example because somebody began a conversation in the meantime, it erases and counts again, up to three
    /// times altogether. [`Receipt::is_complete`] returns `true` if nothing was left in the end.
    ///
    /// To follow the progress, use [`Erasure`].
    ///
    /// If recall covers other conversations, conversations that are not under the prefix may quote those that are. The
    /// quotes stay: remove them with [`erase_quotes`]. If the prefix is at most as long as the one that recall covers,
    /// such as that of the whole user, no quote is left.
    ///
    /// ```
    /// use tower_chat_history_core::{Erase, EraseExt, Prefix};
    ///
    /// /// Erases what is stored of a user. Returns the receipt as JSON.
    /// async fn forget(store: &dyn Erase, user: &str) -> Result<String, Box<dyn std::error::Error>> {
    ///     let receipt = store.erase_all(&Prefix::new(["acme", user])?).await?;
    ///     if !receipt.is_complete() {
    ///         return Err("a part is left: erase again".into());
    ///     }
    ///     Ok(serde_json::to_string(&receipt)?)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read or written. [`Stopped::done`] says what was erased, also by
    /// the call of the store that failed. To continue, call it again.
    async fn erase_all(&self, under: &Prefix) -> Result<Receipt, Stopped<Receipt>>;
}

#[async_trait]
impl<S: Erase + ?Sized> EraseExt for S {
    async fn erase_all(&self, under: &Prefix) -> Result<Receipt, Stopped<Receipt>> {
        let mut erasure = Erasure::begin(self, under.clone()).await?;
        while erasure.step().await? {}
        Ok(erasure.into_receipt())
    }
}

/// An erasure in progress, one step at a time. [`EraseExt::erase_all`] takes all steps.
#[derive(Debug)]
pub struct Erasure<'a, S: ?Sized> {
    store: &'a S,
    after: Option<Cursor>,
    passes: u32,
    receipt: Receipt,
}

impl<'a, S: Erase + ?Sized> Erasure<'a, S> {
    /// Bars turns that are running, so that they cannot begin a conversation again. Erases nothing yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub async fn begin(store: &'a S, under: Prefix) -> Result<Self, Stopped<Receipt>> {
        let mut erasure = Self { store, after: None, passes: 0, receipt: Receipt::begin(under) };
        match store.bar(&erasure.receipt.under).await {
            Ok(()) => Ok(erasure),
            Err(error) => Err(erasure.failed(error)),
        }
    }

    /// Erases the next conversations. After the last ones, counts what is left. Returns `false` if the erasure is done.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read or written. The step can be repeated.
    pub async fn step(&mut self) -> Result<bool, Stopped<Receipt>> {
        let page = match self.store.erase(&self.receipt.under, self.after.as_ref(), PAGE).await {
            Ok(page) => page,
            Err(error) => return Err(self.failed(error)),
        };
        self.receipt.removed += page.removed;
        self.receipt.remaining = None;
        self.receipt.ended_at = Timestamp::now();
        self.after = page.next;
        if self.after.is_some() {
            return Ok(true);
        }
        self.passes += 1;
        let remaining = match self.store.count(&self.receipt.under).await {
            Ok(remaining) => remaining,
            Err(error) => return Err(self.failed(error)),
        };
        let is_done = remaining.total().is_nothing() || self.passes >= MAX_PASSES;
        self.receipt.remaining = Some(remaining);
        self.receipt.ended_at = Timestamp::now();
        Ok(!is_done)
    }

    /// Returns what was erased so far.
    #[must_use]
    pub const fn removed(&self) -> &ByStore {
        &self.receipt.removed
    }

    /// Returns the receipt of what was erased so far.
    #[must_use]
    pub fn into_receipt(self) -> Receipt {
        self.receipt.clone()
    }

    fn failed(&mut self, error: StoreError) -> Stopped<Receipt> {
        let (removed, source) = error.into_erased();
        self.receipt.removed += removed;
        self.receipt.remaining = None;
        self.receipt.ended_at = Timestamp::now();
        Stopped::after(self.receipt.clone(), source)
    }
}

// Also if the erasure fails or is dropped, because it may have erased something.
impl<S: ?Sized> Drop for Erasure<'_, S> {
    fn drop(&mut self) {
        let removed = self.receipt.removed.total();
        tracing::info!(
            target: TARGET,
            action = "erase",
            under = %self.receipt.under,
            complete = self.receipt.is_complete(),
            conversations = removed.conversations,
            exchanges = removed.exchanges,
            bytes = removed.bytes,
        );
    }
}

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
    fn begin(under: Prefix) -> Self {
        let now = Timestamp::now();
        Self {
            under,
            database: None,
            started_at: now,
            ended_at: now,
            removed: ByStore::default(),
            remaining: None,
            scrubbed: None,
        }
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

impl fmt::Display for Stopped<Receipt> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let erased = self.done.removed.total().conversations;
        write!(f, "the erasure stopped after {erased} conversations: {}", self.source)
    }
}
