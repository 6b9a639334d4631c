//! Calls that are repeated until they succeed or are refused, and listings.

use std::time::Instant;

use tower_chat_history::{
    BoxError, Exchange, StoreError,
    store::{Append, Epoch, Expect, List as _, Revision},
};

use super::{super::Worker, Kept, Life};
use crate::{PATIENCE, people::Owned, rng::SeededRng};

impl Worker {
    /// Repeats a call until it succeeds or is refused. Returns the refusal.
    pub(super) async fn again<T, F>(
        &self,
        owned: Owned,
        call: impl Fn() -> F,
    ) -> Result<Result<T, StoreError>, BoxError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let began = Instant::now();
        loop {
            match call().await {
                Err(error) if error.is_retryable() && began.elapsed() < PATIENCE => {
                    tokio::time::sleep(super::super::PAUSE / 5).await;
                }
                Err(error) if error.is_retryable() => {
                    self.output.violation(format!("a call for {owned} failed for {PATIENCE:?}: {error}"))?;
                    return Ok(Err(error));
                }
                done => return Ok(done),
            }
        }
    }

    /// Appends an exchange, which must be stored. Returns the revision, or `None` after a violation.
    pub(super) async fn append(
        &self,
        owned: Owned,
        exchange: Exchange,
        revision: Option<Revision>,
        epoch: Epoch,
    ) -> Result<Option<Revision>, BoxError> {
        let id = owned.id()?;
        let expect = revision.map_or(Expect::Absent, Expect::Exactly);
        let append = Append::new(expect, exchange).since(Some(epoch));
        match self.again(owned, || self.used.append(&id, append.clone())).await? {
            Ok(appended) => Ok(Some(appended.revision)),
            Err(error) => {
                self.output.violation(format!("an exchange of {owned} was refused: {error}"))?;
                Ok(None)
            }
        }
    }

    /// Lists the conversations of a person in small pages: exactly those that exist, as they are.
    pub(super) async fn check_listing(&self, life: &Life, rng: &mut SeededRng) -> Result<(), BoxError> {
        let (under, limit) = (life.person.prefix()?, 1 + rng.index(4));
        let any = life.person.at(0);
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let Ok(page) = self.again(any, || self.used.list(&under, after.as_ref(), limit)).await? else {
                return Ok(self.output.violation(format!("the conversations under {under} cannot be listed"))?);
            };
            listed.extend(page.conversations);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let mut expected = Vec::new();
        for (owned, Kept { life, revision, bytes, .. }) in life.person.all_places().zip(life.conversations) {
            if let Some(revision) = revision {
                expected.push((owned.id()?, revision, bytes, owned.labels(life)?));
            }
        }
        expected.sort_by(|one, other| one.0.as_str().cmp(other.0.as_str()));
        let found: Vec<_> =
            listed.into_iter().map(|entry| (entry.id, entry.revision, entry.bytes, entry.labels)).collect();
        if found != expected {
            let ids = |all: &[(tower_chat_history::ConversationId, Revision, u64, _)]| {
                all.iter()
                    .map(|(id, revision, bytes, _)| format!("{id} {revision} {bytes}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let (found, expected) = (ids(&found), ids(&expected));
            self.output.violation(format!("under {under} is listed: {found}. It must be: {expected}"))?;
        }
        Ok(())
    }
}
