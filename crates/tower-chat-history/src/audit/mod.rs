//! Records of who read, changed and erased which conversations.
//!
//! An [`AuditedStore`] wraps a store. It tells an [`Audit`] about each call, after the call: who made it, what it did,
//! to which conversation or under which prefix, and with which outcome. An event never contains messages, summaries or
//! labels. A page of a listing or of an erasure names its prefix, not the conversations of the page. An audit that must
//! not miss a call also [admits](Audit::admit) each call before it begins.
//!
//! Only calls of the `AuditedStore` itself are recorded. A wrapper that works on its own inner store, as
//! `EncryptedStore::reseal` does when it seals items again, calls what is inside it. To record such calls, put the
//! `AuditedStore` into that wrapper.
//!
//! A program that acts for several people creates a handle for each of them:
//!
//! ```
//! use std::sync::Arc;
//! use tower_chat_history::{ConversationId, HistoryStoreExt, MemoryStore, audit::{AuditEvent, AuditedStore}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let write = |event: &AuditEvent| println!("{}", serde_json::to_string(event).unwrap_or_default());
//! let store = AuditedStore::new(MemoryStore::new(), Arc::new(write), "service");
//! let anna = store.acting_as("anna@support").purpose("ticket 4711");
//! let id = ConversationId::new(["acme", "user-42"])?;
//! anna.conversation(&id).messages().await?;
//! # Ok(())
//! # }
//! ```

mod attach;
mod erase;
mod event;
mod reseal;
mod store;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use tower_chat_history_core::{StoreError, Timestamp};

use self::event::Outcome;
pub use self::event::{Action, AuditEvent, Subject};
use crate::error::BoxError;

/// A call that its audit did not admit. Nothing was read or changed.
#[derive(Debug, thiserror::Error)]
#[error("the audit did not admit the call")]
pub struct Refused(#[source] BoxError);

/// A receiver of audit events.
///
/// It is called within the store call, so it must not block: hand the event to a queue or a log. A program with a
/// single task, such as a command line tool, can write to a file.
pub trait Audit: Send + Sync + 'static {
    /// Admits a call that is about to begin. The event has no outcome yet. By default, every call is admitted.
    ///
    /// # Errors
    ///
    /// If this returns an error, for example because the event could not be written, the call is not made. It fails
    /// with [`Backend`](StoreError::Backend), whose source is a [`Refused`], and is not recorded.
    fn admit(&self, event: &AuditEvent) -> Result<(), BoxError> {
        let _ = event;
        Ok(())
    }

    /// Receives an event about a call that has ended. A panic reaches the caller of the store, unless the call was
    /// dropped or panicked itself.
    fn record(&self, event: &AuditEvent);
}

impl<F: Fn(&AuditEvent) + Send + Sync + 'static> Audit for F {
    fn record(&self, event: &AuditEvent) {
        self(event);
    }
}

/// A store that tells an [`Audit`] about each call. See the [module](self).
///
/// It has the abilities of the inner store. A clone is another handle on the same store, for the same actor.
#[derive(Clone)]
pub struct AuditedStore<S> {
    inner: S,
    audit: Arc<dyn Audit>,
    actor: Arc<str>,
    purpose: Option<Arc<str>>,
}

impl<S> AuditedStore<S> {
    /// Wraps a store. `actor` names who makes the calls of this handle.
    pub fn new(inner: S, audit: Arc<dyn Audit>, actor: impl Into<Arc<str>>) -> Self {
        Self { inner, audit, actor: actor.into(), purpose: None }
    }

    /// Sets the purpose of the calls of this handle, such as `export`, or the number of a ticket. The default is none.
    #[must_use]
    pub fn purpose(mut self, purpose: impl Into<Arc<str>>) -> Self {
        self.purpose = Some(purpose.into());
        self
    }

    /// Returns the inner store, whose calls are not recorded.
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: Sync> AuditedStore<S> {
    /// Runs a call if it is admitted, and records it, also if the caller drops the future.
    async fn recorded<T: Outcome + Send>(
        &self,
        action: Action,
        subject: Subject,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let (actor, purpose) = (Arc::clone(&self.actor), self.purpose.clone());
        let at = Timestamp::now();
        let event = AuditEvent { at, actor, purpose, action, subject, exchanges: 0, done: false, error: None };
        self.audit.admit(&event).map_err(|error| StoreError::backend(Refused(error)))?;
        let mut pending = Pending { audit: &*self.audit, event: Some(event) };
        let answer = call.await;
        if let Some(mut event) = pending.event.take() {
            match &answer {
                Ok(outcome) => (event.exchanges, event.done) = (outcome.exchanges(), outcome.is_done()),
                Err(error) => event.error = Some(error.kind()),
            }
            self.audit.record(&event);
        }
        answer
    }
}

impl<S: Clone> AuditedStore<S> {
    /// Returns a handle on the same store for another actor, without a purpose.
    #[must_use]
    pub fn acting_as(&self, actor: impl Into<Arc<str>>) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.audit), actor)
    }
}

impl<S: fmt::Debug> fmt::Debug for AuditedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditedStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// The event of a call that is running. It is recorded if the call does not end by itself.
struct Pending<'a> {
    audit: &'a dyn Audit,
    event: Option<AuditEvent>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(mut event) = self.event.take() else { return };
        event.error = Some(if thread::panicking() { "panicked" } else { "cancelled" });
        // A second panic during the first one would end the process.
        drop(catch_unwind(AssertUnwindSafe(|| self.audit.record(&event))));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt as _;
    use tower_chat_history_core::Prefix;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_recorded_as_one_although_the_receiver_panics_too() {
        let events = Arc::new(Mutex::new(Vec::new()));
        let receiver = Arc::clone(&events);
        let record = move |event: &AuditEvent| {
            receiver.lock().unwrap().push(event.clone());
            panic!("the receiver failed");
        };
        let store = AuditedStore::new((), Arc::new(record), "service");
        let call = async { panic!("the store failed") };
        let call = store.recorded::<()>(Action::Scrub, Subject::Under(Prefix::all()), call);
        assert!(AssertUnwindSafe(call).catch_unwind().await.is_err());
        let events = events.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert_eq!(
            events.iter().map(|event| (event.done, event.error)).collect::<Vec<_>>(),
            [(false, Some("panicked"))]
        );
    }
}
