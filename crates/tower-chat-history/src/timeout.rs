//! Optional time limits.

use std::time::Duration;

use futures_util::future::{Either, FutureExt as _};

/// Returns the future's output, or the limit if the future takes longer. `None` means no limit.
pub(crate) fn timeout<F: Future>(
    limit: Option<Duration>,
    future: F,
) -> impl Future<Output = Result<F::Output, Duration>> {
    match limit {
        Some(limit) => Either::Left(tokio::time::timeout(limit, future).map(move |done| done.map_err(|_| limit))),
        None => Either::Right(future.map(Ok)),
    }
}
