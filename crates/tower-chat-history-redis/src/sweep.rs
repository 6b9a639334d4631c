//! Removing what a truncation or a prune took off the log, bit by bit.

use tower_chat_history_core::{ConversationId, StoreError};

use crate::{call::Shared, error::Misunderstood, scripts};

/// How many exchanges the server removes in one step, between which it serves others: about a millisecond.
const STEP: u64 = 1_000;

pub(crate) async fn sweep(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let call = shared.call(&scripts::SWEEP, id).number(STEP);
    loop {
        let mut reply = shared.run(&call).await?;
        if reply.word != "swept" {
            return Err(Misunderstood::error());
        }
        if reply.number()? == 0 {
            return Ok(());
        }
    }
}
