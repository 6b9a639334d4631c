//! Repeating calls of several steps, if another call changed the conversation between two of them.

use std::time::Duration;

use tokio::time::sleep;
use tower_chat_history_core::{Incarnation, StoreError};

use crate::error::Contended;

/// The largest number of attempts of one call.
const MAX_ATTEMPTS: u32 = 16;

/// The longest pause before the third attempt. It doubles for each further attempt, up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(64);

/// The attempts of one call. A call starts again if another call changed the conversation between its steps.
#[derive(Debug)]
pub(crate) struct ContentionRetry {
    made: u32,
    pause: Duration,
}

impl ContentionRetry {
    pub(crate) const fn new() -> Self {
        Self { made: 1, pause: FIRST_PAUSE }
    }

    /// Waits until it is time for another attempt. Fails with `Unavailable` if all attempts have been made.
    ///
    /// The second attempt does not wait. Further attempts wait for a random time, so that conflicting calls do not stay
    /// in step, and a conversation that changes often is not queried without a pause.
    pub(crate) async fn again(&mut self) -> Result<(), StoreError> {
        if self.made >= MAX_ATTEMPTS {
            return Err(StoreError::unavailable(Contended));
        }
        if self.made > 1 {
            let [random, ..] = *Incarnation::random().as_bytes();
            sleep(self.pause * u32::from(random) / u32::from(u8::MAX)).await;
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        }
        self.made += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_attempts_end() {
        let (mut rounds, began) = (ContentionRetry::new(), Instant::now());
        rounds.again().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "the second round begins at once");
        for _ in 2..MAX_ATTEMPTS {
            rounds.again().await.unwrap();
        }
        let most = FIRST_PAUSE * 64 + MAX_PAUSE * MAX_ATTEMPTS;
        assert!(began.elapsed() > MAX_PAUSE / 4 && began.elapsed() < most, "{:?}", began.elapsed());
        assert!(rounds.again().await.unwrap_err().is_retryable());
    }
}
