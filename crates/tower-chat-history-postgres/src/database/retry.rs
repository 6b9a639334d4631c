//! Which failures are tried again, and when.

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::time::{Instant, sleep};

use crate::error::PostgresError;

/// The wait before the second repetition; each further one waits twice as long. The first does not wait.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// After which time no second repetition is begun, whatever the options say. The last try may still wait for the pool, a connection and a lock
/// before [`CALL_TIMEOUT`](super::CALL_TIMEOUT), so that a call reports what failed, and not that it took too long.
const MAX_RETRY_TIME: Duration = Duration::from_secs(40);

/// The tries of one call.
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

    /// Returns when it is time for another try, or the failure if there is to be none.
    pub(crate) async fn again(&mut self, error: PostgresError, pool: &Pool) -> Result<(), PostgresError> {
        if error.is_stale_statement() && !self.prepared_again {
            self.prepared_again = true;
            // What made one connection's statements stale most likely did so to all.
            pool.manager().statement_caches.clear();
            return Ok(());
        }
        if !error.is_repeated() {
            return Err(error);
        }
        if self.repeated == 0 {
            // A pooled connection that has died is no reason to fail: most likely another one works, or can be made.
            self.repeated = 1;
            return Ok(());
        }
        let pause = FIRST_PAUSE * (1 << (self.repeated - 1).min(6));
        if self.began.elapsed() + pause > self.within {
            return Err(error);
        }
        if error.ends_connection() {
            // Two in a row: the others in the pool were lost with them, and need not be tried one by one. Those that were made
            // since are not among them.
            let began = self.began.into_std();
            drop(pool.retain(|_, metrics| metrics.created > began));
        }
        self.repeated += 1;
        sleep(pause).await;
        Ok(())
    }
}
