//! Expiry of conversations by their age.

use std::time::Duration;

use serde::Serialize;

use crate::{
    cursor::Cursor,
    prefix::Prefix,
    removed::ByStore,
    store::{Erase, Listed, StoreError},
    timestamp::Timestamp,
};

/// The largest number of conversations that are listed per call of the store.
const PAGE: usize = 500;

/// The rules by which conversations expire, by prefix.
///
/// For a conversation, the rule of the longest prefix that contains it applies. Conversations without a rule never
/// expire. Times are compared in milliseconds, and come from the clocks of the processes that stored the exchanges.
///
/// [`run_once`](Self::run_once) looks at a bounded number of conversations and erases those that have expired. Any
/// number of processes may run the same rules at the same time: a conversation is erased once, and not at all if
/// somebody appends to it in the meantime.
///
/// ```
/// use std::time::Duration;
/// use tower_chat_history_core::{Erase, ExpireError, Expiry, ExpiryRule, Prefix, Timestamp};
///
/// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
///
/// /// Erases conversations that have been idle for 30 days, but keeps those of the legal department.
/// async fn expire(store: &dyn Erase, legal: Prefix) -> Result<u64, ExpireError> {
///     let expiry = Expiry::new().under(Prefix::all(), ExpiryRule::Idle(30 * DAY)).under(legal, ExpiryRule::Never);
///     let (mut from, mut expired) = (None, 0);
///     loop {
///         let run = expiry.run_once(store, Timestamp::now(), from.as_ref(), 1_000).await?;
///         expired += run.removed.total().conversations;
///         from = run.next;
///         if from.is_none() {
///             return Ok(expired);
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Expiry {
    rules: Vec<(Prefix, ExpiryRule)>,
}

/// The condition under which a conversation expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpiryRule {
    /// It was [updated](Listed::updated_at) at least this long ago.
    Idle(Duration),
    /// It was [created](Listed::created_at) at least this long ago.
    Age(Duration),
    /// It never expires.
    Never,
}

impl ExpiryRule {
    /// Returns `true` if the conversation has expired at this time.
    #[must_use]
    pub fn is_due(self, listed: &Listed, now: Timestamp) -> bool {
        let (since, limit) = match self {
            Self::Idle(limit) => (listed.updated_at, limit),
            Self::Age(limit) => (listed.created_at, limit),
            Self::Never => return false,
        };
        let passed = now.as_unix_millis().saturating_sub(since.as_unix_millis());
        Duration::from_millis(passed) >= limit
    }
}

/// The place at which the next run continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiryCursor {
    under: Prefix,
    after: Option<Cursor>,
}

impl Expiry {
    /// Creates rules by which nothing expires.
    #[must_use]
    pub const fn new() -> Self {
        Self { rules: Vec::new() }
    }

    /// Sets the rule for the conversations under a prefix. Another rule for the same prefix is replaced.
    #[must_use]
    pub fn under(mut self, prefix: Prefix, rule: ExpiryRule) -> Self {
        self.rules.retain(|(other, _)| *other != prefix);
        self.rules.push((prefix, rule));
        self
    }

    /// Returns `true` if a conversation has expired at this time.
    #[must_use]
    pub fn is_due(&self, listed: &Listed, now: Timestamp) -> bool {
        let rules = self.rules.iter().filter(|(prefix, _)| prefix.contains(&listed.id));
        let longest = rules.max_by_key(|(prefix, _)| prefix.as_str().len());
        longest.is_some_and(|(_, rule)| rule.is_due(listed, now))
    }

    /// Looks at `limit` conversations or fewer, from the cursor of the last run on, and erases those that have expired
    /// at the time `now`. A conversation that changes after it was looked at is not erased.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read or written. [`ExpireError::run`] says what was erased before, and
    /// at which conversation to continue.
    pub async fn run_once<S: Erase + ?Sized>(
        &self,
        store: &S,
        now: Timestamp,
        from: Option<&ExpiryCursor>,
        limit: usize,
    ) -> Result<ExpiryRun, ExpireError> {
        self.run(store, now, from, limit, true).await
    }

    /// Does the same as [`run_once`](Self::run_once), but erases nothing: it only counts the conversations that have
    /// expired.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn preview<S: Erase + ?Sized>(
        &self,
        store: &S,
        now: Timestamp,
        from: Option<&ExpiryCursor>,
        limit: usize,
    ) -> Result<ExpiryRun, ExpireError> {
        self.run(store, now, from, limit, false).await
    }

    async fn run<S: Erase + ?Sized>(
        &self,
        store: &S,
        now: Timestamp,
        from: Option<&ExpiryCursor>,
        limit: usize,
        erases: bool,
    ) -> Result<ExpiryRun, ExpireError> {
        let started_at = Timestamp::now();
        let (examined, due, removed) = (0, 0, ByStore::default());
        let next = from.cloned().or_else(|| self.beginning());
        let mut run = ExpiryRun { started_at, ended_at: started_at, examined, due, removed, next };
        let mut left = limit;
        while let Some(at) = run.next.clone().filter(|_| left > 0) {
            let examined = self.page(store, now, &at, left.min(PAGE), erases, &mut run).await;
            run.ended_at = Timestamp::now();
            match examined {
                // An empty page counts too, so that the number of pages is bounded.
                Ok(examined) => left = left.saturating_sub(examined.max(1)),
                Err(source) => return Err(ExpireError { run: Box::new(run), source }),
            }
        }
        Ok(run)
    }

    /// Looks at one page. Returns its number of conversations.
    async fn page<S: Erase + ?Sized>(
        &self,
        store: &S,
        now: Timestamp,
        at: &ExpiryCursor,
        limit: usize,
        erases: bool,
        run: &mut ExpiryRun,
    ) -> Result<usize, StoreError> {
        let page = store.list(&at.under, at.after.as_ref(), limit).await?;
        let examined = page.conversations.len();
        for listed in page.conversations {
            if self.is_due(&listed, now) {
                run.due += 1;
                if erases && let Some(removed) = store.erase_if(&listed.id, listed.revision).await? {
                    run.removed += ByStore::of(store.system(), removed);
                }
            }
            run.examined += 1;
            run.next = Some(ExpiryCursor { under: at.under.clone(), after: Some(Cursor::after(listed.id)) });
        }
        run.next = match page.next {
            Some(after) => Some(ExpiryCursor { under: at.under.clone(), after: Some(after) }),
            None => self.following(&at.under),
        };
        Ok(examined)
    }

    /// Returns the prefixes to walk, in order: those that no other one contains. Every conversation with a rule is in
    /// exactly one of them.
    fn walked(&self) -> Vec<&Prefix> {
        let is_inside = |inner: &Prefix, outer: &Prefix| {
            inner != outer && (outer.is_all() || inner.as_id().is_some_and(|id| outer.contains(id)))
        };
        let prefixes = self.rules.iter().map(|(prefix, _)| prefix);
        let mut walked: Vec<_> =
            prefixes.filter(|prefix| !self.rules.iter().any(|(outer, _)| is_inside(prefix, outer))).collect();
        walked.sort_by_key(|prefix| prefix.as_str());
        walked
    }

    fn beginning(&self) -> Option<ExpiryCursor> {
        self.walked().first().map(|&under| ExpiryCursor { under: under.clone(), after: None })
    }

    fn following(&self, under: &Prefix) -> Option<ExpiryCursor> {
        let next = self.walked().into_iter().find(|next| next.as_str() > under.as_str())?;
        Some(ExpiryCursor { under: next.clone(), after: None })
    }
}

/// The receipt of one run of the [expiry](Expiry). It contains numbers and no message text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExpiryRun {
    /// The time at which the run began, by the clock of this process. In JSON, it is in milliseconds since the Unix
    /// epoch.
    pub started_at: Timestamp,
    /// The time at which the run ended or failed.
    pub ended_at: Timestamp,
    /// The number of conversations that the run looked at.
    pub examined: u64,
    /// The number of conversations that had expired.
    pub due: u64,
    /// The numbers of things that were removed, by store. They have fewer conversations than [`due`](Self::due) if some
    /// changed in the meantime.
    pub removed: ByStore,
    /// The place at which the next run continues, or `None` if this run reached the end.
    #[serde(skip)]
    pub next: Option<ExpiryCursor>,
}

/// The error for a run of the expiry that stopped.
#[derive(Debug, thiserror::Error)]
#[error("the expiry stopped after {} conversations: {source}", run.examined)]
#[non_exhaustive]
pub struct ExpireError {
    /// The numbers so far, and the place at which to continue.
    pub run: Box<ExpiryRun>,
    /// The cause.
    pub source: StoreError,
}
