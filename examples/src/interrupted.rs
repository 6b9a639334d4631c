//! The request to end the program.

/// Begins to listen for the request to end the program: Ctrl+C, or the signal that `docker stop` and systemd send. The
/// future waits for it. Call this within a runtime, and before the program reports that it is ready. Without handlers
/// for the signals, the program runs until it is killed.
#[cfg(unix)]
pub fn interrupted() -> impl Future<Output = ()> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt()).ok();
    let mut terminate = signal(SignalKind::terminate()).ok();
    async move {
        tokio::select! {
            Some(()) = received(interrupt.as_mut()) => {}
            Some(()) = received(terminate.as_mut()) => {}
            else => std::future::pending().await,
        }
    }
}

/// Waits for a signal. Returns `None` if it cannot be received.
#[cfg(unix)]
async fn received(signal: Option<&mut tokio::signal::unix::Signal>) -> Option<()> {
    signal?.recv().await
}

/// Waits for the request to end the program, which is Ctrl+C.
#[cfg(not(unix))]
pub async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
