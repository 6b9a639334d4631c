//! Large calls: those that transfer much. Only a few of them run at a time.
//!
//! All calls share the connection to a server, on which it answers in order. Without a limit, many large answers would
//! delay the small calls of all other conversations.

use std::{io, sync::Arc};

use redis::{Cmd, RedisResult, Value};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, timeout_at},
};

use crate::connection::Connection;

/// The largest size of a call that is not large, in bytes: that of its arguments, or that of the texts that its script
/// counts. A server sends an answer of this size in less than a millisecond.
pub(crate) const MAX_SMALL_BYTES: u64 = 256 << 10;

/// The number of large calls of a store that run at a time. More do not load more windows per second: the server runs
/// one script at a time.
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

/// The permits of large calls. Calls get them about in the order of their requests.
pub(crate) struct LargeCalls(Arc<Semaphore>);

impl LargeCalls {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }

    /// Sends a command when it has a permit, for which it waits until `until`. The answer must be there at `limit`.
    ///
    /// A task of its own does this, and ends at `limit`. So a caller that no longer polls its call keeps no permit, and
    /// the answer to a caller that has left still counts as long as the server sends it.
    pub(crate) async fn send(
        &self,
        connection: &Connection,
        command: &Arc<Cmd>,
        until: Instant,
        limit: Instant,
    ) -> RedisResult<Value> {
        let (mut sender, receiver) = oneshot::channel();
        let (permits, connection, command) = (Arc::clone(&self.0), connection.clone(), Arc::clone(command));
        tokio::spawn(async move {
            let permit = tokio::select! {
                biased;
                () = sender.closed() => return,
                permit = timeout_at(until, permits.acquire()) => permit,
            };
            let answer = match permit {
                Ok(_permit) => within(limit, connection.send(&command)).await,
                Err(elapsed) => Err(io::Error::from(elapsed).into()),
            };
            // The caller may have left.
            sender.send(answer).ok();
        });
        // If the runtime shuts down, the task does not answer.
        receiver.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::Interrupted).into()))
    }
}

/// Returns the answer, or an error if there is none at `limit`.
pub(crate) async fn within(limit: Instant, answer: impl Future<Output = RedisResult<Value>>) -> RedisResult<Value> {
    timeout_at(limit, answer).await.unwrap_or_else(|elapsed| Err(io::Error::from(elapsed).into()))
}
