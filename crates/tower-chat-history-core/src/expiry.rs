//! Expiry of conversations by their age.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

use crate::{
    conversation_id::{ConversationId, Prefix},
    exchange::Timestamp,
    management::TARGET,
    stopped::Stopped,
    store::{ByStore, Cursor, Erase, FailedConversation, Listed, Removed, StoreError},
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
/// use tower_chat_history_core::{Erase, Expiry, ExpiryRule, ExpiryRun, Prefix, Stopped, Timestamp};
///
/// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
///
/// /// Erases conversations that have been idle for 30 days, but keeps those of the legal department.
/// async fn expire(store: &dyn Erase, legal: Prefix) -> Result<u64, Stopped<ExpiryRun>> {
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
    /// at the time `now`. A conversation that changes after it was looked at is not erased. One that is damaged, or
    /// that cannot be erased, is [counted](ExpiryRun::failed) and passed, so that it does not prevent the expiry of the
    /// others.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or if it is [not available](StoreError::is_retryable).
    /// [`Stopped::done`] says what was erased before, and at which conversation to continue.
    pub async fn run_once<S: Erase + ?Sized>(
        &self,
        store: &S,
        now: Timestamp,
        from: Option<&ExpiryCursor>,
        limit: usize,
    ) -> Result<ExpiryRun, Stopped<ExpiryRun>> {
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
    ) -> Result<ExpiryRun, Stopped<ExpiryRun>> {
        self.run(store, now, from, limit, false).await
    }

    async fn run<S: Erase + ?Sized>(
        &self,
        store: &S,
        now: Timestamp,
        from: Option<&ExpiryCursor>,
        limit: usize,
        erases: bool,
    ) -> Result<ExpiryRun, Stopped<ExpiryRun>> {
        let started_at = Timestamp::now();
        let mut run = ExpiryRun::begin(started_at, from.cloned().or_else(|| self.beginning()));
        let mut left = limit;
        while let Some(at) = run.next.clone().filter(|_| left > 0) {
            let examined = self.page(store, now, &at, left.min(PAGE), erases, &mut run).await;
            run.ended_at = Timestamp::now();
            match examined {
                // An empty page counts too, so that the number of pages is bounded.
                Ok(examined) => left = left.saturating_sub(examined.max(1)),
                Err(source) => return Err(Stopped::after(run, source)),
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
        let mut page = store.list(&at.under, at.after.as_ref(), limit).await?;
        let examined = page.len();
        let next = page.next.take();

        for entry in page.into_entries() {
            let last = match entry {
                Err(damaged) => {
                    run.damaged += 1;
                    damaged.id
                }
                Ok(listed) => {
                    if self.is_due(&listed, now) {
                        if erases {
                            erase(store, &listed, run).await?;
                        }
                        run.due += 1;
                    }
                    listed.id
                }
            };
            run.examined += 1;
            run.next = Some(ExpiryCursor { under: at.under.clone(), after: Some(Cursor::after(last)) });
        }

        run.next = match next {
            Some(after) => Some(ExpiryCursor { under: at.under.clone(), after: Some(after) }),
            None => self.following(&at.under),
        };
        Ok(examined)
    }

    /// Returns the prefixes to walk, in order: those that no other one contains. Every conversation with a rule is in
    /// exactly one of them.
    fn walked(&self) -> Vec<&Prefix> {
        let mut walked: Vec<&Prefix> = self.rules.iter().map(|(prefix, _)| prefix).collect();
        walked.retain(|prefix| !self.rules.iter().any(|(outer, _)| is_inside(prefix, outer)));
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

/// Returns `true` if everything under one prefix is also under another one.
fn is_inside(inner: &Prefix, outer: &Prefix) -> bool {
    inner != outer && (outer.is_all() || inner.as_id().is_some_and(|id| outer.contains(id)))
}

/// Erases an expired conversation if it has not changed. A failure that repetition does not mend is counted.
async fn erase<S: Erase + ?Sized>(store: &S, listed: &Listed, run: &mut ExpiryRun) -> Result<(), StoreError> {
    match store.erase_if(&listed.id, listed.revision).await {
        Ok(None) => Ok(()),
        Ok(Some(removed)) => {
            emit(&listed.id, &removed);
            run.removed += ByStore::of(store.system(), removed);
            Ok(())
        }
        Err(error) => {
            let (removed, error) = error.into_erased();
            emit(&listed.id, &removed.total());
            run.removed += removed;
            if error.is_retryable() {
                return Err(error);
            }
            run.failed += 1;
            run.first_failure.get_or_insert_with(|| FailedConversation::new(listed.id.clone(), error));
            Ok(())
        }
    }
}

fn emit(id: &ConversationId, removed: &Removed) {
    tracing::info!(
        target: TARGET,
        action = "expire",
        conversation = %id,
        conversations = removed.conversations,
        exchanges = removed.exchanges,
        bytes = removed.bytes,
    );
}

/// The receipt of one run of the [expiry](Expiry). It contains ids and numbers, and no message text.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ExpiryRun {
    /// The time at which the run began, by the clock of this process. In JSON, it is in milliseconds since the Unix
    /// epoch.
    pub started_at: Timestamp,
    /// The time at which the run ended or failed.
    pub ended_at: Timestamp,
    /// The number of conversations that the run looked at, including the damaged ones.
    pub examined: u64,
    /// The number of conversations whose times cannot be read ([`Listing::damaged`](crate::Listing::damaged)). They do
    /// not expire.
    pub damaged: u64,
    /// The number of conversations that had expired.
    pub due: u64,
    /// The number of conversations that had expired and could not be erased, for a reason that repetition does not
    /// mend. They stay, and the run continued after them.
    pub failed: u64,
    /// The first of them. In JSON, it has the id, the kind of the error and its text.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "failure")]
    pub first_failure: Option<FailedConversation>,
    /// The numbers of things that were removed, by store. They have fewer conversations than [`due`](Self::due) if some
    /// changed in the meantime or [failed](Self::failed).
    pub removed: ByStore,
    /// The place at which the next run continues, or `None` if this run reached the end.
    #[serde(skip)]
    pub next: Option<ExpiryCursor>,
}

impl ExpiryRun {
    fn begin(now: Timestamp, next: Option<ExpiryCursor>) -> Self {
        Self {
            started_at: now,
            ended_at: now,
            examined: 0,
            damaged: 0,
            due: 0,
            failed: 0,
            first_failure: None,
            removed: ByStore::default(),
            next,
        }
    }
}

#[allow(clippy::ref_option)] // serde passes a reference.
fn failure<S: Serializer>(failure: &Option<FailedConversation>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(FailedConversation { id, error }) = failure else { return serializer.serialize_none() };
    let mut fields = serializer.serialize_struct("FailedConversation", 3)?;
    fields.serialize_field("id", id)?;
    fields.serialize_field("kind", error.kind())?;
    fields.serialize_field("error", &error.to_string())?;
    fields.end()
}

impl fmt::Display for Stopped<ExpiryRun> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the expiry stopped after {} conversations: {}", self.done.examined, self.source)
    }
}
