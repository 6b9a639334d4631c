//! Work that would hold a thread of the runtime for long.

use std::panic::resume_unwind;

use tokio::runtime::Handle;

/// The size of a body from which it is read on a thread for blocking work. A smaller body takes at most a few tens of
/// milliseconds.
const LARGE: usize = 1 << 20;

/// Does the work of reading a body of this size: on this thread, or on a thread for blocking work if the body is large.
pub(crate) async fn blocking<T: Send + 'static>(size: usize, work: impl Fn() -> T + Clone + Send + 'static) -> T {
    // Without a runtime, the engine refuses the call afterwards.
    let Ok(runtime) = Handle::try_current() else { return work() };
    if size < LARGE {
        return work();
    }
    match runtime.spawn_blocking(work.clone()).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => work(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_large_bodies_are_read_on_another_thread() {
        let here = thread::current().id();
        let is_here = move || thread::current().id() == here;
        assert!(blocking(LARGE - 1, is_here).await);
        assert!(!blocking(LARGE, is_here).await);
    }

    #[tokio::test]
    #[should_panic(expected = "a wire panics")]
    async fn a_panic_reaches_the_caller() {
        blocking(LARGE, || panic!("a wire panics")).await;
    }
}
