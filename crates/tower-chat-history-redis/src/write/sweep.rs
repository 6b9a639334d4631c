//! Removing in small steps the elements that a truncation or a prune has cut off the log.

use tower_chat_history_core::{ConversationId, StoreError};

use crate::{
    call::Shared,
    error::{Contended, UnexpectedReply},
    scripts,
};

/// The number of exchanges that the server removes in one step, which takes about a millisecond.
const STEP_EXCHANGES: u64 = 1_000;

/// The number of times that the rest may grow during a sweep. It grows if another call truncates or prunes the log. If
/// it grows more often, the call fails.
const MAX_GROWTHS: usize = 16;

/// Removes what is left, before a call is refused with `Gone`: the call may be the repetition of one whose caller left
/// before everything was removed.
pub(super) async fn sweep_if_gone<T>(
    shared: &Shared,
    id: &ConversationId,
    done: Result<T, StoreError>,
) -> Result<T, StoreError> {
    if matches!(done, Err(StoreError::Gone)) {
        sweep(shared, id).await?;
    }
    done
}

pub(super) async fn sweep(shared: &Shared, id: &ConversationId) -> Result<(), StoreError> {
    let call = shared.call(&scripts::SWEEP, id).number(STEP_EXCHANGES);
    let (mut left, mut growths) = (u64::MAX, 0);
    while left > 0 {
        let mut reply = shared.run(&call).await?;
        if reply.word != "swept" {
            return Err(UnexpectedReply::error());
        }
        let now = reply.number()?;
        growths += usize::from(now >= left);
        if growths > MAX_GROWTHS {
            return Err(StoreError::unavailable(Contended));
        }
        left = now;
    }
    Ok(())
}
