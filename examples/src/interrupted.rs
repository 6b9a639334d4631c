//! The request to end the program.

/// Returns when the program is asked to end: by Ctrl+C, or by the signal that `docker stop` and systemd send. Without
/// handlers for them, the program runs until it is killed.
pub async fn interrupted() {
    tokio::select! {
        () = ctrl_c() => {}
        () = terminated() => {}
    }
}

async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};

    if let Ok(mut signal) = signal(SignalKind::terminate()) {
        signal.recv().await;
    } else {
        std::future::pending::<()>().await;
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending::<()>().await;
}
