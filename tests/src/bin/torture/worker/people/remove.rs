//! Removing conversations of a person in every way, while late calls run.

use std::time::Duration;

use futures_util::future::join;
use tower_chat_history::{
    BoxError,
    store::{EraseExt as _, Expiry, ExpiryRule, Prefix, Removed, Seq, Timestamp, Truncate as _},
};

use super::{super::Worker, Kept, Life};
use crate::{
    people::{NEW, OLD, Owned, State, UNDER_ERASED},
    rng::SeededRng,
};

/// The number of times that an erasure is tried.
const MAX_ERASURES: usize = 1_000;

/// A way to remove conversations.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Delete,
    Truncate,
    Expire,
    Erase,
}

pub(super) const WAYS: [Way; 4] = [Way::Delete, Way::Truncate, Way::Expire, Way::Erase];

impl Worker {
    /// Removes conversations of a person. Returns those that were removed and cannot begin again by a late first turn.
    pub(super) async fn remove(&self, life: &mut Life, way: Way, rng: &mut SeededRng) -> Result<Vec<Owned>, BoxError> {
        let under: Vec<Owned> = (0..UNDER_ERASED).map(|place| life.person.at(place)).collect();
        let one = life.person.at(rng.index(life.conversations.len()));
        match way {
            Way::Delete => {
                self.delete(life, one).await?;
                Ok(vec![one])
            }
            Way::Truncate => {
                self.truncate(life, one).await?;
                Ok(vec![one])
            }
            Way::Expire => {
                self.expire(life, &under).await?;
                Ok(Vec::new())
            }
            Way::Erase => {
                self.erase(life, life.person.erased()?, under.clone()).await?;
                Ok(under)
            }
        }
    }

    fn begin_removal(&self, life: &Life, removed: &[Owned]) -> Result<(), BoxError> {
        for owned in removed {
            let Kept { life, revision, .. } = life.conversations[owned.place];
            if revision.is_some() {
                self.report(*owned, State::Removing { life })?;
            }
        }
        Ok(())
    }

    fn end_removal(&self, life: &mut Life, removed: &[Owned]) -> Result<(), BoxError> {
        for owned in removed {
            let kept = &mut life.conversations[owned.place];
            if let Some(revision) = kept.revision.take() {
                kept.ended = Some(revision.incarnation());
                self.report(*owned, State::Removed)?;
            }
        }
        Ok(())
    }

    async fn delete(&self, life: &mut Life, owned: Owned) -> Result<(), BoxError> {
        self.begin_removal(life, &[owned])?;
        let id = owned.id()?;
        let (deleted, ()) = join(self.again(owned, || self.store.delete(&id)), self.late_calls(life, &[owned])).await;
        if let Err(error) = deleted? {
            self.output.violation(format!("{owned} cannot be deleted: {error}"))?;
        }
        self.end_removal(life, &[owned])
    }

    /// Truncates a log to nothing, which counts as a deletion.
    async fn truncate(&self, life: &mut Life, owned: Owned) -> Result<(), BoxError> {
        let Some(revision) = life.conversations[owned.place].revision else { return Ok(()) };
        self.begin_removal(life, &[owned])?;
        let id = owned.id()?;
        let truncating = self.again(owned, || self.store.truncate(&id, revision, Seq::FIRST, None));
        let (truncated, ()) = join(truncating, self.late_calls(life, &[owned])).await;
        match truncated? {
            Ok(truncated) if truncated.revision.is_none() && truncated.removed == revision.len() => {}
            // An attempt whose answer was lost has truncated it. `check_listing` finds out if it has not.
            Err(tower_chat_history::StoreError::Gone) => {}
            other => self.output.violation(format!("{owned} cannot be truncated to nothing: {other:?}"))?,
        }
        self.end_removal(life, &[owned])
    }

    /// Lets the old conversations of the person expire.
    async fn expire(&self, life: &mut Life, removed: &[Owned]) -> Result<(), BoxError> {
        self.begin_removal(life, removed)?;
        let idle = Duration::from_millis(NEW - OLD);
        let expiry = Expiry::new().under(life.person.prefix()?, ExpiryRule::Idle(idle));
        let (mut from, mut conversations, mut lost) = (None, 0, false);
        for _ in 0..MAX_ERASURES {
            let run = match expiry.run_once(&self.store, Timestamp::from_unix_millis(NEW), from.as_ref(), 3).await {
                Ok(run) => run,
                Err(failed) if failed.source.is_retryable() => {
                    lost = true;
                    *failed.done
                }
                Err(failed) => return Ok(self.output.violation(format!("an expiry failed: {failed}"))?),
            };
            conversations += run.removed.total().conversations;
            from = run.next;
            if from.is_none() {
                break;
            }
        }
        let expected = removed.iter().filter(|owned| life.conversations[owned.place].revision.is_some()).count() as u64;
        if from.is_some() || conversations > expected || conversations < expected && !lost {
            self.output.violation(format!("{conversations} of {expected} conversations expired"))?;
        }
        self.end_removal(life, removed)
    }

    /// Erases everything under a prefix, and compares the receipt with what was there. If the answer of a page was
    /// lost, the receipt does not contain it.
    pub(super) async fn erase(&self, life: &mut Life, under: Prefix, removed: Vec<Owned>) -> Result<(), BoxError> {
        self.begin_removal(life, &removed)?;
        let (erased, ()) = join(self.erase_to_the_end(&under), self.late_calls(life, &removed)).await;
        let Some((numbers, lost)) = erased? else { return Ok(()) };
        let mut expected = Removed::default();
        for owned in &removed {
            let Kept { life, revision, bytes, .. } = life.conversations[owned.place];
            let Some(revision) = revision else { continue };
            expected.conversations += 1;
            expected.exchanges += revision.len();
            expected.exchange_ids += revision.len();
            expected.bytes += bytes;
            expected.labels += u64::from(!owned.labels(life)?.is_empty());
        }
        // Names are removed whenever a store finds that they have no conversation.
        let found = [numbers.conversations, numbers.exchanges, numbers.exchange_ids, numbers.bytes, numbers.labels];
        let most = [expected.conversations, expected.exchanges, expected.exchange_ids, expected.bytes, expected.labels];
        if found.iter().zip(most).any(|(found, most)| *found > most) || found != most && !lost {
            self.output.violation(format!("a receipt for {under} says {found:?}. It must be {most:?}"))?;
        }
        self.end_removal(life, &removed)
    }

    /// Repeats an erasure until it is complete. Returns the sum of the receipts, and true if answers were lost.
    async fn erase_to_the_end(&self, under: &Prefix) -> Result<Option<(Removed, bool)>, BoxError> {
        let (mut numbers, mut lost) = (Removed::default(), false);
        for _ in 0..MAX_ERASURES {
            match self.store.erase_all(under).await {
                Ok(receipt) => {
                    numbers += receipt.removed.total();
                    if receipt.is_complete() {
                        return Ok(Some((numbers, lost)));
                    }
                }
                Err(failed) if failed.source.is_retryable() => {
                    lost = true;
                    numbers += failed.done.removed.total();
                    tokio::time::sleep(super::super::PAUSE / 5).await;
                }
                Err(failed) => {
                    self.output.violation(format!("the erasure of {under} failed: {failed}"))?;
                    return Ok(None);
                }
            }
        }
        self.output.violation(format!("the erasure of {under} was not complete after {MAX_ERASURES} times"))?;
        Ok(None)
    }
}
