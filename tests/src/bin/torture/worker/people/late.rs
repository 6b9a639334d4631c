//! Late calls: first turns whose load came before a removal, and appends to the removed incarnation.

use tower_chat_history::{
    BoxError, StoreError,
    store::{Append, Expect, Load, Loaded},
};

use super::{super::Worker, Life};
use crate::{people::Owned, protocol::WorkerMessage};

/// The position in the log that no exchange of a lane has.
const LATE: u64 = 100;

impl Worker {
    /// Makes late calls for conversations that are being removed. Whatever their outcome is, the removal comes after
    /// those that succeed.
    ///
    /// They are first turns under the condition that there is no conversation, so none of them succeeds: either the
    /// conversation is still there, or it was removed after their load.
    pub(super) async fn late_calls(&self, life: &Life, removed: &[Owned]) {
        for owned in removed {
            let kept = life.conversations[owned.place];
            // One that is absent may have expired, and a first turn may begin it again.
            let (Some(_), Some(epoch)) = (kept.revision, kept.epoch) else { continue };
            let (Ok(id), Ok(exchange)) = (owned.id(), owned.exchange(kept.life, LATE)) else { continue };
            let append = Append::new(Expect::Absent, exchange).since(Some(epoch));
            // A violation is found by the listing after the removal.
            drop(self.used.append(&id, append).await);
        }
    }

    /// Checks that removed conversations are absent, and that late calls for them are refused.
    pub(super) async fn check_late_calls(&self, life: &Life, removed: &[Owned]) -> Result<(), BoxError> {
        let mut refused = 0;
        for owned in removed {
            let (kept, id) = (life.conversations[owned.place], owned.id()?);
            match self.again(*owned, || self.used.load(&id, Load::new())).await? {
                Ok(Loaded::Absent(_)) => {}
                other => self.output.violation(format!("{owned} was removed and is loaded: {other:.200?}"))?,
            }
            let (Some(epoch), Some(ended)) = (kept.epoch, kept.ended) else { continue };
            let exchange = owned.exchange(kept.life, LATE)?;
            for append in [
                Append::new(Expect::Absent, exchange.clone()).since(Some(epoch)),
                Append::new(Expect::AnyOrCreate, exchange.clone()).since(Some(epoch)),
                Append::new(Expect::AnyIn(ended), exchange.clone()),
            ] {
                let expect = append.expect;
                match self.again(*owned, || self.used.append(&id, append.clone())).await? {
                    Err(StoreError::Gone) => refused += 1,
                    other => {
                        self.output.violation(format!("a late turn of {owned} that expects {expect:?}: {other:?}"))?;
                    }
                }
            }
        }
        Ok(self.output.write(&WorkerMessage::Late { refused })?)
    }
}
