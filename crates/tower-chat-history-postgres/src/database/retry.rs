//! Repeating calls after transient failures.

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::time::{Instant, sleep};

use crate::error::PostgresError;

/// The pause before the second repetition. Each further pause is twice as long. The first repetition does not wait.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// The limit of [`PostgresOptions::retry_for`](crate::PostgresOptions::retry_for). It leaves the last attempt time to
/// wait for the pool, a connection and a lock before [`CALL_TIMEOUT`](super::CALL_TIMEOUT). The call then returns its
/// own failure, and not only the error that it took too long.
const MAX_RETRY_TIME: Duration = Duration::from_secs(40);

/// The repetitions of one call.
pub(crate) struct Retry {
    began: Instant,
    within: Duration,
    repeated: u32,
    prepared_again: bool,
}

impl Retry {
    pub(crate) fn new(within: Duration) -> Self {
        Self { began: Instant::now(), within: within.min(MAX_RETRY_TIME), repeated: 0, prepared_again: false }
    }

    /// Waits until it is time for another attempt. Returns the failure if there is to be none.
    pub(crate) async fn again(&mut self, error: PostgresError, pool: &Pool) -> Result<(), PostgresError> {
        if error.is_stale_statement() && !self.prepared_again {
            self.prepared_again = true;
            // If the statements of one connection are stale, those of all connections most likely are.
            pool.manager().statement_caches.clear();
            return Ok(());
        }
        if !error.is_repeated() {
            return Err(error);
        }
        if self.repeated == 0 {
            // The connection from the pool may have been lost long ago. Another one probably works, or a new one can be
            // made.
            self.repeated = 1;
            return Ok(());
        }
        let pause = FIRST_PAUSE * (1 << (self.repeated - 1).min(6));
        if self.began.elapsed() + pause > self.within {
            return Err(error);
        }
        if error.ends_connection() {
            // After two lost connections in a row, assume that the older ones in the pool are lost as well. They are
            // closed without being tried. Connections made since the call began are kept.
            let began = self.began.into_std();
            drop(pool.retain(|_, metrics| metrics.created > began));
        }
        self.repeated += 1;
        sleep(pause).await;
        Ok(())
    }
}
