//! Removing what a truncation or a prune took off the log, bit by bit.

use tower_chat_history_core::{ConversationId, StoreError};

use crate::{
    call::Shared,
    error::{Damaged, Misunderstood},
    scripts,
};

/// How many exchanges the server removes in one step, between which it serves others: about a millisecond.
const STEP: u64 = 1_000;

/// How often there may be more left than before, since others remove from the log as well.
const GROWTHS: usize = 16;

pub(crate) async fn sweep(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let call = shared.call(&scripts::SWEEP, id).number(STEP);
    let (mut left, mut growths) = (u64::MAX, 0);
    while left > 0 {
        let mut reply = shared.run(&call).await?;
        if reply.word != "swept" {
            return Err(Misunderstood::error());
        }
        let now = reply.number()?;
        growths += usize::from(now >= left);
        if growths > GROWTHS {
            return Err(Damaged::error(id, 0));
        }
        left = now;
    }
    Ok(())
}
