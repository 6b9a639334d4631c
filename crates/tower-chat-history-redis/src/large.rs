//! Large calls: those that transfer much. Only a few of them run at a time.
//!
//! All calls share one connection, on which the server answers in order, and answers are read on the threads of the
//! runtime. Without a limit, many large answers would delay the small calls of all other conversations. A call waits
//! for its permit before it is sent, so its response timeout does not count this wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest size of a call that is not large, in bytes: that of its arguments, or that of the messages, the summary
/// or the attachments in its answer.
pub(crate) const MAX_SMALL_BYTES: u64 = 256 << 10;

/// The number of large calls that run at a time.
const AT_A_TIME: usize = 4;

/// The limit that a script has for its answer (see `scripts/large.lua`).
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AnswerLimit {
    /// The script takes no limit.
    NotTaken,
    /// [`MAX_SMALL_BYTES`].
    Small,
    /// The answer may have any size.
    Unlimited,
}

/// The permits of large calls. Calls get them in the order of their requests.
pub(crate) struct LargeCalls(Arc<Semaphore>);

/// The permit of a large call, from before it is sent until its reply is read.
pub(crate) type LargePermit = OwnedSemaphorePermit;

impl LargeCalls {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }

    /// Waits until a large call may run.
    pub(crate) async fn permit(&self) -> Option<LargePermit> {
        // The semaphore is never closed, so this is never `None`.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}
