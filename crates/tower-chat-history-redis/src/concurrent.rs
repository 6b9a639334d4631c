//! Running calls for several conversations at a time.

use futures_util::{StreamExt as _, stream};

/// The number of calls that run at a time. They share one connection, so they take few round trips.
const AT_A_TIME: usize = 64;

/// Runs the calls, and returns their results in the same order.
pub(crate) async fn all<F: Future>(calls: Vec<F>) -> Vec<F::Output> {
    stream::iter(calls).buffered(AT_A_TIME).collect().await
}
