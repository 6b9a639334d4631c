//! Erasure of what conversations quote of other conversations.

use std::{fmt, sync::Arc};

use serde::Serialize;

use crate::{
    conversation_id::{ConversationId, Prefix},
    management::TARGET,
    seq::Seq,
    stopped::Stopped,
    store::{Cursor, Derived, FailedConversation, List, Listed, Prune, PruneTo, StoreError},
};

/// The largest number of conversations that are listed per call of the store.
const PAGE: usize = 200;

/// The largest number of times that a conversation is pruned that others truncate or prune at the same time.
const MAX_ATTEMPTS: usize = 5;

/// Removes the [recalled messages](crate::Exchange::recalled) that cite other conversations, from conversations under a
/// prefix. Looks at `limit` conversations or fewer, after the cursor of the last call if there is one.
///
/// If recall covers other conversations, recalled messages quote them. An erasure of the quoted conversation leaves the
/// quotes. Call this function after the erasure, with the prefix that recall covers, until it returns no cursor. If all
/// conversations under that prefix are erased, no quote is left, and no call is needed.
///
/// Each conversation is [pruned](Prune) with [`Derived::Erase`], and no exchange is removed. If a conversation has such
/// recalled messages, or if its log was pruned before, it continues in a new incarnation, and the other data that
/// `Derived::Erase` names is removed, too: summaries and provenances. Other conversations are not changed.
///
/// A call that has searched before the erasure, and saves its reply after this function has looked at its conversation,
/// can store another quote. To be sure, repeat the function after the longest time that a call takes.
///
/// ```
/// use tower_chat_history_core::{ErasedQuotes, List, Prefix, Prune, Stopped, erase_quotes};
///
/// /// Removes what the conversations of a user quote of each other.
/// async fn forget<S: Prune + List>(store: &S, user: &Prefix) -> Result<u64, Stopped<ErasedQuotes>> {
///     let (mut after, mut changed) = (None, 0);
///     loop {
///         let run = erase_quotes(store, user, after.as_ref(), 1_000).await?;
///         (after, changed) = (run.next, changed + run.changed);
///         if after.is_none() {
///             return Ok(changed);
///         }
///     }
/// }
/// ```
///
/// # Errors
///
/// Returns an error if the store cannot be reached, or if a listing fails. [`Stopped::done`] says what was done
/// before, and at which conversation to continue. A conversation that is damaged, or that cannot be pruned for another
/// reason, is counted as [failed](ErasedQuotes::failed).
pub async fn erase_quotes<S: Prune + List + ?Sized>(
    store: &S,
    under: &Prefix,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<ErasedQuotes, Stopped<ErasedQuotes>> {
    let mut run = ErasedQuotes { examined: 0, changed: 0, failed: 0, first_failure: None, next: after.cloned() };
    let mut left = limit.max(1);
    while left > 0 {
        match page(store, under, left.min(PAGE), &mut run).await {
            // An empty page counts too, so that the number of pages is bounded.
            Ok(examined) => left = left.saturating_sub(examined.max(1)),
            Err(source) => return Err(Stopped::after(run, source)),
        }
        if run.next.is_none() {
            break;
        }
    }
    Ok(run)
}

/// Looks at one page. Returns its number of conversations.
async fn page<S: Prune + List + ?Sized>(
    store: &S,
    under: &Prefix,
    limit: usize,
    run: &mut ErasedQuotes,
) -> Result<usize, StoreError> {
    let page = store.list(under, run.next.as_ref(), limit).await?;
    let examined = page.len();
    let next = page.next.clone();

    for entry in page.into_entries() {
        let (id, changed) = match entry {
            Ok(listed) => (listed.id.clone(), erase_of(store, listed).await),
            Err(damaged) => {
                let FailedConversation { id, error } = damaged;
                run.fail(id.clone(), error);
                (id, Ok(false))
            }
        };
        match changed {
            Ok(changed) => run.changed += u64::from(changed),
            Err(error) if error.is_retryable() => return Err(error),
            // It must not keep the quotes of the conversations after it.
            Err(error) => run.fail(id.clone(), Arc::new(error)),
        }

        run.examined += 1;
        run.next = Some(Cursor::after(id));
    }

    run.next = next;
    Ok(examined)
}

/// Removes the quotes of one conversation. Returns `true` if it was changed.
async fn erase_of<S: Prune + List + ?Sized>(store: &S, mut listed: Listed) -> Result<bool, StoreError> {
    for _ in 0..MAX_ATTEMPTS {
        let incarnation = listed.revision.incarnation();
        match store.prune(&listed.id, incarnation, PruneTo::From(Seq::FIRST), Derived::Erase).await {
            Ok(pruned) => {
                let is_changed = pruned.revision.incarnation() != incarnation;
                if is_changed {
                    tracing::info!(target: TARGET, action = "erase_quotes", conversation = %listed.id);
                }
                return Ok(is_changed);
            }
            // It was erased or truncated since it was listed.
            Err(StoreError::Gone) => match store.describe(&listed.id).await? {
                Some(now) => listed = now,
                None => return Ok(false),
            },
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Gone)
}

/// The numbers of one call of [`erase_quotes`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ErasedQuotes {
    /// The number of conversations that the call looked at.
    pub examined: u64,
    /// The number of conversations from which something was removed.
    pub changed: u64,
    /// The number of conversations that are damaged, or that the store could not prune. They may still have quotes.
    pub failed: u64,
    /// The first of them.
    #[serde(skip)]
    pub first_failure: Option<FailedConversation>,
    /// The place at which the next call continues, or `None` if this call reached the end.
    #[serde(skip)]
    pub next: Option<Cursor>,
}

impl ErasedQuotes {
    fn fail(&mut self, id: ConversationId, error: Arc<StoreError>) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(|| FailedConversation { id, error });
    }
}

impl fmt::Display for Stopped<ErasedQuotes> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the erasure of quotes stopped after {} conversations: {}", self.done.examined, self.source)
    }
}
