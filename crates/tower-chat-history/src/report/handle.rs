//! Sending a report to the caller that requested it.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_channel::oneshot;
use futures_util::FutureExt as _;

use super::TurnReport;

/// Receives a call's [`TurnReport`].
///
/// The handle resolves when the turn has ended: after the save of a unary call, or after the end (or the drop) of a
/// stream. It resolves to `None` if no turn ended in this way, because the call failed (its caller has the error) or
/// was cancelled. If a call is cloned and retried, there is one handle for all attempts.
pub struct ReportHandle(oneshot::Receiver<Arc<TurnReport>>);

/// The sender of a [`ReportHandle`], shared by the clones of a call.
#[derive(Clone)]
pub(crate) struct ReportSender(Arc<Mutex<Option<oneshot::Sender<Arc<TurnReport>>>>>);

impl ReportSender {
    pub(crate) fn send(&self, report: Arc<TurnReport>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // The caller may have dropped the handle.
            let _ = sender.send(report);
        }
    }
}

impl ReportHandle {
    pub(crate) fn new() -> (ReportSender, Self) {
        let (sender, receiver) = oneshot::channel();
        (ReportSender(Arc::new(Mutex::new(Some(sender)))), Self(receiver))
    }

    /// Returns the report if the turn has already ended.
    pub fn now(&mut self) -> Option<Arc<TurnReport>> {
        self.0.try_recv().ok().flatten()
    }
}

impl Future for ReportHandle {
    type Output = Option<Arc<TurnReport>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(context).map(Result::ok)
    }
}

impl fmt::Debug for ReportHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportHandle").finish_non_exhaustive()
    }
}
