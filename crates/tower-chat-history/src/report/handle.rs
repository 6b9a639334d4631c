//! How a report comes to the call that asked for it.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_channel::oneshot;
use futures_util::FutureExt as _;

use super::TurnReport;

/// Brings a call's [`TurnReport`] to its caller.
///
/// Resolves when the turn has ended: after the save for a unary call, after the stream's end (or its drop) for a stream.
/// `None` when no turn came to that: the call failed (its caller has the error) or was cancelled. A call that is cloned and
/// tried again has one handle for all attempts.
pub struct ReportHandle(oneshot::Receiver<Arc<TurnReport>>);

/// The other end of a [`ReportHandle`], shared by the clones of a call.
#[derive(Clone)]
pub(crate) struct ReportSender(Arc<Mutex<Option<oneshot::Sender<Arc<TurnReport>>>>>);

impl ReportSender {
    pub(crate) fn send(&self, report: Arc<TurnReport>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Whoever asked for the report may have left.
            let _ = sender.send(report);
        }
    }
}

impl ReportHandle {
    pub(crate) fn new() -> (ReportSender, Self) {
        let (sender, receiver) = oneshot::channel();
        (ReportSender(Arc::new(Mutex::new(Some(sender)))), Self(receiver))
    }

    /// The report, if the turn has ended by now.
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
