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
/// The handle resolves when the turn ends: for a unary call after the save, and for a stream after the save at its
/// end, or after its drop. It resolves to `None` if the call failed or was dropped: the caller then has the error, or
/// has left. If a call is cloned and retried, its one handle receives the report of the first attempt that does not
/// fail.
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

    /// Returns the report if the turn has already ended, without waiting.
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
