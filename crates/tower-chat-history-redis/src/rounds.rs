//! Calls of several steps, between which others may change what the first one has read.

use std::time::Duration;

use tokio::time::sleep;
use tower_chat_history_core::{Incarnation, StoreError};

use crate::error::Busy;

/// The most rounds of one call.
const MOST: u32 = 16;

/// The longest pause before the third round. Each further one may be twice as long, up to the longest of all.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// The rounds of one call: it begins again where somebody else was quicker.
#[derive(Debug)]
pub(crate) struct Rounds {
    made: u32,
    pause: Duration,
}

impl Rounds {
    pub(crate) const fn new() -> Self {
        Self { made: 1, pause: PAUSE }
    }

    /// Returns when it is time for another round, or says that there is none.
    ///
    /// The second one does not wait. The others do, for random times: calls that get in each other's way go apart, and
    /// a conversation that is changed all the time is not asked for all the time.
    pub(crate) async fn again(&mut self) -> Result<(), StoreError> {
        if self.made >= MOST {
            return Err(StoreError::unavailable(Busy));
        }
        if self.made > 1 {
            let [random, ..] = *Incarnation::random().as_bytes();
            sleep(self.pause * u32::from(random) / u32::from(u8::MAX)).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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
    async fn pauses_grow_and_rounds_end() {
        let (mut rounds, began) = (Rounds::new(), Instant::now());
        rounds.again().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "the second round begins at once");
        for _ in 2..MOST {
            rounds.again().await.unwrap();
        }
        let most = PAUSE * 64 + LONGEST_PAUSE * MOST;
        assert!(began.elapsed() > LONGEST_PAUSE / 4 && began.elapsed() < most, "{:?}", began.elapsed());
        assert!(rounds.again().await.unwrap_err().is_retryable());
    }
}
